"""Softmax and reductions on int8 and float32 equal their operators."""

from __future__ import annotations

import ctypes

import pytest
from kernel_runs import check_node, node_of
from product_cases import CONTRACTS, Layers

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ops.pool import AveragePool2D
from trivet.ops.reduce import Mean, ReduceMax, ReduceMin, ReduceProd, Sum
from trivet.ops.softmax import Softmax

SHAPES = [((1, 7), 1), ((3, 300), 1), ((2, 5, 6, 11), 3), ((1, 1), 1), ((4, 4095), 1)]
SCORES = Quant.per_tensor(1 / 256, -128)


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("scale", [0.001, 0.05, 0.7, 4.0])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_softmax_s8(library: ctypes.CDLL, shape: tuple[int, ...], axis: int, scale: float, beta: float) -> None:
    x, type_ = Layers(1).activation(shape)
    type_ = type(type_)(I8, shape, Quant.per_tensor(scale, 3))
    check_node(library, node_of(Softmax(axis, beta, SCORES, I8, Numerics.TFLM), type_), [x])


@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, ((2, 5, 6, 11), 1), ((2, 5, 6, 11), 2), ((3, 4, 5), 0)], ids=str)
def test_softmax_f32(library: ctypes.CDLL, shape: tuple[int, ...], axis: int) -> None:
    x, type_ = Layers(2).floats(shape)
    check_node(library, node_of(Softmax(axis, 1.5, dtype=F32), type_), [x * 9], 1e-5)


REDUCTIONS = [
    ((1, 8, 9, 32), (1, 2)),
    ((3, 5, 4, 7), (1, 2)),
    ((2, 6, 5), (1,)),
    ((2, 6, 5), (2,)),
    ((2, 6, 5), (0, 1)),
    ((1, 6, 1, 5), (1, 3)),
    ((4, 9), (0, 1)),
    ((1, 3, 3, 2), (3,)),
    ((2, 3, 2, 150), (1, 2)),
]


@pytest.mark.parametrize("keep", [False, True], ids=["drop", "keep"])
@pytest.mark.parametrize(("shape", "axes"), REDUCTIONS, ids=str)
@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("kind", [Mean, Sum])
def test_sums_s8(
    library: ctypes.CDLL,
    kind: type[Mean | Sum],
    numerics: Numerics,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    keep: bool,
) -> None:
    layers = Layers(4)
    for factor in (1.0, 0.61, 2.3):
        x, type_ = layers.activation(shape)
        assert type_.quant is not None
        out = Quant.per_tensor(type_.quant.scale * factor, int(layers.rng.integers(-128, 128)))
        check_node(library, node_of(kind(axes, keep, out, numerics), type_), [x])


@pytest.mark.parametrize(("shape", "axes"), REDUCTIONS, ids=str)
@pytest.mark.parametrize("kind", [Mean, Sum, ReduceMax, ReduceMin, ReduceProd], ids=lambda k: k.name)
def test_folds_f32(library: ctypes.CDLL, kind: type, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x, type_ = Layers(5).floats(shape)
    check_node(library, node_of(kind(axes, True), type_), [x], 1e-5)


@pytest.mark.parametrize(("shape", "axes"), REDUCTIONS, ids=str)
@pytest.mark.parametrize("kind", [ReduceMax, ReduceMin], ids=lambda k: k.name)
def test_extremes_s8(library: ctypes.CDLL, kind: type, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x, type_ = Layers(6).activation(shape)
    check_node(library, node_of(kind(axes, False), type_), [x])


@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("shape", [(1, 25, 5, 64), (2, 3, 4, 5), (1, 1, 1, 3), (1, 3, 2, 130)], ids=str)
def test_the_average_of_a_whole_map(library: ctypes.CDLL, numerics: Numerics, shape: tuple[int, ...]) -> None:
    x, type_ = Layers(7).activation(shape)
    for clamp in (UNBOUNDED, Bounds(-3, 5)):
        node = node_of(AveragePool2D(shape[1:3], shape[1:3], clamp=clamp, out=type_.quant, numerics=numerics), type_)
        check_node(library, node, [x])
    floats, type_ = Layers(8).floats(shape)
    check_node(library, node_of(AveragePool2D(shape[1:3], clamp=Bounds(-0.1, 0.1)), type_), [floats], 1e-5)
