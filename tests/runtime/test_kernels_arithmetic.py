"""Arithmetic of two operands equals its operators, whatever the scales and however the shapes broadcast."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import CONTRACTS

from trivet.backends.plan.kernels.linear import find_linear, pair_table
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8, I32
from trivet.core.numerics import Numerics, Overflow
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import Shape, TensorType
from trivet.ops import elementwise as e

PAIRS: list[tuple[Shape, Shape]] = [
    ((2, 5, 6, 7), (2, 5, 6, 7)),
    ((2, 5, 6, 7), (1, 5, 6, 7)),
    ((1, 5, 6, 7), (7,)),
    ((1, 5, 6, 7), (1, 5, 1, 7)),
    ((1, 5, 6, 1), (1, 1, 6, 7)),
    ((2, 1, 1, 7), (2, 5, 6, 7)),
    ((1, 5, 6, 7), (1, 1, 1, 1)),
    ((3, 1, 4, 1, 2), (1, 5, 4, 3, 1)),
    ((11,), (11,)),
    ((3, 1), (1, 4)),
]
INTEGER = [e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference]


def stored(shape: Shape, rng: np.random.Generator, scale: float) -> tuple[np.ndarray, TensorType]:
    quant = Quant.per_tensor(scale, int(rng.integers(-128, 128)))
    return rng.integers(-128, 128, shape).astype(np.int8), TensorType(I8, shape, quant)


def kernel_name(op: Op, *types: TensorType) -> str:
    call = KERNELS.select(node_of(op, *types))
    assert call is not None
    return call.kernel.name


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
@pytest.mark.parametrize("kind", INTEGER, ids=lambda k: k.name)
@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
def test_int8(library: ctypes.CDLL, kind: type, numerics: Numerics, a: Shape, b: Shape) -> None:
    rng = np.random.default_rng(7)
    (x, x_type), (z, z_type) = stored(a, rng, 0.031), stored(b, rng, 0.043)
    op = kind(clamp=Bounds(-90, 100), out=Quant.per_tensor(0.06, 5), numerics=numerics)
    check_node(library, node_of(op, x_type, z_type), [x, z])


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_a_constant_operand(library: ctypes.CDLL, a: Shape, b: Shape) -> None:
    rng = np.random.default_rng(8)
    (x, x_type), (z, z_type) = stored(a, rng, 0.031), stored(b, rng, 0.043)
    if len(b) == 4 and b[0] != 1:
        pytest.skip("a constant with several images has no kernel")
    for kind in (e.Add, e.Mul, e.Sub):
        op = kind(out=Quant.per_tensor(0.06, 5), numerics=Numerics.TFLM)
        check_node(library, node_of(op, x_type, (z, z_type)), [x])


def test_a_constant_number_is_a_table() -> None:
    rng = np.random.default_rng(9)
    _, x = stored((1, 4, 4, 2), rng, 0.02)
    op = e.Mul(out=Quant.per_tensor(0.01, 0), numerics=Numerics.TFLM)
    call = KERNELS.select(node_of(op, x, (np.array([7], np.int8), TensorType(I8, (1,), Quant.per_tensor(0.5, 1)))))
    assert call is not None and call.kernel.name == "lookup_s8"


# Found by Hypothesis: the constant lies beyond 2^30, where bounds that nothing holds were cut off.
@example(scales=(0.654296875, 0.0625, 0.375), zeros=(92, 0, -96), sign=e.Add, numerics=Numerics.TFLM)
@settings(max_examples=60)
@given(
    scales=st.tuples(*[st.floats(1e-3, 1.0)] * 3),
    zeros=st.tuples(*[st.integers(-128, 127)] * 3),
    sign=st.sampled_from([e.Add, e.Sub]),
    numerics=st.sampled_from(CONTRACTS),
)
def test_a_linear_form_is_exact_for_every_pair(
    scales: tuple[float, ...], zeros: tuple[int, ...], sign: type, numerics: Numerics
) -> None:
    a, b, out = (Quant.per_tensor(s, z) for s, z in zip(scales, zeros, strict=True))
    if 2 * max(a.scale, b.scale) >= (1 << 20) * out.scale:
        return
    op = sign(out=out, numerics=numerics)
    table = pair_table(op, TensorType(I8, (), a), TensorType(I8, (), b))
    factor = 1 if sign is e.Add else -1
    found = find_linear(table, a.scale / out.scale, factor * b.scale / out.scale)
    if found is None:
        return
    values = np.arange(-128, 128, dtype=np.int64)
    total = found.a * values[:, None] + found.b * values[None, :] + found.constant
    assert np.abs(total).max() < 1 << 31
    np.testing.assert_array_equal(np.clip(total >> found.shift, table.min(), table.max()), table)


def test_usual_scales_have_a_linear_form_and_others_do_without() -> None:
    def add(a: float, b: float, out: float) -> str:
        op = e.Add(out=Quant.per_tensor(out, -128), numerics=Numerics.TFLM)
        types = [TensorType(I8, (1, 4, 4, 8), Quant.per_tensor(s, z)) for s, z in ((a, -128), (b, 3))]
        return kernel_name(op, *types)

    assert add(0.0419, 0.0681, 0.0672) == "linear_s8"
    assert add(0.9, 0.0011, 0.004) == "sum_s8"


@settings(max_examples=60)
@given(
    scales=st.tuples(*[st.floats(1e-3, 1.0)] * 3),
    numerics=st.sampled_from(CONTRACTS),
    kind=st.sampled_from(INTEGER),
    data=st.data(),
)
def test_any_scales(
    library: ctypes.CDLL, scales: tuple[float, ...], numerics: Numerics, kind: type, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    (x, x_type), (z, z_type) = stored((4, 67), rng, scales[0]), stored((4, 67), rng, scales[1])
    op = kind(out=Quant.per_tensor(scales[2], data.draw(st.integers(-128, 127))), numerics=numerics)
    if 2 * max(scales[:2]) < (1 << 20) * scales[2] * 0.99:
        check_node(library, node_of(op, x_type, z_type), [x, z])


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
@pytest.mark.parametrize("kind", [e.Maximum, e.Minimum], ids=lambda k: k.name)
def test_extremes(library: ctypes.CDLL, kind: type, a: Shape, b: Shape) -> None:
    rng = np.random.default_rng(3)
    (x, x_type), (z, z_type) = stored(a, rng, 0.03), stored(b, rng, 0.03)
    check_node(library, node_of(kind(out=x_type.quant), x_type, z_type), [x, z])
    floats = [rng.normal(size=s).astype(np.float32) for s in (a, b)]
    check_node(library, node_of(kind(), *(TensorType(F32, f.shape) for f in floats)), floats, 0)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
@pytest.mark.parametrize("kind", [*INTEGER, e.Pow], ids=lambda k: k.name)
@pytest.mark.parametrize("clamp", [UNBOUNDED, Bounds(0, 6)], ids=["unbounded", "relu6"])
def test_float(library: ctypes.CDLL, kind: type, a: Shape, b: Shape, clamp: Bounds) -> None:
    rng = np.random.default_rng(4)
    floats = [np.abs(rng.normal(size=s)).astype(np.float32) + np.float32(0.1) for s in (a, b)]
    op = e.Pow() if kind is e.Pow else kind(clamp=clamp)
    check_node(library, node_of(op, *(TensorType(F32, f.shape) for f in floats)), floats, 1e-6)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
@pytest.mark.parametrize("kind", [*INTEGER, e.Maximum, e.Minimum], ids=lambda k: k.name)
def test_int32_wraps(library: ctypes.CDLL, kind: type, a: Shape, b: Shape) -> None:
    rng = np.random.default_rng(5)
    ints = [rng.integers(-(1 << 31), 1 << 31, s).astype(np.int32) for s in (a, b)]
    if kind is e.Div:
        ints[1][ints[1] == 0] = 1
        ints[0].flat[0], ints[1].flat[0] = -(1 << 31), -1
    check_node(library, node_of(kind(), *(TensorType(I32, i.shape) for i in ints)), ints)


@pytest.mark.parametrize("dtypes", [(I8, I8), (I8, I32), (I32, I8), (I32, I32)], ids=str)
@pytest.mark.parametrize(("a", "b"), [((4, 6), (6,)), ((4, 6), (4, 6)), ((5,), (5,))], ids=str)
def test_exact_sums(library: ctypes.CDLL, dtypes: tuple, a: Shape, b: Shape) -> None:
    rng = np.random.default_rng(6)
    arrays = [rng.integers(-100, 100, s).astype(t.numpy) for s, t in zip((a, b), dtypes, strict=True)]
    types = [TensorType(t, array.shape) for t, array in zip(dtypes, arrays, strict=True)]
    check_node(library, node_of(e.Add(overflow=Overflow.EXACT), *types), arrays)
