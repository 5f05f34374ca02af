"""Elements of any type that move by a fixed rule: slices, padding, transposes, repetition, blocks of pixels.

A movement that keeps the batch and takes each output row from few operand rows is a `move_rows`; any other is a
`move` of the whole tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.strides import Axis, Segment, loops, strides
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U8, U32, Field, FieldValue, Record
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.types import Shape
from trivet.ops.movement import DepthToSpace, Expand, Pad, PadMode, Slice, SpaceToDepth, Tile, Transpose

_LOOPS = (
    Field("segments", BLOB, "i32 [segments][2 + 3 axes]: first bytes in operand and result; extent, steps in bytes"),
    Field("axes", U32, "loops of a segment, outermost first; at most 8"),
    Field("run_bytes", U32, "that move at a time"),
    Field("fills", U32, "before anything moves: 0 nothing, 1 rows outside of the operand, 2 every row"),
    Field("fill", U8, "what it is filled with, over and over", 8),
)
_ROWS = (
    Field("first_row", I32, "operand row of row 0"),
    Field("row_step", I32, "operand rows from one group of rows to the next"),
    Field("group", U32, "rows of the result that come from the same operand rows"),
    Field("phase_bytes", U32, "bytes in the operand from one row of a group to the next"),
    Field("taps", U32, "operand rows of a row"),
    Field("tap_bytes", U32, "bytes in the result from one operand row to the next"),
    Field("border", U32, "rows outside are 0 only filled, 1 the nearest, 2 mirrored without and 3 with the border"),
)

MOVE = CKernel(102, "move", Record("move", _LOOPS), by_rows=False)
MOVE_ROWS = CKernel(103, "move_rows", Record("move_rows", (*_LOOPS, *_ROWS)))
FAMILY = (MOVE, MOVE_ROWS)

_BORDERS = {PadMode.CONSTANT: 0, PadMode.EDGE: 1, PadMode.REFLECT: 2, PadMode.SYMMETRIC: 3}


@dataclass(frozen=True, slots=True)
class Fill:
    """What lies where nothing moves to: `where` 0 nowhere, 1 in rows outside of the operand, 2 in every row."""

    where: int
    value: bytes


NO_FILL = Fill(0, bytes(8))


@dataclass(frozen=True, slots=True)
class RowRule:
    """Which operand rows a row of the result comes from: the fields of `_ROWS`, in elements."""

    first: int = 0
    step: int = 1
    group: int = 1
    phase: int = 0
    taps: int = 1
    tap: int = 0
    border: int = 0

    def fields(self, element_bytes: int) -> dict[str, FieldValue]:
        return {
            "first_row": self.first,
            "row_step": self.step,
            "group": self.group,
            "phase_bytes": self.phase * element_bytes,
            "taps": self.taps,
            "tap_bytes": self.tap * element_bytes,
            "border": self.border,
        }


def moved(node: Node, segments: Sequence[Segment], rows: RowRule | None = None, fill: Fill = NO_FILL) -> Call | None:
    """A call that moves the segments of each row, or of the whole tensor where there is no rule for rows."""
    y = node.output.type
    if y.elements == 0 or node.inputs[0].type.elements == 0:
        return None
    table = loops(segments)
    if table is None:
        return None
    width = y.dtype.size_bytes(1)
    params: Params = {
        "segments": table.table(width),
        "axes": table.axes,
        "run_bytes": table.run * width,
        "fills": fill.where,
        "fill": tuple(fill.value * (8 // len(fill.value))),
    }
    if rows is None:
        return Call(MOVE, node.inputs[:1], params, images=1)
    return Call(MOVE_ROWS, node.inputs[:1], {**params, **rows.fields(width)})


@KERNELS.kernel(Slice)
def slice_(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, Slice)
    by_rows = x.rank == 4 and x.shape[0] == y.shape[0] and op.steps[0] == 1
    inner = range(2 if by_rows else 0, x.rank)
    sources, targets = strides(x.shape), strides(y.shape)
    axes = tuple(Axis(op.sizes[i], op.steps[i] * sources[i], targets[i]) for i in inner)
    first = sum(op.starts[i] * sources[i] for i in inner)
    return moved(node, [Segment(first, 0, axes)], RowRule(op.starts[1], op.steps[1]) if by_rows else None)


@KERNELS.kernel(Pad)
def pad(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, Pad)
    by_rows = x.rank == 4 and x.shape[0] == y.shape[0]
    inner = range(2 if by_rows else 0, x.rank)
    pieces = [_pieces(op, axis, x.shape[axis]) for axis in inner]
    sources, targets = strides(x.shape)[inner.start :], strides(y.shape)[inner.start :]
    segments = [_joined(parts, sources, targets) for parts in product(*pieces)]
    fill = NO_FILL
    if op.mode is PadMode.CONSTANT:
        covered = all(x.shape[i] == y.shape[i] for i in inner)
        fill = Fill(1 if covered else 2, np.asarray(op.value).astype(x.dtype.numpy).tobytes())
    rows = RowRule(-op.before[1], border=_BORDERS[op.mode]) if by_rows else None
    return moved(node, segments, rows, fill)


@KERNELS.kernel(Transpose)
def transpose(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, Transpose)
    by_rows = x.rank == 4 and op.perm[:2] == (0, 1)
    sources, targets = strides(x.shape), strides(y.shape)
    axes = [Axis(y.shape[i], sources[op.perm[i]], targets[i]) for i in range(2 if by_rows else 0, x.rank)]
    return moved(node, [Segment(0, 0, tuple(axes))], RowRule() if by_rows else None)


@KERNELS.kernel(Expand)
def expand(node: Node) -> Call | None:
    x, y = node.inputs[0].type, node.output.type
    shape = (*(1,) * (y.rank - x.rank), *x.shape)
    by_rows = (
        y.rank == 4 and (x.rank == 4 or shape[1] == 1) and (shape[0] == y.shape[0] or x.rank != 4 or shape[0] == 1)
    )
    sources, targets = strides(shape), strides(y.shape)
    inner = range(2 if by_rows else 0, y.rank)
    axes = [Axis(y.shape[i], sources[i] if shape[i] == y.shape[i] else 0, targets[i]) for i in inner]
    return moved(node, [Segment(0, 0, tuple(axes))], RowRule(step=int(shape[1] != 1)) if by_rows else None)


@KERNELS.kernel(Tile)
def tile(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, Tile)
    by_rows = x.rank == 4 and op.repeats[:2] == (1, 1)
    sources, targets = strides(x.shape), strides(y.shape)
    axes: list[Axis] = []
    for i in range(2 if by_rows else 0, x.rank):
        axes += [Axis(op.repeats[i], 0, x.shape[i] * targets[i]), Axis(x.shape[i], sources[i], targets[i])]
    return moved(node, [Segment(0, 0, tuple(axes))], RowRule() if by_rows else None)


@KERNELS.kernel(SpaceToDepth)
def space_to_depth(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, SpaceToDepth)
    block, line = op.block, op.block * x.shape[3]
    axes = (Axis(x.shape[2] // block, line, block * line), Axis(line, 1, 1))
    return moved(node, [Segment(0, 0, axes)], RowRule(step=block, taps=block, tap=line))


@KERNELS.kernel(DepthToSpace)
def depth_to_space(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, DepthToSpace)
    block, depth, width = op.block, y.shape[3], x.shape[2]
    pixels = Axis(width, x.shape[3], block * depth)
    if op.channel_major:
        axes = (pixels, Axis(block, 1, depth), Axis(depth, block * block, 1))
        return moved(node, [Segment(0, 0, axes)], RowRule(group=block, phase=block))
    return moved(node, [Segment(0, 0, (pixels, Axis(block * depth, 1, 1)))], RowRule(group=block, phase=block * depth))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of an axis: first index and extent in the result, first index and step in the operand."""

    target: int
    extent: int
    source: int
    step: int


def _pieces(op: Pad, axis: int, size: int) -> list[_Piece]:
    before, after = op.before[axis], op.after[axis]
    middle, end = _Piece(before, size, 0, 1), before + size
    match op.mode:
        case PadMode.CONSTANT:
            return [middle]
        case PadMode.EDGE:
            return [_Piece(0, before, 0, 0), middle, _Piece(end, after, size - 1, 0)]
        case PadMode.REFLECT:
            return [_Piece(0, before, before, -1), middle, _Piece(end, after, size - 2, -1)]
        case PadMode.SYMMETRIC:
            return [_Piece(0, before, before - 1, -1), middle, _Piece(end, after, size - 1, -1)]


def _joined(parts: Sequence[_Piece], sources: Shape, targets: Shape) -> Segment:
    """One piece of every axis as a segment."""
    axes = [Axis(p.extent, p.step * s, t) for p, s, t in zip(parts, sources, targets, strict=True)]
    source = sum(p.source * s for p, s in zip(parts, sources, strict=True))
    target = sum(p.target * t for p, t in zip(parts, targets, strict=True))
    return Segment(source, target, tuple(axes))
