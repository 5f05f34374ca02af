"""Copies on the vector unit, through views; reshapes move nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from trivet.backends.tpu.ir import ELEMENTS, Reduce, Target, VectorLayer, View
from trivet.backends.tpu.limits import refuse_unless
from trivet.backends.tpu.lowering.builder import LOWERINGS, Builder, Lower
from trivet.core.dtype import I8, I32, U8
from trivet.ir.graph import Node
from trivet.ir.types import Shape
from trivet.ops.movement import Concat, Expand, Pad, PadMode, Reshape, Slice, Transpose
from trivet.ops.resize import ResizeNearest

AXES = 4
"""Loops of an address generator."""


@LOWERINGS.kernel(Reshape)
def lower_reshape(node: Node) -> Lower:
    """The same bytes."""
    dtype = node.output.type.dtype
    refuse_unless(dtype.name in ELEMENTS, node, f"the activation memory holds {', '.join(ELEMENTS)}, not {dtype.name}")
    return lambda builder: builder.alias(node.output, node.inputs[0])


@LOWERINGS.kernel(Transpose, Slice, Expand)
def lower_strided(node: Node) -> Lower:
    """A copy in the order of the result's axes, neighbours merged where they are one loop."""
    _check_elements(node)
    axes, offset = _loops(node)
    refuse_unless(len(axes) <= AXES, node, f"it needs {len(axes)} loops: an address generator has {AXES}")
    return partial(_emit_strided, node, axes, offset)


def _loops(node: Node) -> tuple[list[tuple[int, int]], int]:
    """(extent, step) of each loop over the operand's elements, and the number of the first element."""
    op, shape = node.op, node.inputs[0].type.shape
    own = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    offset, result = 0, node.output.type.shape
    match op:
        case Transpose(perm):
            steps = [own[axis] for axis in perm]
        case Slice(starts, _, strides):
            steps = [step * stride for step, stride in zip(own, strides, strict=True)]
            offset = sum(start * step for start, step in zip(starts, own, strict=True))
        case _:
            missing = len(result) - len(shape)
            steps = [0] * missing + [0 if d == 1 else step for d, step in zip(shape, own, strict=True)]
    return merged(result, steps), offset


def merged(shape: Sequence[int], steps: Sequence[int]) -> list[tuple[int, int]]:
    """Loops with extents over 1, where one that only continues its neighbour is part of it."""
    loops: list[tuple[int, int]] = []
    for extent, step in zip(shape, steps, strict=True):
        if extent == 1:
            continue
        if loops and loops[-1][1] == step * extent:
            loops[-1] = (loops[-1][0] * extent, step)
        else:
            loops.append((extent, step))
    return loops


def _emit_strided(node: Node, axes: list[tuple[int, int]], offset: int, builder: Builder) -> None:
    (n, sn), (h, sh), (w, sw), (c, sc) = [(1, 0)] * (AXES - len(axes)) + axes
    view = View(builder.buffer(node.inputs[0]), offset, (sn, sh, sw, sc), n, (h, w), c, (h, w))
    _copy(builder, node, view, Target.matrix(builder.define(node.output), view.rows, c))


def _copy(builder: Builder, node: Node, view: View, target: Target, suffix: str = "") -> None:
    name = (node.output.name or node.op.name) + suffix
    builder.add(VectorLayer(name, view, Reduce.SUM, (), target))


@LOWERINGS.kernel(Concat)
def lower_concat(node: Node) -> Lower:
    """One copy an operand, into its columns of every row."""
    _check_elements(node)
    return partial(_emit_concat, node)


def _emit_concat(node: Node, builder: Builder) -> None:
    op = node.op
    assert isinstance(op, Concat)
    shape = node.output.type.shape
    outer, inner = math.prod(shape[: op.axis]), math.prod(shape[op.axis :])
    sources = [builder.buffer(value) for value in node.inputs]
    out, offset = builder.define(node.output), 0
    for number, (source, value) in enumerate(zip(sources, node.inputs, strict=True)):
        columns = value.type.elements // outer if outer else 0
        if columns:
            target = Target.matrix(out, outer, columns, offset, inner)
            _copy(builder, node, View.matrix(source, outer, columns), target, f".{number}")
        offset += columns


@LOWERINGS.kernel(Pad)
def lower_pad(node: Node) -> Lower:
    """Windows of one tap that reach over the border."""
    op = node.op
    assert isinstance(op, Pad)
    _check_elements(node)
    refuse_unless(op.mode is PadMode.CONSTANT, node, f"{op.mode.value} padding has no address generator")
    refuse_unless(_image_axes(node) is not None, node, "it pads more than two neighbouring axes, or the last one")
    return partial(_emit_pad, node)


def _image_axes(node: Node) -> Shape | None:
    """[N, H, W, C] of the operand with padding on H and W alone, None where it is not so."""
    op, shape = node.op, node.inputs[0].type.shape
    assert isinstance(op, Pad)
    padded = [axis for axis in range(len(shape)) if op.before[axis] or op.after[axis]]
    if not padded or len(padded) > 2 or padded[-1] - padded[0] + 1 != len(padded) or padded[-1] == len(shape) - 1:
        return None
    first, last = padded[0], padded[-1]
    height, width = (shape[first], shape[last]) if len(padded) == 2 else (shape[first], 1)
    return math.prod(shape[:first]), height, width, math.prod(shape[last + 1 :])


def _emit_pad(node: Node, builder: Builder) -> None:
    op, sizes = node.op, _image_axes(node)
    assert isinstance(op, Pad) and sizes is not None
    n, h, w, c = sizes
    padded = [axis for axis in range(len(op.before)) if op.before[axis] or op.after[axis]]
    before = [op.before[axis] for axis in padded] + [0] * (2 - len(padded))
    after = [op.after[axis] for axis in padded] + [0] * (2 - len(padded))
    out = (h + before[0] + after[0], w + before[1] + after[1])
    source, pads = builder.buffer(node.inputs[0]), (before[0], before[1])
    view = View(source, 0, (h * w * c, w * c, c, 1), n, (h, w), c, out, pads=pads, fill=int(op.value))
    _copy(builder, node, view, Target.matrix(builder.define(node.output), view.rows, c))


@LOWERINGS.kernel(ResizeNearest)
def lower_resize(node: Node) -> Lower:
    """By whole factors: for each row that a row becomes, a copy in which every column repeats."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, ResizeNearest)
    _check_elements(node)
    for size, extent, taps in zip(op.size, x.shape[1:3], op.taps(x), strict=True):
        repeats = size % extent == 0 and bool(np.array_equal(taps.lower, np.arange(size) // (size // extent)))
        refuse_unless(repeats, node, f"it does not repeat every element: {x} becomes {list(op.size)}")
    return partial(_emit_resize, node)


def _emit_resize(node: Node, builder: Builder) -> None:
    op = node.op
    assert isinstance(op, ResizeNearest)
    images, height, width, channels = node.inputs[0].type.shape
    rows, columns = op.size
    down, across = rows // height, columns // width
    source, out = builder.buffer(node.inputs[0]), builder.define(node.output)
    for number in range(images * down):
        image, i = divmod(number, down)
        steps = (width * channels, channels, 0, 1)
        first = image * height * width * channels
        view = View(source, first, steps, height, (width, across), channels, (width, across))
        at = (image * rows + i) * columns * channels
        target = Target(out, at, channels, columns, down * columns * channels)
        _copy(builder, node, view, target, f".{number}")


def _check_elements(node: Node) -> None:
    dtype = node.output.type.dtype
    refuse_unless(dtype in (I8, U8, I32), node, f"it moves {dtype.name}: the vector unit moves i8, u8 and i32")
