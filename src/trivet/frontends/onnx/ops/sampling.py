"""Sampling at places that are computed: grids, and what follows them. Coordinates by arithmetic, elements by Gather."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from trivet.core.dtype import F32, I32
from trivet.core.record import dataclass
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.layout import channels_first, channels_last
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.frontends.onnx.ops.movement import joined, sliced
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ops.elementwise import Add, Div, Equal, Maximum, Minimum, Mul, Sub
from trivet.ops.mathematics import Abs, Floor, Round
from trivet.ops.matmul import BatchMatMul
from trivet.ops.movement import Gather

ONNX = Converters()

_CUBIC = -0.75
"""Of the cubic convolution, as everywhere in ONNX."""
_MODES = {"linear": "linear", "bilinear": "linear", "nearest": "nearest", "cubic": "cubic", "bicubic": "cubic"}


@dataclass(frozen=True, slots=True)
class Tap:
    """A neighbour along an axis: its index as a float, and its weight (None: 1)."""

    index: Value
    weight: Value | None


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is sampled: its size and what lies outside of it."""

    size: int
    padding: str
    aligned: bool

    @property
    def limits(self) -> tuple[float, float]:
        """Where the elements' area ends: in the centre of the outermost ones where corners are aligned."""
        return (0.0, self.size - 1.0) if self.aligned else (-0.5, self.size - 0.5)


@ONNX("GridSample")
def grid_sample(ctx: Context) -> Value:
    """x: [N, C, D1..], grid: [N, E1.., axes], places from -1 to 1, last axis first -> [N, C, E1..]."""
    x, grid = ctx.operand(0), ctx.operand(1)
    rank = x.type.rank - 2
    if rank < 1 or grid.type.rank != rank + 2 or grid.type.shape[-1] != rank or grid.type.shape[0] != x.type.shape[0]:
        ctx.invalid(f"a grid {grid.type} does not suit {x.type}")
    mode, padding = ctx.attr_text("mode", "linear"), ctx.attr_text("padding_mode", "zeros")
    if mode not in _MODES or padding not in ("zeros", "border", "reflection"):
        ctx.invalid(f"mode '{mode}' with padding '{padding}'")
    aligned = ctx.attr_flag("align_corners")
    axes = [Axis(size, padding, aligned) for size in x.type.shape[2:]]
    places = ctx.reshape(grid, (grid.type.elements // rank, rank))
    taps = []
    for index, axis in enumerate(axes):
        place = sliced(ctx, places, 1, rank - 1 - index, 1)
        taps.append(_taps(ctx, _coordinate(ctx, place, axis), axis, _MODES[mode]))
    count = math.prod(grid.type.shape[1:-1])
    images = np.repeat(np.arange(x.type.shape[0]) * math.prod(x.type.shape[2:]), count)[:, None]
    y = _sampled(ctx, channels_last(ctx, x), axes, taps, images)
    return channels_first(ctx, ctx.reshape(y, (*grid.type.shape[:-1], x.type.shape[1])))


def _number(ctx: Context, op: Add | Sub | Mul | Div | Maximum | Minimum, x: Value, number: float) -> Value:
    return ctx.emit(op, x, ctx.constant(number))


def _coordinate(ctx: Context, place: Value, axis: Axis) -> Value:
    """A place from -1 to 1 as an index, reflected into the axis where the padding says so."""
    scale = (axis.size - 1) / 2 if axis.aligned else axis.size / 2
    index = _number(ctx, Add(), _number(ctx, Mul(), place, scale), (axis.size - 1) / 2)
    return _reflected(ctx, index, axis) if axis.padding == "reflection" else index


def _clamped(ctx: Context, x: Value, low: float, high: float) -> Value:
    return _number(ctx, Minimum(), _number(ctx, Maximum(), x, low), high)


def _reflected(ctx: Context, x: Value, axis: Axis) -> Value:
    """Thrown back at both limits as often as it takes: a wave of triangles."""
    low, high = axis.limits
    span = high - low
    if span == 0:
        return _number(ctx, Mul(), x, 0.0)
    rest = _number(ctx, Sub(), x, low)
    turns = ctx.emit(Floor(), _number(ctx, Div(), rest, 2 * span))
    rest = ctx.emit(Sub(), rest, _number(ctx, Mul(), turns, 2 * span))
    return ctx.emit(Sub(), ctx.constant(high), ctx.emit(Abs(), _number(ctx, Sub(), rest, span)))


def _taps(ctx: Context, index: Value, axis: Axis, mode: str) -> list[Tap]:
    """The neighbours of a place along one axis, inside of it, each with its weight."""
    if mode == "nearest":
        return [_inside(ctx, ctx.emit(Round(), index), None, axis)]
    first = ctx.emit(Floor(), index)
    t = ctx.emit(Sub(), index, first)
    if mode == "linear":
        weights = {0: ctx.emit(Sub(), ctx.constant(1.0), t), 1: t}
    else:
        weights = {offset: _cubic(ctx, t, offset) for offset in (-1, 0, 1, 2)}
    return [_inside(ctx, _number(ctx, Add(), first, offset), weight, axis) for offset, weight in weights.items()]


def _cubic(ctx: Context, t: Value, offset: int) -> Value:
    """The weight of the neighbour at `offset` of a place t after it: a polynomial of the distance."""
    a = _CUBIC
    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    distance = _number(ctx, Add(), t, -offset) if offset <= 0 else ctx.emit(Sub(), ctx.constant(float(offset)), t)
    factors = near if offset in (0, 1) else far
    y = ctx.constant(factors[0])
    for factor in factors[1:]:
        y = _number(ctx, Add(), ctx.emit(Mul(), y, distance), factor)
    return y


def _inside(ctx: Context, index: Value, weight: Value | None, axis: Axis) -> Tap:
    """Outside of the axis there are zeros, the outermost element, or what lies at the reflected place."""
    if axis.padding == "reflection":
        index = _reflected(ctx, index, axis)
    near = _clamped(ctx, index, 0.0, axis.size - 1.0)
    if axis.padding != "zeros":
        return Tap(near, weight)
    exists = cast_to(ctx, ctx.emit(Equal(), near, index), F32)
    return Tap(near, exists if weight is None else ctx.emit(Mul(), weight, exists))


def _sampled(ctx: Context, x: Value, axes: Sequence[Axis], taps: Sequence[Sequence[Tap]], images: Array) -> Value:
    """x: [N, D1.., C], taps of P places along each axis, `images` their first pixels: [P, 1] -> [P, C]."""
    channels = x.type.shape[-1]
    pixels = ctx.reshape(x, (x.type.elements // max(channels, 1), channels))
    strides = [math.prod(axis.size for axis in axes[i + 1 :]) for i in range(len(axes))]
    columns = [[ctx.emit(Mul(), cast_to(ctx, tap.index, I32), ctx.constant(stride, I32)) for tap in own]
               for own, stride in zip(taps, strides, strict=True)]  # fmt: skip
    y: Value | None = None
    for choice in itertools.product(*(range(len(own)) for own in taps)):
        place = ctx.constant(images, I32)
        for own, chosen in zip(columns, choice, strict=True):
            place = ctx.emit(Add(), place, own[chosen])
        part = ctx.emit(Gather(0), pixels, ctx.reshape(place, (place.type.elements,)))
        for own_taps, chosen in zip(taps, choice, strict=True):
            weight = own_taps[chosen].weight
            part = part if weight is None else ctx.emit(Mul(), part, weight)
        y = part if y is None else ctx.emit(Add(), y, part)
    assert y is not None
    return y


@ONNX("AffineGrid")
def affine_grid(ctx: Context) -> Value:
    """theta: [N, axes, axes + 1], the size [N, C, D1..] -> grid [N, D1.., axes], last axis first."""
    theta, aligned = ctx.operand(0), ctx.attr_flag("align_corners")
    batch, _, *sizes = ctx.known_ints(1, "the size")
    rank = len(sizes)
    if rank < 1 or theta.type.shape != (batch, rank, rank + 1) or min(sizes) < 1:
        ctx.invalid(f"the size {sizes} does not suit {theta.type}")
    lines = [_line(size, aligned) for size in sizes]
    places = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(sizes)], -1).reshape(1, -1, rank + 1)
    y = ctx.emit(BatchMatMul(transpose_b=True), ctx.constant(np.repeat(places, batch, 0)), theta)
    return ctx.reshape(y, (batch, *sizes, rank))


def _line(size: int, aligned: bool) -> Array:
    """Places of `size` elements between -1 and 1: their centres, or (aligned) with the outermost ones at the ends."""
    if aligned:
        return np.linspace(-1, 1, size)
    return (2 * np.arange(size) + 1) / size - 1


@ONNX("DeformConv")
def deformable_convolution(ctx: Context) -> Value:
    """x, w, offset [N, groups * kernel * 2, H', W'], bias and mask (optional): products of elements found linearly."""
    x, w, offset = ctx.operand(0), ctx.operand(1), ctx.operand(2)
    groups, split = ctx.attr_int("group", 1), ctx.attr_int("offset_group", 1)
    if x.type.rank != 4 or w.type.rank != 4 or offset.type.rank != 4:
        ctx.refuse(f"a deformable convolution of {x.type}", hint="two spatial axes are taken")
    kernel, (batch, channels, *_), (_, _, rows, columns) = w.type.shape[2:], x.type.shape, offset.type.shape
    taps, outputs = math.prod(kernel), w.type.shape[0]
    if min(groups, split) < 1 or channels % split or offset.type.shape[1] != 2 * taps * split or outputs % groups:
        ctx.invalid(f"offsets {offset.type} in {split} groups do not suit {x.type} and {w.type}")
    parts = [_deformed(ctx, sliced(ctx, x, 1, g * channels // split, channels // split), kernel, g)
             for g in range(split)]  # fmt: skip
    sampled = joined(ctx, parts, 3)  # [N, H' * W', taps, C]
    results = []
    for g in range(groups):
        own = sliced(ctx, sampled, 3, g * channels // groups, channels // groups)
        flat = ctx.reshape(own, (batch * rows * columns, taps * channels // groups))
        filters = ctx.transpose(sliced(ctx, w, 0, g * outputs // groups, outputs // groups), (2, 3, 1, 0))
        results.append(ctx.emit(BatchMatMul(), flat, ctx.reshape(filters, (flat.type.shape[1], outputs // groups))))
    y = joined(ctx, results, 1)
    y = ctx.reshape(y, (batch, rows, columns, outputs))
    return channels_first(ctx, y if ctx.optional(3) is None else ctx.emit(Add(), y, ctx.operand(3)))


def _deformed(ctx: Context, x: Value, kernel: tuple[int, ...], group: int) -> Value:
    """What every tap of the window meets: x: [N, C, H, W] -> [N, H' * W', taps, C]."""
    offset, taps = ctx.operand(2), math.prod(kernel)
    batch, _, rows, columns = offset.type.shape
    stride, dilation = ctx.attr_ints("strides", (1, 1)), ctx.attr_ints("dilations", (1, 1))
    pads = ctx.attr_ints("pads", (0, 0, 0, 0))
    own = sliced(ctx, offset, 1, group * 2 * taps, 2 * taps)
    own = ctx.transpose(ctx.reshape(own, (batch, taps, 2, rows, columns)), (0, 3, 4, 1, 2))
    moves = ctx.reshape(own, (batch * rows * columns * taps, 2))
    grid = np.meshgrid(*(np.arange(n) for n in (rows, columns, *kernel)), indexing="ij")
    axes = [Axis(size, "zeros", True) for size in x.type.shape[2:]]
    places = []
    for axis in range(2):
        regular = grid[axis] * stride[axis] - pads[axis] + grid[axis + 2] * dilation[axis]
        regular = np.tile(regular.reshape(-1, 1), (batch, 1)).astype(np.float32)
        index = ctx.emit(Add(), ctx.constant(regular), sliced(ctx, moves, 1, axis, 1))
        places.append(_taps(ctx, index, axes[axis], "linear"))
    size = math.prod(x.type.shape[2:])
    images = np.repeat(np.arange(batch) * size, rows * columns * taps)[:, None]
    y = _sampled(ctx, channels_last(ctx, x), axes, places, images)
    if ctx.has(4):
        mask = sliced(ctx, ctx.operand(4), 1, group * taps, taps)
        mask = ctx.transpose(ctx.reshape(mask, (batch, taps, rows, columns)), (0, 2, 3, 1))
        y = ctx.emit(Mul(), y, ctx.reshape(mask, (y.type.shape[0], 1)))
    return ctx.reshape(y, (batch, rows * columns, taps, x.type.shape[1]))
