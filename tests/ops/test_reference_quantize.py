"""Quantization, and movement of quantized tensors, against TensorFlow Lite Micro and LiteRT, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import TfliteModel, assert_same, integer, operand, quant, restated, rngs, seed, stored

from trivet.core.dtype import F32, I8, I16, I32, U8, DType
from trivet.core.numerics import Numerics
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import movement as m
from trivet.ops.quantize import Dequantize, Quantize, Requantize

CASES = 30
BOTH = pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT], ids=lambda n: n.value)


def check(
    name: str, op: Op, numerics: Numerics, types: tuple[TensorType, ...], arrays: tuple[np.ndarray, ...],
    options: str | None = None, version: int = 2, constants: tuple[np.ndarray, ...] = (), **fields: int | bool,
) -> None:  # fmt: skip
    """`constants` are int32 operands that Trivet's operator has as attributes."""
    model = TfliteModel(numerics)
    inputs = [model.tensor(type_) for type_ in types]
    ids = [*inputs, *(model.tensor(TensorType(I32, c.shape), c.astype(np.int32)) for c in constants)]
    y = model.tensor(op.infer(types)[0])
    model.builder.operator(name, ids, [y], options, version=version, **fields)
    result = model.run(inputs, y, arrays)
    is_unsigned = op.infer(types)[0].dtype is U8
    assert_same(op, types, arrays, restated(result) if is_unsigned else result, tolerance=1e-6)


@BOTH
@pytest.mark.parametrize("dtype", [I8, I16], ids=lambda d: d.name)
def test_quantize_rounds_halves_away_from_zero(
    numerics: Numerics, dtype: DType, request: pytest.FixtureRequest
) -> None:
    for rng in rngs(seed(request), CASES):
        out = quant(rng, dtype)
        steps = rng.integers(-600, 600, 500) / 2 if integer(rng, 0, 1) else rng.normal(size=500) * 100
        x = (steps * out.scale).astype(np.float32)
        check("QUANTIZE", Quantize(out, dtype, numerics), numerics, (TensorType(F32, (500,)),), (x,), "QuantizeOptions")


@BOTH
@pytest.mark.parametrize("dtype", [I8, I16], ids=lambda d: d.name)
def test_dequantize(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (500,), dtype)
        check("DEQUANTIZE", Dequantize(), numerics, (x_type,), (x,), "DequantizeOptions")


PAIRS = [(I8, I8), (I8, U8), (U8, I8), (I8, I16), (I16, I8), (I16, I16), (I16, I32)]


@BOTH
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda d: d.name)
def test_requantize(numerics: Numerics, source: DType, target: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_quant = quant(rng, source)
        x_type = TensorType(source, (500,), x_quant)
        out = quant(rng, I16 if target is I32 else target, x_quant.scale * 2.0 ** rng.uniform(-3, 3))
        op = Requantize(out, target, numerics)
        check("QUANTIZE", op, numerics, (x_type,), (stored(rng, (500,), source),), "QuantizeOptions")


@BOTH
def test_transpose(numerics: Numerics, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 6) for _ in range(4)), I8)
        perm = tuple(int(p) for p in rng.permutation(4))
        check(
            "TRANSPOSE", m.Transpose(perm), numerics, (x_type,), (x,), "TransposeOptions", constants=(np.array(perm),)
        )


@BOTH
def test_pad_holds_the_zero_point(numerics: Numerics, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 6) for _ in range(4)), I8)
        assert x_type.quant is not None
        widths = rng.integers(0, 4, (4, 2))
        op = m.Pad(tuple(map(int, widths[:, 0])), tuple(map(int, widths[:, 1])), x_type.quant.zero_point)
        check("PAD", op, numerics, (x_type,), (x,), "PadOptions", constants=(widths,))


@BOTH
def test_strided_slice(numerics: Numerics, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 8) for _ in range(4)), I8)
        starts = [integer(rng, 0, d - 1) for d in x_type.shape]
        steps = [integer(rng, 1, 3) for _ in range(4)]
        sizes = [integer(rng, 1, (d - 1 - s) // k + 1) for d, s, k in zip(x_type.shape, starts, steps, strict=True)]
        stops = [s + (n - 1) * k + 1 for s, n, k in zip(starts, sizes, steps, strict=True)]
        op = m.Slice(tuple(starts), tuple(sizes), tuple(steps))
        constants = (np.array(starts), np.array(stops), np.array(steps))
        check("STRIDED_SLICE", op, numerics, (x_type,), (x,), "StridedSliceOptions", constants=constants)


@BOTH
def test_concat(numerics: Numerics, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 6) for _ in range(4)), I8)
        axis = integer(rng, 0, 3)
        shape = (*x_type.shape[:axis], integer(rng, 1, 5), *x_type.shape[axis + 1 :])
        types, arrays = (x_type, x_type.with_shape(shape)), (x, stored(rng, shape, I8))
        check("CONCATENATION", m.Concat(axis), numerics, types, arrays, "ConcatenationOptions", axis=axis)


@BOTH
@pytest.mark.parametrize("kind", [m.SpaceToDepth, m.DepthToSpace], ids=lambda kind: kind.name)
def test_blocks_of_pixels(
    kind: type[m.SpaceToDepth | m.DepthToSpace], numerics: Numerics, request: pytest.FixtureRequest
) -> None:
    for rng in rngs(seed(request), CASES):
        block = integer(rng, 1, 3)
        n, h, w, c = (integer(rng, 1, 4) for _ in range(4))
        is_space = kind is m.SpaceToDepth
        x_type, x = operand(rng, (n, h * block, w * block, c) if is_space else (n, h, w, c * block**2), I8)
        options = "SpaceToDepthOptions" if is_space else "DepthToSpaceOptions"
        check(kind.name.upper(), kind(block), numerics, (x_type,), (x,), options, version=1, block_size=block)


@BOTH
def test_gather(numerics: Numerics, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, tuple(integer(rng, 1, 6) for _ in range(3)), I8)
        axis = integer(rng, 0, 2)
        indices = rng.integers(0, x_type.shape[axis], integer(rng, 1, 5)).astype(np.int32)
        types = (x_type, TensorType(I32, indices.shape))
        check("GATHER", m.Gather(axis), numerics, types, (x, indices), "GatherOptions", axis=axis)
