"""Matrix products against TensorFlow Lite Micro and LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import (
    CONTRACTS,
    TfliteModel,
    activation,
    assert_same,
    bias,
    fused,
    integer,
    operand,
    output_quant,
    quant,
    rngs,
    seed,
    weight,
)

from trivet.core.dtype import F32, I8, I16, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.types import TensorType
from trivet.ops.matmul import BatchMatMul, Dense, MatMul

CASES = 60


@pytest.mark.parametrize(("numerics", "dtype"), CONTRACTS)
def test_dense(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        rows, terms, results = integer(rng, 1, 8), integer(rng, 1, 200), integer(rng, 2, 16)
        x_type, x = operand(rng, (rows, terms), dtype)
        per_channel = numerics is not Numerics.LITERT_U8 and bool(integer(rng, 0, 1))
        w_type, w = weight(rng, (results, terms), 0, numerics, per_channel)
        b_type, b = bias(rng, x_type, w_type, results, terms, I64 if dtype is I16 else I32)
        out, code = output_quant(rng, x_type, w_type, terms), activation(rng)
        has_bias = integer(rng, 0, 3) > 0
        op = Dense(fused(code, out), out, numerics)
        types, arrays = ((x_type, w_type, b_type), (x, w, b)) if has_bias else ((x_type, w_type), (x, w))

        model = TfliteModel(numerics)
        ids = [model.tensor(x_type), model.tensor(w_type, w), model.tensor(b_type, b) if has_bias else -1]
        y = model.tensor(op.infer(types)[0])
        model.builder.operator(
            "FULLY_CONNECTED",
            ids,
            [y],
            "FullyConnectedOptions",
            version=12 if per_channel else 4,
            fused_activation_function=code,
        )
        assert_same(op, types, arrays, model.run(ids[:1], y, [x]))


def test_float_dense(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        rows, terms, results, code = integer(rng, 1, 4), integer(rng, 1, 64), integer(rng, 1, 8), activation(rng)
        operands = [operand(rng, shape, F32) for shape in ((rows, terms), (results, terms), (results,))]
        types, arrays = (tuple(column) for column in zip(*operands, strict=True))
        op = Dense(fused(code, None))
        model = TfliteModel(None)
        ids = [model.tensor(types[0]), model.tensor(types[1], arrays[1]), model.tensor(types[2], arrays[2])]
        y = model.tensor(op.infer(types)[0])
        model.builder.operator("FULLY_CONNECTED", ids, [y], "FullyConnectedOptions", fused_activation_function=code)
        assert_same(op, types, arrays, model.run(ids[:1], y, arrays[:1]))


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS[:4], pytest.param(None, F32, id="f32")])
def test_batch_matmul(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        batch = tuple(integer(rng, 1, 3) for _ in range(integer(rng, 1, 2)))
        m, k, n, transpose = integer(rng, 1, 6), integer(rng, 1, 24), integer(rng, 1, 6), bool(integer(rng, 0, 1))
        a_type, a = operand(rng, (*batch, m, k), dtype)
        b_type, b = operand(rng, (*batch, n, k) if transpose else (*batch, k, n), dtype)
        out = None
        if a_type.quant is not None and b_type.quant is not None:
            full = 127 if dtype is I8 else 32767
            out = quant(rng, dtype, a_type.quant.scale * b_type.quant.scale * k**0.5 * full * 2.0 ** rng.uniform(-1, 1))
        op = BatchMatMul(transpose, out, numerics)
        types = (a_type, b_type)
        assert_same(op, types, (a, b), run_batch_matmul(op, types, (a, b)))


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT], ids=lambda n: n.value)
def test_the_precision_of_the_multiplier_of_two_activations(numerics: Numerics) -> None:
    """Sums of 29 bits at which sa*sb rounded to float32 and the exact product give different results."""
    terms, columns = 8192, 64
    a_type = TensorType(I8, (1, terms), Quant.per_tensor(0.0123, -128))
    b_type = TensorType(I8, (terms, columns), Quant.per_tensor(0.0457, -128))
    out = Quant.per_tensor(2345.0, 0)
    assert a_type.quant is not None and b_type.quant is not None
    exact = a_type.quant.scale * b_type.quant.scale
    rounded = float(np.float32(a_type.quant.scale) * np.float32(b_type.quant.scale))
    halves = np.linspace(20, 120, columns).astype(int) + 0.5
    sums = np.rint(halves * out.scale * (1 / exact + 1 / rounded) / 2).astype(np.int64)
    assert np.rint(sums * exact / out.scale).tolist() != np.rint(sums * rounded / out.scale).tolist()

    a = np.full(a_type.shape, 127, np.int8)
    a[0, 0] = -127
    arrays = (a, columns_with_sums(sums, terms))
    op, types = BatchMatMul(out=out, numerics=numerics), (a_type, b_type)
    assert_same(op, types, arrays, run_batch_matmul(op, types, arrays))


def columns_with_sums(sums: np.ndarray, terms: int) -> np.ndarray:
    """int8 columns with zero point -128 whose products with (1, 255, 255, ...) add up to `sums`: [terms, len(sums)]."""
    stored = np.empty((terms, len(sums)), np.int64)
    for column, total in enumerate(sums):
        quotient, stored[0, column] = divmod(int(total), 255)
        each, more = divmod(quotient, terms - 1)
        stored[1:, column] = each
        stored[1 : 1 + more, column] += 1
    assert stored.max() <= 255, "the sums are out of reach"
    return (stored - 128).astype(np.int8)


def run_batch_matmul(op: BatchMatMul, types: tuple[TensorType, ...], arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    model = TfliteModel(op.numerics)
    ids = [model.tensor(type_) for type_ in types]
    y = model.tensor(op.infer(types)[0])
    model.builder.operator("BATCH_MATMUL", ids, [y], "BatchMatMulOptions", version=3, adj_y=op.transpose_b)
    return model.run(ids, y, arrays)


def test_matmul_is_exact_at_any_size() -> None:
    """Products beyond what a float type holds are summed in integers."""
    a, b = np.full((1, 3), 2**30, np.int32), np.array([[2**30], [1], [-(2**30)]], np.int32)
    types = (TensorType(I32, a.shape), TensorType(I32, b.shape))
    assert MatMul().evaluate((a, b), types)[0].item() == 2**30
