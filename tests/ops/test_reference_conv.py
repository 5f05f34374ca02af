"""Convolutions against TensorFlow Lite Micro and LiteRT's reference kernels, bit for bit."""

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
    rngs,
    seed,
    stored,
    weight,
)

from trivet.core.dtype import F32, I8, I16, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.windows import Pads2D

CASES = 60
SAME, VALID = 0, 1
BIAS_TYPE_CODES = {I32: 2, I64: 4}

Geometry = tuple[tuple[int, int], tuple[int, int], tuple[int, int], Pads2D, int]
"""Kernel, stride, dilation, pads, padding code."""


def same_pads(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """TensorFlow Lite's SAME: as many windows as strides, the odd element of padding after."""
    windows = -(-size // stride)
    total = max(0, (windows - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def geometry(rng: np.random.Generator, size: tuple[int, int], dilate: bool = True) -> Geometry:
    """A window that fits; never both a stride and a dilation, which TensorFlow Lite forbids."""
    kernel = (integer(rng, 1, min(4, size[0])), integer(rng, 1, min(4, size[1])))
    dilated = dilate and integer(rng, 0, 2) == 0
    dilation = (integer(rng, 1, 2), integer(rng, 1, 2)) if dilated else (1, 1)
    stride = (1, 1) if dilated else (integer(rng, 1, 3), integer(rng, 1, 3))
    fits = all(s >= (k - 1) * d + 1 for s, k, d in zip(size, kernel, dilation, strict=True))
    if fits and integer(rng, 0, 1):
        return kernel, stride, dilation, ((0, 0), (0, 0)), VALID
    rows, columns = (same_pads(*parts) for parts in zip(size, kernel, stride, dilation, strict=True))
    return kernel, stride, dilation, (rows, columns), SAME


def sums_dtype(rng: np.random.Generator, dtype: DType) -> DType:
    """The bias of int16 activations has 64 or 32 bits, and decides the arithmetic."""
    return I32 if dtype is I8 or integer(rng, 0, 2) == 0 else I64


@pytest.mark.parametrize(("numerics", "dtype"), CONTRACTS)
def test_conv2d(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (integer(rng, 1, 2), integer(rng, 3, 10), integer(rng, 3, 10), 4), dtype)
        kernel, stride, dilation, pads, padding = geometry(rng, x.shape[1:3])
        groups = 1 if numerics is Numerics.LITERT_U8 else int(rng.choice([1, 1, 2]))
        shape = (groups * integer(rng, 1, 4), *kernel, 4 // groups)
        terms = int(np.prod(shape[1:]))
        per_channel = numerics is not Numerics.LITERT_U8 and integer(rng, 0, 2) > 0
        w_type, w = weight(rng, shape, 0, numerics, per_channel)
        b_type, b = bias(rng, x_type, w_type, shape[0], terms, sums_dtype(rng, dtype))
        out, code = output_quant(rng, x_type, w_type, terms), activation(rng)
        op = Conv2D(stride, dilation, pads, groups, fused(code, out), out, numerics)
        types = (x_type, w_type, b_type)

        model = TfliteModel(numerics)
        ids = [model.tensor(x_type), model.tensor(w_type, w), model.tensor(b_type, b)]
        y = model.tensor(op.infer(types)[0])
        model.builder.operator(
            "CONV_2D",
            ids,
            [y],
            "Conv2DOptions",
            version=8 if dtype is I16 else 5,
            padding=padding,
            stride_h=stride[0],
            stride_w=stride[1],
            dilation_h_factor=dilation[0],
            dilation_w_factor=dilation[1],
            fused_activation_function=code,
            quantized_bias_type=BIAS_TYPE_CODES[b_type.dtype] if dtype is I16 else 0,
        )
        assert_same(op, types, (x, w, b), model.run(ids[:1], y, [x]))


@pytest.mark.parametrize(("numerics", "dtype"), CONTRACTS)
def test_depthwise_conv2d(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        channels, multiplier = integer(rng, 1, 5), integer(rng, 1, 3)
        x_type, x = operand(rng, (1, integer(rng, 3, 10), integer(rng, 3, 10), channels), dtype)
        kernel, stride, dilation, pads, padding = geometry(rng, x.shape[1:3])
        shape, terms = (*kernel, channels * multiplier), kernel[0] * kernel[1]
        w_type, w = weight(rng, shape, 2, numerics, per_channel=numerics is not Numerics.LITERT_U8)
        b_type, b = bias(rng, x_type, w_type, shape[2], terms, I64 if dtype is I16 else I32)
        out, code = output_quant(rng, x_type, w_type, terms), activation(rng)
        op = DepthwiseConv2D(stride, dilation, pads, fused(code, out), out, numerics)
        types = (x_type, w_type, b_type)

        model = TfliteModel(numerics)
        file_weight = model.tensor(w_type.with_shape((1, *shape)), w.reshape(1, *shape), axis=3)
        ids = [model.tensor(x_type), file_weight, model.tensor(b_type, b)]
        y = model.tensor(op.infer(types)[0])
        model.builder.operator(
            "DEPTHWISE_CONV_2D",
            ids,
            [y],
            "DepthwiseConv2DOptions",
            version=5,
            padding=padding,
            stride_h=stride[0],
            stride_w=stride[1],
            dilation_h_factor=dilation[0],
            dilation_w_factor=dilation[1],
            depth_multiplier=multiplier,
            fused_activation_function=code,
        )
        assert_same(op, types, (x, w, b), model.run(ids[:1], y, [x]))


def transposed_pads(size: int, new_size: int, kernel: int, stride: int, padding: int) -> tuple[tuple[int, int], int]:
    """Pads and output pads that make TensorFlow Lite's output size from an operand of `size`."""
    before = same_pads(new_size, kernel, stride, 1)[0] if padding == SAME else 0
    excess = (size - 1) * stride + kernel - before - new_size
    return (before, max(excess, 0)), max(-excess, 0)


@pytest.mark.parametrize(("numerics", "dtype"), CONTRACTS[:4])
def test_conv_transpose2d(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(
            rng, (integer(rng, 1, 2), integer(rng, 2, 6), integer(rng, 2, 6), integer(rng, 1, 5)), dtype
        )
        kernel, stride = (integer(rng, 1, 4), integer(rng, 1, 4)), (integer(rng, 1, 3), integer(rng, 1, 3))
        padding = integer(rng, SAME, VALID)
        size = [
            x.shape[i + 1] * stride[i] if padding == SAME else (x.shape[i + 1] - 1) * stride[i] + kernel[i]
            for i in (0, 1)
        ]
        (rows, more_rows), (columns, more_columns) = (
            transposed_pads(x.shape[i + 1], size[i], kernel[i], stride[i], padding) for i in (0, 1)
        )
        shape = (integer(rng, 1, 5), *kernel, x.shape[3])
        w_type, w = weight(rng, shape, 0, numerics, per_channel=bool(integer(rng, 0, 1)))
        b_type, b = bias(rng, x_type, w_type, shape[0], kernel[0] * x.shape[3], I64 if dtype is I16 else I32)
        out = output_quant(rng, x_type, w_type, kernel[0] * x.shape[3])
        op = ConvTranspose2D(stride, (1, 1), (rows, columns), (more_rows, more_columns), out=out, numerics=numerics)
        types = (x_type, w_type, b_type)
        y_type = op.infer(types)[0]

        model = TfliteModel(numerics)
        shape_id = model.tensor(TensorType(I32, (4,)), np.asarray(y_type.shape, np.int32))
        ids = [shape_id, model.tensor(w_type, w), model.tensor(x_type), model.tensor(b_type, b)]
        y = model.tensor(y_type)
        model.builder.operator(
            "TRANSPOSE_CONV",
            ids,
            [y],
            "TransposeConvOptions",
            version=3,
            padding=padding,
            stride_h=stride[0],
            stride_w=stride[1],
        )
        assert_same(op, types, (x, w, b), model.run(ids[2:3], y, [x]))


def test_float_convolutions(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (1, integer(rng, 3, 9), integer(rng, 3, 9), 4), F32)
        kernel, stride, dilation, pads, padding = geometry(rng, x.shape[1:3])
        code = activation(rng)
        depthwise = bool(integer(rng, 0, 1))
        shape = (*kernel, 8) if depthwise else (6, *kernel, 4)
        channels = 8 if depthwise else 6
        w_type, w = operand(rng, shape, F32)
        b_type, b = operand(rng, (channels,), F32)
        kind = DepthwiseConv2D if depthwise else Conv2D
        op = kind(stride=stride, dilation=dilation, pads=pads, clamp=fused(code, None))
        types = (x_type, w_type, b_type)

        model = TfliteModel(None)
        file_weight: Array = w.reshape(1, *shape) if depthwise else w
        ids = [model.tensor(x_type), model.tensor(w_type.with_shape(file_weight.shape), file_weight)]
        ids.append(model.tensor(b_type, b))
        y = model.tensor(op.infer(types)[0])
        options: dict[str, int] = {"depth_multiplier": 2} if depthwise else {}
        model.builder.operator(
            "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
            ids,
            [y],
            "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions",
            padding=padding,
            stride_h=stride[0],
            stride_w=stride[1],
            dilation_h_factor=dilation[0],
            dilation_w_factor=dilation[1],
            fused_activation_function=code,
            **options,
        )
        assert_same(op, types, (x, w, b), model.run(ids[:1], y, [x]))


CONTRACTS_OF_BYTES = [Numerics.TFLM, Numerics.LITERT, Numerics.LITERT_U8]


@pytest.mark.parametrize("numerics", CONTRACTS_OF_BYTES, ids=lambda n: n.value)
def test_the_precision_of_the_multiplier(numerics: Numerics) -> None:
    """Sums at which sx*sw rounded to float32 and the exact product give different results.

    The multiplier is so small that sums of 29 bits reach the output's range: there the two differ by whole sums.
    """
    x_type = TensorType(I8, (1, 1, 1, 1), Quant.per_tensor(0.0123, -128))
    w_type = TensorType(I8, (250, 1, 1, 1), Quant.per_tensor(0.0457, 0))
    out = Quant.per_tensor(4321.0, 0)
    exact = x_type.quant.scale * w_type.quant.scale
    rounded = float(np.float32(x_type.quant.scale) * np.float32(w_type.quant.scale))
    halves = np.arange(-125, 125) + 0.5
    b = np.rint(halves * out.scale * (1 / exact + 1 / rounded) / 2).astype(np.int32)
    assert np.rint(b * exact / out.scale).tolist() != np.rint(b * rounded / out.scale).tolist()

    arrays = (np.full(x_type.shape, -128, np.int8), np.ones(w_type.shape, np.int8), b)
    types = (x_type, w_type, TensorType(I32, b.shape, Quant.per_tensor(exact, 0)))
    op = Conv2D(out=out, numerics=numerics)
    model = TfliteModel(numerics)
    ids = [model.tensor(types[0]), model.tensor(types[1], arrays[1]), model.tensor(types[2], b)]
    y = model.tensor(op.infer(types)[0])
    model.builder.operator("CONV_2D", ids, [y], "Conv2DOptions", version=5, padding=VALID, stride_h=1, stride_w=1)
    assert_same(op, types, arrays, model.run(ids[:1], y, arrays[:1]))


def test_the_sum_wraps_at_32_bits() -> None:
    """A bias at the limit of int32 plus positive products: the accumulator wraps as the C code does."""
    one = Quant.per_tensor(1.0, 0)
    x_type, w_type = TensorType(I8, (1, 1, 1, 1), one), TensorType(I8, (1, 1, 1, 1), one)
    b_type = TensorType(I32, (1,), one)
    arrays = (np.int8([[[[100]]]]), np.int8([[[[100]]]]), np.int32([2**31 - 1]))
    op = Conv2D(out=Quant.per_tensor(2.0**25, 0), numerics=Numerics.TFLM)
    assert op.evaluate(arrays, (x_type, w_type, b_type))[0].item() == -64


def test_unreached_outputs_of_a_transposed_convolution_hold_the_bias() -> None:
    """Stride 3 over a kernel of one: two of three rows and columns are never reached."""
    types = (TensorType(F32, (1, 2, 2, 1)), TensorType(F32, (1, 1, 1, 1)), TensorType(F32, (1,)))
    arrays = (np.ones((1, 2, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32), np.float32([5.0]))
    (y,) = ConvTranspose2D(stride=(3, 3), output_pads=(1, 0)).evaluate(arrays, types)
    assert y[0, :, :, 0].tolist() == [[6, 5, 5, 6], [5, 5, 5, 5], [5, 5, 5, 5], [6, 5, 5, 6], [5, 5, 5, 5]]


def test_group_of_a_transposed_convolution() -> None:
    """Each half of the output channels reads its own half of the input channels."""
    rng = np.random.default_rng(0)
    x, w = stored(rng, (1, 3, 3, 4), F32), stored(rng, (6, 2, 2, 2), F32)
    types = (TensorType(F32, x.shape), TensorType(F32, w.shape))
    (y,) = ConvTranspose2D(stride=(2, 2), groups=2).evaluate((x, w), types)
    for half in (0, 1):
        part = (x[..., 2 * half : 2 * half + 2], w[3 * half : 3 * half + 3])
        part_types = tuple(TensorType(F32, a.shape) for a in part)
        (expected,) = ConvTranspose2D(stride=(2, 2)).evaluate(part, part_types)
        np.testing.assert_array_equal(y[..., 3 * half : 3 * half + 3], expected)
