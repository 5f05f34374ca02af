"""Reductions against TensorFlow Lite Micro and LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import CONTRACTS, TfliteModel, assert_same, integer, operand, quant, rngs, seed

from trivet.core.dtype import F32, I8, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.reduce import ArgMax, ArgMin, Mean, ReduceMax, ReduceMin, Sum

CASES = 60
FLOAT = pytest.param(None, F32, id="f32")
SUM_CONTRACTS = [case for case in CONTRACTS if case.values[0] is Numerics.TFLM]
"""LiteRT's reference SUM reads int8 and int16 as uint8: there is nothing to be equal to."""


def random_axes(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    return tuple(sorted(int(a) for a in rng.choice(rank, integer(rng, 1, rank - 1), replace=False)))


def check_reduction(name: str, op: Op, x_type: TensorType, x: np.ndarray, tolerance: float = 1e-5) -> None:
    """One reduction with an axes tensor; `op` says which axes, contract and output quantization."""
    numerics = getattr(op, "numerics", None)
    model = TfliteModel(numerics)
    axes = np.asarray(op.axes, np.int32)
    ids = [model.tensor(x_type), model.tensor(TensorType(I32, axes.shape), axes)]
    y = model.tensor(op.infer((x_type,))[0])
    model.builder.operator(name, ids, [y], "ReducerOptions", version=2, keep_dims=op.keep_dims)
    assert_same(op, (x_type,), (x,), model.run(ids[:1], y, [x]), tolerance)


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
def test_mean(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 8) for _ in range(4)), dtype)
        out = None if x_type.quant is None else quant(rng, dtype, x_type.quant.scale * 2.0 ** rng.uniform(-3, 1))
        op = Mean(random_axes(rng, 4), bool(integer(rng, 0, 1)), out, numerics)
        check_reduction("MEAN", op, x_type, x)


@pytest.mark.parametrize(("numerics", "dtype"), [*SUM_CONTRACTS, FLOAT])
def test_sum(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 8) for _ in range(4)), dtype)
        out = None if x_type.quant is None else quant(rng, dtype, x_type.quant.scale * 2.0 ** rng.uniform(0, 4))
        op = Sum(random_axes(rng, 4), bool(integer(rng, 0, 1)), out, numerics)
        check_reduction("SUM", op, x_type, x, tolerance=1e-4)


@pytest.mark.parametrize(("name", "kind"), [("REDUCE_MAX", ReduceMax), ("REDUCE_MIN", ReduceMin)])
def test_extremes(name: str, kind: type[ReduceMax] | type[ReduceMin], request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 6) for _ in range(4)), I8)
        check_reduction(name, kind(random_axes(rng, 4), bool(integer(rng, 0, 1))), x_type, x)


@pytest.mark.parametrize(("name", "kind"), [("ARG_MAX", ArgMax), ("ARG_MIN", ArgMin)])
def test_the_first_of_equal_elements_wins(
    name: str, kind: type[ArgMax] | type[ArgMin], request: pytest.FixtureRequest
) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 6) for _ in range(3)), I8)
        x = (x // 64).astype(np.int8)
        axis = integer(rng, 0, 2)
        op = kind(axis, dtype=I32)
        model = TfliteModel(None)
        ids = [model.tensor(x_type), model.tensor(TensorType(I32, (1,)), np.int32([axis]))]
        y = model.tensor(op.infer((x_type,))[0])
        options = "ArgMaxOptions" if kind is ArgMax else "ArgMinOptions"
        model.builder.operator(name, ids, [y], options, version=2, output_type=2)
        assert_same(op, (x_type,), (x,), model.run(ids[:1], y, [x]))


def test_the_mean_of_plain_integers_truncates() -> None:
    x = np.array([[-3, -4], [3, 4]], np.int64)
    assert Mean((1,)).evaluate((x,), (TensorType(I64, x.shape),))[0].tolist() == [-3, 3]


def test_the_mean_of_onnx_rounds_halves_to_even() -> None:
    quantization = Quant.per_tensor(0.5, 0)
    x_type = TensorType(I8, (3, 2), quantization)
    x = np.array([[0, 1], [1, 2], [-1, -2]], np.int8)
    (y,) = Mean((1,), out=quantization, numerics=Numerics.ONNX).evaluate((x,), (x_type,))
    assert y.tolist() == [0, 2, -2]
