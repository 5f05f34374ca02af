"""Convolutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trivet.core.dtype import F32, I8, I32, I64, DType
from trivet.core.quant import Quant
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.activations import fused_bounds
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.ops import hybrid
from trivet.frontends.tflite.schema import SAME, VALID
from trivet.ir.graph import Value
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D, Pads2D
from trivet.ops.dynamic import IntegerConv2D

LARGEST_STEP = (1 << 16) - 1
"""Of strides, dilations and kernels, as plans and kernels store them."""

BIAS_TYPES: tuple[DType, ...] = (F32, I32, I64)


def conv_2d(op: Conversion) -> None:
    """x: [N, H, W, C], filter: [O, KH, KW, C/groups], bias: [O]; groups follow from the channel counts."""
    x, w = image(op, 0), weights(op, 1, 4)
    channels, depth = x.type.shape[3], w.type.shape[3]
    if depth == 0 or channels % depth:
        raise InvalidModel(f"a filter of {depth} channels does not divide {channels} input channels")
    stride, dilation = strides(op), (op.integer("dilation_h"), op.integer("dilation_w"))
    pads = window_pads(op, x.type, w.type.shape[1:3], stride, dilation)
    if hybrid.is_hybrid(op, w):
        op.result(hybrid.convolution(op, IntegerConv2D(stride, dilation, pads, channels // depth), x, w))
        return
    conv = Conv2D(stride, dilation, pads, channels // depth, fused_bounds(op), op.out, op.numerics)
    op.result(op.emit(conv, x, w, *bias(op, 2)))


def depthwise_conv_2d(op: Conversion) -> None:
    """x: [N, H, W, C], filter: [1, KH, KW, C*m], bias: [C*m]; the multiplier follows from the channel counts."""
    x, w = image(op, 0), weights(op, 1, 4)
    if w.type.shape[0] != 1:
        raise InvalidModel(f"a depthwise filter has shape [1, rows, columns, channels], got {list(w.type.shape)}")
    stride, dilation = strides(op), (op.integer("dilation_h"), op.integer("dilation_w"))
    pads = window_pads(op, x.type, w.type.shape[1:3], stride, dilation)
    filters = _without_first_axis(op, w)
    if hybrid.is_hybrid(op, w):
        op.result(hybrid.depthwise(op, IntegerConv2D(stride, dilation, pads), x, filters))
        return
    conv = DepthwiseConv2D(stride, dilation, pads, fused_bounds(op), op.out, op.numerics)
    op.result(op.emit(conv, x, filters, *bias(op, 2)))


def transpose_conv(op: Conversion) -> None:
    """output shape: [4], filter: [O, KH, KW, C], x: [N, H, W, C], bias: [O]; padding as of the forward convolution."""
    w, x = weights(op, 1, 4), image(op, 2)
    size = op.known_shape(0)
    if len(size) != 4 or min(size) < 1:
        raise InvalidModel(f"the output shape must be four positive numbers, got {list(size)}")
    stride = strides(op)
    cut, extra = zip(*(_cut(op, x.type, w.type, size, stride, i) for i in (0, 1)), strict=True)
    conv = ConvTranspose2D(stride, (1, 1), (cut[0], cut[1]), (extra[0], extra[1]), 1, fused_bounds(op), op.out)
    op.result(op.emit(replace(conv, numerics=op.numerics), x, w, *bias(op, 3)))


def image(op: Conversion, index: int) -> Value:
    """An operand [N, H, W, C].

    Raises: InvalidModel.
    """
    value = op.operand(index)
    if value.type.rank != 4:
        raise InvalidModel(f"operand {index} must be [N, H, W, C], got {value.type}")
    return value


def weights(op: Conversion, index: int, rank: int) -> Value:
    """A constant filter; int8 filters are symmetric, so that their zero points, which runtimes ignore, become 0.

    Raises: InvalidModel, Unsupported.
    """
    value = op.operand(index)
    op.constant(index)
    if value.type.rank != rank:
        raise InvalidModel(f"weights must have {rank} axes, got {value.type}")
    if value.type.dtype is I8 and value.type.quant is not None and not is_uint8(op, index):
        symmetric = Quant(value.type.quant.scales, (0,) * len(value.type.quant.scales), value.type.quant.axis)
        return op.retyped(value, replace(value.type, quant=symmetric))
    return value


def is_uint8(op: Conversion, index: int) -> bool:
    """True iff the file stores the operand as uint8."""
    return op.scope.subgraph.tensors[op.record.inputs[index]].type_name == "UINT8"


def bias(op: Conversion, index: int) -> tuple[Value, ...]:
    """The bias operand, if there is one, as plain numbers: its scale follows from the other operands.

    Raises: Unsupported.
    """
    value = op.optional(index)
    if value is None:
        return ()
    op.constant(index)
    if value.type.dtype not in BIAS_TYPES:
        raise Unsupported(f"the bias '{value.name}' is {value.type.dtype.name}")
    return (op.retyped(value, TensorType(value.type.dtype, (value.type.elements,))),)


def strides(op: Conversion) -> tuple[int, int]:
    """Rows, then columns.

    Raises: InvalidModel.
    """
    stride = op.integer("stride_h"), op.integer("stride_w")
    if not 1 <= min(stride) <= max(stride) <= LARGEST_STEP:
        raise InvalidModel(f"strides must be 1..{LARGEST_STEP}, got {stride}")
    return stride


def window_pads(
    op: Conversion, x: TensorType, kernel: tuple[int, ...], stride: tuple[int, int], dilation: tuple[int, int]
) -> Pads2D:
    """Padding of both spatial axes under the option `padding`.

    Raises: InvalidModel.
    """
    if not 1 <= min(*kernel, *dilation) <= max(*kernel, *dilation) <= LARGEST_STEP:
        raise InvalidModel(f"kernel {kernel} and dilation {dilation} must be 1..{LARGEST_STEP}")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    rows, columns = (axis_pads(op, x.shape[i + 1], extents[i], stride[i]) for i in (0, 1))
    return rows, columns


def axis_pads(op: Conversion, size: int, extent: int, stride: int) -> tuple[int, int]:
    """SAME gives ceil(size / stride) windows, the odd element after; VALID none.

    Raises: InvalidModel.
    """
    match op.integer("padding"):
        case padding if padding == SAME:
            total = max(0, (-(-size // stride) - 1) * stride + extent - size)
            return total // 2, total - total // 2
        case padding if padding == VALID:
            return 0, 0
        case padding:
            raise InvalidModel(f"padding code {padding}, expected 0 (SAME) or 1 (VALID)")


def _cut(
    op: Conversion, x: TensorType, w: TensorType, size: tuple[int, ...], stride: tuple[int, int], i: int
) -> tuple[tuple[int, int], int]:
    """What is cut off before and after spatial axis i of the full transposed convolution, and what is added after."""
    kernel, wanted = w.shape[i + 1], size[i + 1]
    before = axis_pads(op, wanted, kernel, stride[i])[0]
    after = (x.shape[i + 1] - 1) * stride[i] + kernel - before - wanted
    return (before, max(after, 0)), max(-after, 0)


def _without_first_axis(op: Conversion, w: Value) -> Value:
    """[1, KH, KW, C] -> [KH, KW, C], the channel axis of the quantization moving along."""
    assert w.data is not None
    quant = w.type.quant
    if quant is not None and quant.axis is not None:
        if quant.axis != 3:
            raise InvalidModel(f"a depthwise filter is quantized along axis {quant.axis}, expected 3")
        quant = quant.with_axis(2)
    return op.plain(np.reshape(w.data, w.type.shape[1:]), TensorType(w.type.dtype, w.type.shape[1:], quant), w.name)


CONVERTERS: dict[str, Converter] = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "TRANSPOSE_CONV": transpose_conv,
}
