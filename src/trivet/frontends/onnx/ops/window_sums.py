"""Sums over windows, as depthwise convolutions with ones: what pools have no operator of their own for."""

from __future__ import annotations

import numpy as np

from trivet.frontends.onnx.context import Context
from trivet.frontends.onnx.layout import channels_first, channels_last, from_image, image, two
from trivet.frontends.onnx.windows import Pads, Window, pads2d, pooling_pads
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ops.conv import DepthwiseConv2D
from trivet.ops.elementwise import Div


def window_sums(ctx: Context, x: Value, shape: Window, pads: Pads) -> Value:
    """x: [N, C, ...] -> [N, C, ...]; over three axes the sums over two are summed over the third."""
    if x.type.rank < 5:
        return from_image(ctx, _ones(ctx, image(ctx, x), shape.kernel, shape, pads, 0), x.type.rank)
    volume = channels_last(ctx, x)
    n, depth, height, width, channels = volume.type.shape
    y = _ones(ctx, ctx.reshape(volume, (n * depth, height, width, channels)), shape.kernel[1:], shape, pads[1:], 1)
    _, rows, columns, _ = y.type.shape
    z = _ones(ctx, ctx.reshape(y, (n, depth, rows * columns, channels)), shape.kernel[:1], shape, pads[:1], 0)
    return channels_first(ctx, ctx.reshape(z, (n, z.type.shape[1], rows, columns, channels)))


def _ones(ctx: Context, x: Value, kernel: tuple[int, ...], shape: Window, pads: Pads, first: int) -> Value:
    """x: [N, H, W, C]; the window's axes from `first` on."""
    last = first + len(kernel)
    op = DepthwiseConv2D(two(shape.stride[first:last], 1), two(shape.dilation[first:last], 1), pads2d(pads))
    return ctx.emit(op, x, ctx.constant(np.ones((*two(kernel, 1), x.type.shape[3]))))


def dilated_means(ctx: Context, x: Value, shape: Window) -> Value:
    """An average pool with dilations: sums over how many elements each window has, which is known now."""
    sizes = x.type.shape[2:]
    sums = window_sums(ctx, x, shape, pooling_pads(ctx, shape, sizes))
    counts = np.ones((1, 1))
    for axis, extent in enumerate(sums.type.shape[2:]):
        counts = counts[..., None] * _counted(ctx, shape, axis, sizes[axis], extent)
    return ctx.emit(Div(), sums, ctx.constant(counts))


def _counted(ctx: Context, shape: Window, axis: int, size: int, windows: int) -> Array:
    """Elements along an axis of each window: the operand's, and its stated padding's where that counts."""
    before, after = shape.pads[axis] if ctx.attr_flag("count_include_pad") else (0, 0)
    taps = np.arange(shape.kernel[axis]) * shape.dilation[axis]
    places = np.arange(windows)[:, None] * shape.stride[axis] - shape.pads[axis][0] + taps
    found: Array = ((places >= -before) & (places < size + after)).sum(1)
    return found
