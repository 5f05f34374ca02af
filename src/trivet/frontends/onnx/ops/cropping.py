"""Cropping about the centre, columns to images, products along an axis, sequences turned round."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import I64
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.layout import channels_first, two
from trivet.frontends.onnx.ops.movement import joined, sliced
from trivet.frontends.onnx.windows import explicit_pads, pads2d
from trivet.ir.graph import Value
from trivet.ops.conv import ConvTranspose2D
from trivet.ops.elementwise import Mul, Sub
from trivet.ops.movement import Gather, Pad

ONNX = Converters()

MAX_STEPS = 256
"""Products along an axis are written out; more would make too long a plan."""


@ONNX("CenterCropPad")
def center_crop_pad(ctx: Context) -> Value:
    """Each axis cut or padded with zeros on both sides, the odd element after."""
    x = ctx.operand(0)
    sizes = ctx.known_ints(1, "the shape")
    axes = tuple(ctx.axis(a, x.type.rank) for a in ctx.attr_ints("axes", tuple(range(x.type.rank))))
    if len(axes) != len(sizes) or min(sizes, default=1) < 0:
        ctx.invalid(f"sizes {sizes} of axes {axes} of {x.type}")
    before, after = [0] * x.type.rank, [0] * x.type.rank
    for axis, size in zip(axes, sizes, strict=True):
        spare = x.type.shape[axis] - size
        if spare > 0:
            x = sliced(ctx, x, axis, spare // 2, size)
        else:
            before[axis], after[axis] = -spare // 2, -spare - -spare // 2
    return ctx.emit(Pad(tuple(before), tuple(after)), x) if any(before) or any(after) else x


@ONNX("Col2Im")
def columns_to_image(ctx: Context) -> Value:
    """x: [N, C * block, L] -> [N, C, H, W]: blocks added where they came from, a transposed convolution with ones."""
    x, size, block = ctx.operand(0), ctx.known_ints(1, "the size"), ctx.known_ints(2, "the block")
    rank, taps = len(size), math.prod(block)
    if rank not in (1, 2) or len(block) != rank:
        ctx.refuse(f"an image of {rank} axes", hint="one or two axes are taken")
    ones = (1,) * rank
    stride, dilation = ctx.attr_ints("strides", ones), ctx.attr_ints("dilations", ones)
    pads = explicit_pads(ctx, rank)
    extents = [(k - 1) * d + 1 for k, d in zip(block, dilation, strict=True)]
    free = [s + sum(p) - e for s, p, e in zip(size, pads, extents, strict=True)]
    counts = [f // s + 1 for f, s in zip(free, stride, strict=True)]
    if x.type.rank != 3 or x.type.shape[1] % max(taps, 1) or x.type.shape[2] != math.prod(counts) or min(free) < 0:
        ctx.invalid(f"{x.type} are no blocks {block} of an image {size}")
    channels = x.type.shape[1] // taps
    image = ctx.reshape(ctx.transpose(x, (0, 2, 1)), (x.type.shape[0], *two(tuple(counts), 1), x.type.shape[1]))
    filters = np.broadcast_to(np.eye(taps).reshape(1, *two(block, 1), taps), (channels, *two(block, 1), taps))
    extra = tuple(f % s for f, s in zip(free, stride, strict=True))
    op = ConvTranspose2D(two(stride, 1), two(dilation, 1), pads2d(pads), two(extra, 0), channels)
    y = channels_first(ctx, ctx.emit(op, image, ctx.constant(np.ascontiguousarray(filters))))
    return ctx.reshape(y, (x.type.shape[0], channels, *size))


@ONNX("CumProd")
def cumulative_product(ctx: Context) -> Value:
    """Products of all elements up to each one (`exclusive`: before it), from the end if `reverse`."""
    x = ctx.operand(0)
    axis = ctx.axis(ctx.known_ints(1, "the axis")[0], x.type.rank)
    size = x.type.shape[axis]
    if not 1 <= size <= MAX_STEPS:
        ctx.refuse(f"products along {size} elements", hint=f"1 to {MAX_STEPS} are taken")
    order = range(size - 1, -1, -1) if ctx.attr_flag("reverse") else range(size)
    steps = [sliced(ctx, x, axis, index, 1) for index in order]
    if ctx.attr_flag("exclusive"):
        one = ctx.constant(np.ones(steps[0].type.shape), x.type.dtype)
        steps = [one, *steps[:-1]]
    products = [steps[0]]
    for step in steps[1:]:
        products.append(ctx.emit(Mul(), products[-1], step))
    return joined(ctx, products[::-1] if ctx.attr_flag("reverse") else products, axis)


@ONNX("ReverseSequence")
def reverse_sequence(ctx: Context) -> Value:
    """The first so many steps of each sequence turned round; the numbers of steps are constants."""
    x, lengths = ctx.operand(0), ctx.known_ints(1, "the lengths")
    time, batch = (ctx.axis(ctx.attr_int(n, d), x.type.rank) for n, d in (("time_axis", 0), ("batch_axis", 1)))
    size = x.type.shape[time]
    if time == batch or len(lengths) != x.type.shape[batch] or not 0 <= min(lengths) <= max(lengths) <= size:
        ctx.invalid(f"lengths {lengths} of {x.type}")
    if set(lengths) == {size}:
        return sliced(ctx, x, time, size - 1, size, -1)
    turned = []
    for index, length in enumerate(lengths):
        places = np.array([*range(length - 1, -1, -1), *range(length, size)])
        turned.append(ctx.emit(Gather(time), sliced(ctx, x, batch, index, 1), ctx.constant(places, I64)))
    return joined(ctx, turned, batch)


@ONNX("Det")
def determinant(ctx: Context) -> Value:
    """Of the last two axes, at most 4 x 4, along the first row."""
    x = ctx.operand(0)
    if x.type.rank < 2 or x.type.shape[-1] != x.type.shape[-2]:
        ctx.invalid(f"the determinant of {x.type}")
    size, first = x.type.shape[-1], x.type.shape[:-2]
    if not 1 <= size <= 4:
        ctx.refuse(f"the determinant of {size} rows", hint="at most 4 rows are taken")
    rows = ctx.reshape(x, (math.prod(first), size, size))
    elements = [[sliced(ctx, sliced(ctx, rows, 1, i, 1), 2, j, 1) for j in range(size)] for i in range(size)]
    return ctx.reshape(_expanded(ctx, elements), first)


def _expanded(ctx: Context, rows: list[list[Value]]) -> Value:
    if len(rows) == 1:
        return rows[0][0]
    y: Value | None = None
    for column, element in enumerate(rows[0]):
        part = ctx.emit(Mul(), element, _expanded(ctx, [row[:column] + row[column + 1 :] for row in rows[1:]]))
        if y is None:
            y = part
        elif column % 2:
            y = ctx.emit(Sub(), y, part)
        else:
            y = ctx.emit(Sub(), y, ctx.emit(Mul(), part, ctx.like(part, -1)))
    assert y is not None
    return y
