"""Operators of two operands against TensorFlow Lite Micro and LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import CONTRACTS, TfliteModel, activation, assert_same, fused, integer, operand, quant, rngs, seed

from trivet.core.dtype import F32, I8, I16, I32, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import elementwise as e

CASES = 40
FLOAT = pytest.param(None, F32, id="f32")
Operands = tuple[tuple[TensorType, TensorType], tuple[np.ndarray, np.ndarray]]
Arithmetic = type[e.Add] | type[e.Sub] | type[e.Mul]
OPTIONS = {e.Add: "AddOptions", e.Sub: "SubOptions", e.Mul: "MulOptions"}


def only(*contracts: tuple[Numerics, DType]) -> list[object]:
    return [case for case in CONTRACTS if case.values in contracts]


def pair(rng: np.random.Generator, dtype: DType) -> Operands:
    """Two operands of one shape, or with the second repeated along leading axes."""
    shape = tuple(integer(rng, 1, 7) for _ in range(4))
    a, x = operand(rng, shape, dtype)
    b, z = operand(rng, shape if integer(rng, 0, 1) else (1, 1, 1, shape[3]), dtype)
    return (a, b), (x, z)


def check(
    name: str, op: Op, numerics: Numerics | None, types: tuple[TensorType, ...], arrays: tuple[np.ndarray, ...],
    options: str | None = None, **fields: int | bool,
) -> None:  # fmt: skip
    model = TfliteModel(numerics)
    ids = [model.tensor(type_) for type_ in types]
    y = model.tensor(op.infer(types)[0])
    model.builder.operator(name, ids, [y], options, version=2, **fields)
    assert_same(op, types, arrays, model.run(ids, y, arrays), tolerance=1e-6)


def sum_quant(rng: np.random.Generator, a: TensorType, b: TensorType) -> Quant:
    """A result scale that the kernels accept: 2*max / 2^20 / scale stays below 1."""
    assert a.quant is not None and b.quant is not None
    return quant(rng, a.dtype, max(a.quant.scale, b.quant.scale) * 2.0 ** rng.uniform(-2, 3))


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
@pytest.mark.parametrize("kind", [e.Add, e.Sub], ids=lambda kind: kind.name)
def test_sums(
    kind: type[e.Add | e.Sub], numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest
) -> None:
    for rng in rngs(seed(request), CASES):
        types, arrays = pair(rng, dtype)
        out = None if dtype is F32 else sum_quant(rng, *types)
        code = activation(rng)
        op = kind(fused(code, out), out, numerics)
        fields = {"fused_activation_function": code, "pot_scale_int16": False}
        check(kind.name.upper(), op, numerics, types, arrays, OPTIONS[kind], **fields)


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
def test_products(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        types, arrays = pair(rng, dtype)
        out = None
        if types[0].quant is not None and types[1].quant is not None:
            size = 64 if dtype is I8 else 16384
            out = quant(rng, dtype, types[0].quant.scale * types[1].quant.scale * size * 2.0 ** rng.uniform(-2, 1))
        code = activation(rng)
        op = e.Mul(fused(code, out), out, numerics)
        check("MUL", op, numerics, types, arrays, "MulOptions", fused_activation_function=code)


@pytest.mark.parametrize(("numerics", "dtype"), only((Numerics.TFLM, I8), (Numerics.LITERT_U8, I8)))
def test_quotients(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    """Quotients of at least one step: of smaller ones the reference's shift may leave 32 bits, which is undefined."""
    for rng in rngs(seed(request), CASES):
        (a, b), (x, z) = pair(rng, dtype)
        assert a.quant is not None and b.quant is not None
        zero = b.quant.zero_point
        z = np.where(z == zero, zero + (1 if zero < 127 else -1), z).astype(np.int8)
        out = quant(rng, dtype, a.quant.scale / b.quant.scale * 2.0 ** rng.uniform(-4, 1))
        op = e.Div(out=out, numerics=numerics)
        model = TfliteModel(numerics)
        ids, y = [model.tensor(a), model.tensor(b)], model.tensor(op.infer((a, b))[0])
        model.builder.operator("DIV", ids, [y], "DivOptions", version=2)
        (result,) = op.evaluate((x, z), (a, b))
        real = a.quant.scale * (x - float(a.quant.zero_point)) / (b.quant.scale * (z - float(zero)))
        is_defined = np.abs(real) >= out.scale
        np.testing.assert_array_equal(result[is_defined], model.run(ids, y, (x, z))[is_defined])


@pytest.mark.parametrize(("numerics", "dtype"), only((Numerics.TFLM, I8), (Numerics.TFLM, I16), (Numerics.LITERT, I8)))
def test_squared_differences(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        types, arrays = pair(rng, dtype)
        assert types[0].quant is not None and types[1].quant is not None
        largest = max(types[0].quant.scale, types[1].quant.scale)
        size = 100 if dtype is I8 else 30000
        out = quant(rng, dtype, largest * largest * size * 2.0 ** rng.uniform(0, 3))
        op = e.SquaredDifference(out=out, numerics=numerics)
        check("SQUARED_DIFFERENCE", op, numerics, types, arrays, "SquaredDifferenceOptions")


@pytest.mark.parametrize("kind", [e.Maximum, e.Minimum], ids=lambda kind: kind.name)
def test_extrema_compare_stored_values(kind: type[e.Maximum | e.Minimum], request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        types, arrays = pair(rng, I8)
        op = kind(types[0].quant)
        check(kind.name.upper(), op, Numerics.LITERT, types, arrays, "MaximumMinimumOptions")


COMPARISONS = {
    e.Equal: "Equal", e.NotEqual: "NotEqual", e.Less: "Less", e.LessEqual: "LessEqual", e.Greater: "Greater",
    e.GreaterEqual: "GreaterEqual",
}  # fmt: skip


@pytest.mark.parametrize(
    ("numerics", "dtype"), only((Numerics.TFLM, I8), (Numerics.LITERT, I8), (Numerics.LITERT_U8, I8))
)
@pytest.mark.parametrize("kind", COMPARISONS, ids=lambda kind: kind.name)
def test_comparisons_rescale_both_operands(
    kind: type[e.Comparison], numerics: Numerics, dtype: DType, request: pytest.FixtureRequest
) -> None:
    """Scales below 1: the kernels abort at others."""
    for rng in rngs(seed(request), 10):
        types, arrays = pair(rng, dtype)
        if all(t.quant is not None and t.quant.scale < 1 for t in types):
            check(kind.name.upper(), kind(numerics), numerics, types, arrays, f"{COMPARISONS[kind]}Options")


@pytest.mark.parametrize("kind", [e.Add, e.Sub, e.Mul], ids=lambda kind: kind.name)
def test_plain_integers_wrap(kind: Arithmetic) -> None:
    values = np.array([2**31 - 1, -(2**31), 3, -7], np.int32)
    types = (TensorType(I32, (4, 1)), TensorType(I32, (4,)))
    (result,) = kind().evaluate((values.reshape(4, 1), values), types)
    exact = {e.Add: np.add, e.Sub: np.subtract, e.Mul: np.multiply}[kind](
        values.astype(object).reshape(4, 1), values.astype(object)
    )
    wrapped = [((int(v) + 2**31) % 2**32) - 2**31 for v in exact.ravel()]
    assert result.ravel().tolist() == wrapped


def test_plain_quotients_truncate_and_never_trap() -> None:
    a = np.array([7, -7, 7, -7, 5, -(2**31)], np.int32)
    b = np.array([2, 2, -2, -2, 0, -1], np.int32)
    (result,) = e.Div().evaluate((a, b), (TensorType(I32, (6,)), TensorType(I32, (6,))))
    assert result.tolist() == [3, -3, -3, 3, 0, -(2**31)]
