"""Operators that move elements: reshapes, transposes, slices, padding, gathers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trivet.core.dtype import BOOL
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.layout import from_image, image
from trivet.ir.graph import Value
from trivet.ir.op import TypeMismatch, broadcast_shapes
from trivet.ops.elementwise import Where
from trivet.ops.movement import (
    Concat,
    DepthToSpace,
    Expand,
    Gather,
    Pad,
    PadMode,
    Slice,
    SpaceToDepth,
    Tile,
)

ONNX = Converters()

MAX_JOINED = 24
"""So many operands of a kernel; more are joined in groups."""


@ONNX("Identity")
def identity(ctx: Context) -> Value:
    return ctx.operand(0)


@ONNX("Dropout")
def dropout(ctx: Context) -> tuple[Value, ...]:
    """Nothing is dropped at inference, so the mask is all true."""
    x = ctx.operand(0)
    if ctx.has(2) and bool(np.any(ctx.known(2, "training mode"))):
        ctx.refuse("training mode", hint="export the model for inference")
    if len(ctx.node.outputs) < 2 or not ctx.node.outputs[1]:
        return (x,)
    return x, ctx.constant(np.ones(x.type.shape, np.bool_), BOOL)


@ONNX("Reshape")
def reshape(ctx: Context) -> Value:
    """0 keeps the operand's extent (unless `allowzero`), one -1 takes what is left."""
    x = ctx.operand(0)
    wanted = list(ctx.known_ints(1, "the shape") if ctx.opset >= 5 else ctx.attr_ints("shape"))
    if not ctx.attr_flag("allowzero"):
        for axis, size in enumerate(wanted):
            if size == 0:
                wanted[axis] = x.type.shape[ctx.axis(axis, x.type.rank)]
    if wanted.count(-1) > 1 or min(wanted, default=1) < -1:
        ctx.invalid(f"cannot reshape {x.type} to {wanted}")
    if -1 in wanted:
        rest = math.prod(size for size in wanted if size != -1)
        if rest == 0 or x.type.elements % rest:
            ctx.invalid(f"cannot reshape {x.type} to {wanted}")
        wanted[wanted.index(-1)] = x.type.elements // rest
    return ctx.reshape(x, wanted)


@ONNX("Flatten")
def flatten(ctx: Context) -> Value:
    x, shape = ctx.operand(0), ctx.operand(0).type.shape
    axis = ctx.attr_int("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        ctx.invalid(f"axis {axis} is outside rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return ctx.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@ONNX("Squeeze")
def squeeze(ctx: Context) -> Value:
    x = ctx.operand(0)
    axes = listed_axes(ctx, x.type.rank)
    if axes is None:
        axes = tuple(i for i, d in enumerate(x.type.shape) if d == 1)
    if any(x.type.shape[axis] != 1 for axis in axes):
        ctx.invalid(f"cannot squeeze axes {axes} of {x.type}")
    return ctx.reshape(x, [d for i, d in enumerate(x.type.shape) if i not in axes])


@ONNX("Unsqueeze")
def unsqueeze(ctx: Context) -> Value:
    x = ctx.operand(0)
    count = len(ctx.known_ints(1, "the axes") if ctx.has(1) else ctx.attr_ints("axes"))
    axes = listed_axes(ctx, x.type.rank + count)
    assert axes is not None
    if len(set(axes)) != count:
        ctx.invalid(f"axes {axes} repeat")
    sizes = iter(x.type.shape)
    return ctx.reshape(x, [1 if i in axes else next(sizes) for i in range(x.type.rank + count)])


def listed_axes(ctx: Context, rank: int, operand: int = 1) -> tuple[int, ...] | None:
    """Axes counted from 0, from an operand or, in older operator sets, an attribute; None where neither is there."""
    if ctx.has(operand):
        axes = ctx.known_ints(operand, "the axes")
    elif "axes" in ctx:
        axes = ctx.attr_ints("axes")
    else:
        return None
    return tuple(ctx.axis(axis, rank) for axis in axes)


@ONNX("Transpose")
def transpose(ctx: Context) -> Value:
    x = ctx.operand(0)
    perm = ctx.attr_ints("perm", tuple(reversed(range(x.type.rank))))
    if sorted(perm) != list(range(x.type.rank)):
        ctx.invalid(f"{perm} is no permutation of the axes of {x.type}")
    return ctx.transpose(x, perm)


@ONNX("Concat")
def concat(ctx: Context) -> Value:
    """Operands that differ in quantization are joined as the plain integers they are stored as."""
    values = [ctx.operand(index) for index in range(len(ctx))]
    if len({value.type.quant for value in values}) > 1:
        values = [ctx.unquantized(value) for value in values]
    return joined(ctx, values, ctx.attr_int("axis"))


def joined(ctx: Context, values: Sequence[Value], axis: int) -> Value:
    if not values:
        ctx.invalid("it has no operands")
    axis = ctx.axis(axis, values[0].type.rank)
    while len(values) > MAX_JOINED:
        values = [joined(ctx, values[i : i + MAX_JOINED], axis) for i in range(0, len(values), MAX_JOINED)]
    values = [value for value in values if value.type.elements] or values[:1]
    return values[0] if len(values) == 1 else ctx.emit(Concat(axis), *values)


@ONNX("Split")
def split(ctx: Context) -> tuple[Value, ...]:
    """Slices of the stated sizes, or of equal ones with a smaller last."""
    x, count = ctx.operand(0), len(ctx.node.outputs)
    axis = ctx.axis(ctx.attr_int("axis", 0), x.type.rank)
    size = x.type.shape[axis]
    if ctx.has(1):
        sizes = ctx.known_ints(1, "the sizes")
    elif "split" in ctx:
        sizes = ctx.attr_ints("split")
    else:
        part = -(-size // ctx.attr_int("num_outputs", count))
        sizes = tuple(max(0, min(part, size - part * i)) for i in range(count))
    if sum(sizes) != size or len(sizes) != count or min(sizes, default=0) < 0:
        ctx.invalid(f"sizes {sizes} do not divide axis {axis} of {x.type} into {count} results")
    starts = [sum(sizes[:i]) for i in range(count)]
    return tuple(sliced(ctx, x, axis, start, n) for start, n in zip(starts, sizes, strict=True))


def sliced(ctx: Context, x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """`size` indices of one axis."""
    starts, sizes, steps = [0] * x.type.rank, list(x.type.shape), [1] * x.type.rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    if sizes == list(x.type.shape) and step == 1:
        return x
    return ctx.emit(Slice(tuple(starts), tuple(sizes), tuple(steps)), x)


@ONNX("Slice")
def slice_(ctx: Context) -> Value:
    """Starts, ends, axes and steps are operands since operator set 10, attributes before."""
    x = ctx.operand(0)
    if ctx.opset >= 10:
        starts, ends = ctx.known_ints(1, "the starts"), ctx.known_ints(2, "the ends")
        axes = ctx.known_ints(3, "the axes") if ctx.has(3) else tuple(range(len(starts)))
        steps = ctx.known_ints(4, "the steps") if ctx.has(4) else (1,) * len(starts)
    else:
        starts, ends = ctx.attr_ints("starts"), ctx.attr_ints("ends")
        axes, steps = ctx.attr_ints("axes", tuple(range(len(starts)))), (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        ctx.invalid(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not match")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = ctx.axis(axis, x.type.rank)
        indices = range(x.type.shape[axis])[start:end:step]
        x = sliced(ctx, x, axis, indices.start if indices else 0, len(indices), indices.step)
    return x


@ONNX("Pad")
def pad(ctx: Context) -> Value:
    """Negative amounts cut; the value is a stored one."""
    x = ctx.operand(0)
    mode = ctx.attr_text("mode", "constant")
    if ctx.opset >= 11:
        amounts = ctx.known_ints(1, "the pads")
        value = _pad_value(ctx)
        axes = listed_axes(ctx, x.type.rank, operand=3)
    else:
        amounts, value, axes = ctx.attr_ints("pads"), ctx.attr_float("value", 0.0), None
    axes = tuple(range(x.type.rank)) if axes is None else axes
    if len(amounts) != 2 * len(axes):
        ctx.invalid(f"pads {amounts} do not suit {len(axes)} axes of {x.type}")
    before, after = [0] * x.type.rank, [0] * x.type.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = amounts[index], amounts[len(axes) + index]
    if isinstance(value, float):
        return _padded(ctx, x, before, after, value, mode)
    inside = _padded(ctx, ctx.constant(np.ones(x.type.shape, np.bool_), BOOL), before, after, 0.0, mode)
    return ctx.emit(Where(), inside, _padded(ctx, x, before, after, 0.0, mode), ctx.reshape(value, ()))


def _pad_value(ctx: Context) -> float | Value:
    """What is put around, or the value that holds it when the network runs."""
    if not ctx.has(2) or ctx.constant_data(ctx.operand(2)) is not None:
        return ctx.known_scalar(2, "the value") if ctx.has(2) else 0.0
    return ctx.operand(2)


def _padded(ctx: Context, x: Value, before: list[int], after: list[int], value: float, mode: str) -> Value:
    if mode == "wrap":
        return _wrapped(ctx, x, before, after)
    modes = {"constant": PadMode.CONSTANT, "edge": PadMode.EDGE, "reflect": PadMode.REFLECT}
    if mode not in modes:
        ctx.invalid(f"mode '{mode}' is none of constant, edge, reflect, wrap")
    for axis, size in enumerate(x.type.shape):
        cut_front, cut_back = max(0, -before[axis]), max(0, -after[axis])
        if cut_front + cut_back > size:
            ctx.invalid(f"negative pads cut more than axis {axis} of {x.type} has")
        x = sliced(ctx, x, axis, min(cut_front, max(size - 1, 0)), size - cut_front - cut_back)
    before, after = [max(0, b) for b in before], [max(0, a) for a in after]
    return ctx.emit(Pad(tuple(before), tuple(after), value, modes[mode]), x) if any(before) or any(after) else x


def _wrapped(ctx: Context, x: Value, before: list[int], after: list[int]) -> Value:
    """Padding that continues at the other end."""
    for axis in range(x.type.rank):
        size, front, back = x.type.shape[axis], before[axis], after[axis]
        if not 0 <= max(front, back) <= size or min(front, back) < 0:
            ctx.refuse(
                f"wrap padding of {front} and {back} on axis {axis} of {x.type}", hint="pad by less than the axis"
            )
        parts = [x]
        if front:
            parts.insert(0, sliced(ctx, x, axis, size - front, front))
        if back:
            parts.append(sliced(ctx, x, axis, 0, back))
        x = joined(ctx, parts, axis)
    return x


@ONNX("Gather")
def gather(ctx: Context) -> Value:
    """Indices may be negative."""
    x, indices = ctx.operand(0), ctx.operand(1)
    axis = ctx.axis(ctx.attr_int("axis", 0), x.type.rank)
    size = x.type.shape[axis]
    if indices.data is None:
        return ctx.emit(Gather(axis), x, indices)
    found = indices.data
    if found.size and not -size <= int(found.min()) <= int(found.max()) < size:
        ctx.invalid(f"indices reach from {found.min()} to {found.max()}, axis {axis} has {size}")
    if found.size == 1:
        one = sliced(ctx, x, axis, int(found.reshape(-1)[0]) % size, 1)
        return ctx.reshape(one, (*x.type.shape[:axis], *found.shape, *x.type.shape[axis + 1 :]))
    return ctx.emit(Gather(axis), x, ctx.constant(found % max(size, 1), indices.type.dtype))


@ONNX("Expand")
def expand(ctx: Context) -> Value:
    """To the broadcast of the operand's shape with the wanted one."""
    x, wanted = ctx.operand(0), ctx.known_ints(1, "the shape")
    try:
        shape = broadcast_shapes(x.type.shape, wanted)
    except TypeMismatch as error:
        ctx.invalid(str(error))
    return x if shape == x.type.shape else ctx.emit(Expand(shape), x)


@ONNX("Tile")
def tile(ctx: Context) -> Value:
    x, repeats = ctx.operand(0), ctx.known_ints(1, "the repeats")
    if len(repeats) != x.type.rank or min(repeats, default=1) < 0:
        ctx.invalid(f"repeats {repeats} do not suit {x.type}")
    return x if set(repeats) <= {1} else ctx.emit(Tile(repeats), x)


@ONNX("DepthToSpace")
def depth_to_space(ctx: Context) -> Value:
    x, mode = ctx.operand(0), ctx.attr_text("mode", "DCR")
    if mode not in ("DCR", "CRD") or x.type.rank != 4:
        ctx.invalid(f"mode '{mode}' of {x.type}")
    op = DepthToSpace(ctx.attr_int("blocksize"), channel_major=mode == "CRD")
    return from_image(ctx, ctx.emit(op, image(ctx, x)), 4)


@ONNX("SpaceToDepth")
def space_to_depth(ctx: Context) -> Value:
    x = ctx.operand(0)
    if x.type.rank != 4:
        ctx.invalid(f"its operand is {x.type}, [N, C, H, W] is needed")
    block, mode = ctx.attr_int("blocksize"), ctx.attr_text("mode", "DCR")
    y = ctx.emit(SpaceToDepth(block), image(ctx, x))
    if mode == "CRD":
        n, h, w, _ = y.type.shape
        split = ctx.reshape(y, (n, h, w, block * block, x.type.shape[1]))
        y = ctx.reshape(ctx.transpose(split, (0, 1, 2, 4, 3)), y.type.shape)
    return from_image(ctx, y, 4)
