"""Convolutions and pools over three spatial axes, as those over two, slice by slice or axis by axis."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.core.record import dataclass
from trivet.frontends.onnx.context import Context
from trivet.frontends.onnx.layout import channels_first, channels_last
from trivet.frontends.onnx.ops.movement import joined
from trivet.frontends.onnx.windows import Pads, Window, pooling_pads, window
from trivet.ir.graph import Value
from trivet.ops.conv import Conv2D, ConvTranspose2D
from trivet.ops.elementwise import Add, Mul
from trivet.ops.movement import Concat, Slice
from trivet.ops.pool import AveragePool2D, MaxPool2D

MAX_SLICES = 64
"""Results of more slices would make too long a plan."""


def convolution3d(ctx: Context, x: Value, w: Value, bias: Value | None) -> Value:
    """x: [N, C, D, H, W], w: [O, C/group, KD, KH, KW] -> [N, O, D', H', W'], one group after the other."""
    groups = ctx.attr_int("group", 1)
    inputs, outputs = w.type.shape[1], w.type.shape[0] // max(groups, 1)
    results = []
    for group in range(groups):
        part = _span(ctx, x, 1, group * inputs, inputs)
        own = None if bias is None else _span(ctx, bias, 0, group * outputs, outputs)
        results.append(_one_group(ctx, part, _span(ctx, w, 0, group * outputs, outputs), own))
    return joined(ctx, results, 1)


def _span(ctx: Context, x: Value, axis: int, start: int, size: int) -> Value:
    """`size` indices of an axis."""
    shape = x.type.shape
    if shape[axis] == size:
        return x
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(size if i == axis else extent for i, extent in enumerate(shape))
    return ctx.emit(Slice(starts, sizes, (1,) * len(shape)), x)


def _one_group(ctx: Context, x: Value, w: Value, bias: Value | None) -> Value:
    """x: [N, C, D, H, W], w: [O, C, KD, KH, KW] -> [N, O, D', H', W'].

    A slice of the result is a convolution over two axes: the slices of x that it reads lie side by side as channels.
    """
    shape = window(ctx, x.type.shape[2:], w.type.shape[2:])
    depth, (before, after) = x.type.shape[2], shape.pads[0]
    (step, *stride), (apart, *dilation) = shape.stride, shape.dilation
    extent = (shape.kernel[0] - 1) * apart + 1
    count = (depth + before + after - extent) // step + 1
    if not 1 <= count <= MAX_SLICES:
        ctx.refuse(f"{count} slices of a result, 1 to {MAX_SLICES} are taken", hint="cut the volume into parts")
    volume = channels_last(ctx, x)
    slices = [_slice(ctx, volume, 1, index) for index in range(depth)]
    filters = [_slice(ctx, w, 2, k) for k in range(shape.kernel[0])]
    op = Conv2D((stride[0], stride[1]), (dilation[0], dilation[1]), (shape.pads[1], shape.pads[2]))
    results: list[Value] = []
    for index in range(count):
        first = index * step - before
        taps = [k for k in range(shape.kernel[0]) if 0 <= first + k * apart < depth]
        operand = _beside(ctx, [slices[first + k * apart] for k in taps], 3)
        weights = ctx.transpose(_beside(ctx, [filters[k] for k in taps], 1), (0, 2, 3, 1))
        y = ctx.emit(op, operand, weights)
        results.append(y if bias is None else ctx.emit(Add(), y, bias))
    lifted = [ctx.reshape(y, (y.type.shape[0], 1, *y.type.shape[1:])) for y in results]
    return channels_first(ctx, joined(ctx, lifted, 1))


@dataclass(frozen=True, slots=True)
class Transposed:
    """A transposed convolution over three axes: `pads` are cut off, `extra` is added behind."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: Pads
    extra: tuple[int, ...]
    groups: int


def transposed_convolution3d(ctx: Context, x: Value, w: Value, bias: Value | None, conv: Transposed) -> Value:
    """x: [N, C, D, H, W], w: [C, O/group, KD, KH, KW] -> [N, O, D', H', W'], one group after the other."""
    inputs, outputs = w.type.shape[0] // conv.groups, w.type.shape[1]
    results = []
    for group in range(conv.groups):
        part, own = (_span(ctx, v, axis, group * inputs, inputs) for v, axis in ((x, 1), (w, 0)))
        added = None if bias is None else _span(ctx, bias, 0, group * outputs, outputs)
        results.append(_transposed_group(ctx, part, own, added, conv))
    return joined(ctx, results, 1)


def _transposed_group(ctx: Context, x: Value, w: Value, bias: Value | None, conv: Transposed) -> Value:
    """A slice of the result comes from the slices of x that reach it, side by side as channels."""
    depth, taps = x.type.shape[2], w.type.shape[2]
    (step, *stride), (apart, *dilation), (before, after) = conv.stride, conv.dilation, conv.pads[0]
    count = (depth - 1) * step + (taps - 1) * apart + 1 + conv.extra[0] - before - after
    if not 1 <= count <= MAX_SLICES:
        ctx.refuse(f"{count} slices of a result, 1 to {MAX_SLICES} are taken", hint="cut the volume into parts")
    volume = channels_last(ctx, x)
    slices = [_slice(ctx, volume, 1, index) for index in range(depth)]
    filters = [_slice(ctx, w, 2, k) for k in range(taps)]
    flat = ((stride[0], stride[1]), (dilation[0], dilation[1]), (conv.pads[1], conv.pads[2]))
    op = ConvTranspose2D(*flat, (conv.extra[1], conv.extra[2]))
    results = []
    for index in range(count):
        pairs = [(d, k) for d in range(depth) for k in range(taps) if d * step + k * apart - before == index]
        operand = _beside(ctx, [slices[d] for d, _ in pairs or [(0, 0)]], 3)
        own = _beside(ctx, [filters[k] for _, k in pairs], 0) if pairs else ctx.emit(Mul(), filters[0], ctx.constant(0))
        weights = ctx.transpose(own, (1, 2, 3, 0))
        y = ctx.emit(op, operand, weights)
        y = y if bias is None else ctx.emit(Add(), y, bias)
        results.append(ctx.reshape(y, (y.type.shape[0], 1, *y.type.shape[1:])))
    return channels_first(ctx, joined(ctx, results, 1))


def _beside(ctx: Context, parts: Sequence[Value], axis: int) -> Value:
    if not parts:
        ctx.refuse("a slice that reads padding alone", hint="state less padding")
    return parts[0] if len(parts) == 1 else ctx.emit(Concat(axis), *parts)


def _slice(ctx: Context, x: Value, axis: int, index: int) -> Value:
    """x[.., index, ..] along an axis."""
    shape = x.type.shape
    starts = tuple(index if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(1 if i == axis else size for i, size in enumerate(shape))
    return ctx.reshape(ctx.emit(Slice(starts, sizes, (1,) * len(shape)), x), (*shape[:axis], *shape[axis + 1 :]))


def max_pool3d(ctx: Context, x: Value) -> Value:
    """The largest over two axes, then over the third."""
    shape = window(ctx, x.type.shape[2:], ctx.attr_ints("kernel_shape"))
    pads = pooling_pads(ctx, shape, x.type.shape[2:])
    (kd, kh, kw), (sd, sh, sw), (dd, dh, dw) = shape.kernel, shape.stride, shape.dilation
    flat = MaxPool2D((kh, kw), (sh, sw), (dh, dw), (pads[1], pads[2]))
    deep = MaxPool2D((kd, 1), (sd, 1), (dd, 1), (pads[0], (0, 0)))
    return _pooled(ctx, x, flat, deep)


def average_pool3d(ctx: Context, x: Value) -> Value:
    """The mean over two axes, then over the third, where all windows have as many elements."""
    shape = window(ctx, x.type.shape[2:], ctx.attr_ints("kernel_shape"))
    pads = pooling_pads(ctx, shape, x.type.shape[2:])
    _check_average(ctx, shape, pads)
    include = ctx.attr_flag("count_include_pad")
    (kd, kh, kw), (sd, sh, sw) = shape.kernel, shape.stride
    flat = AveragePool2D((kh, kw), (sh, sw), (pads[1], pads[2]), include)
    deep = AveragePool2D((kd, 1), (sd, 1), (pads[0], (0, 0)), include)
    return _pooled(ctx, x, flat, deep)


def _check_average(ctx: Context, shape: Window, pads: object) -> None:
    if any(d != 1 for d in shape.dilation):
        ctx.refuse(f"dilations {shape.dilation} of an average pool", hint="write it as a depthwise Conv")
    if ctx.attr_flag("count_include_pad") and pads != shape.pads:
        ctx.refuse("ceil_mode where padding counts", hint="pad with Pad before it")


def _pooled(ctx: Context, x: Value, flat: MaxPool2D | AveragePool2D, deep: MaxPool2D | AveragePool2D) -> Value:
    volume = channels_last(ctx, x)
    n, depth, height, width, channels = volume.type.shape
    y = ctx.emit(flat, ctx.reshape(volume, (n * depth, height, width, channels)))
    _, rows, columns, _ = y.type.shape
    z = ctx.emit(deep, ctx.reshape(y, (n, depth, rows * columns, channels)))
    return channels_first(ctx, ctx.reshape(z, (n, z.type.shape[1], rows, columns, channels)))
