"""Rows and columns that are copied from places known when the plan is made; the nearest-neighbour resize."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.movement import RowRule, moved
from trivet.backends.plan.kernels.strides import Axis, Segment
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.ir.graph import Node
from trivet.ops.resize import ResizeNearest

MAX_INDEX = 0xFFFF

TAKE = CKernel(
    106,
    "take",
    Record(
        "take",
        (
            Field("rows", BLOB, "u16: the operand row of each row"),
            Field("columns", BLOB, "u16: the operand pixel of each pixel of a row; absent: whole rows"),
            Field("pixel_bytes", U32),
        ),
    ),
)
FAMILY = (TAKE,)

_Indices: TypeAlias = "npt.NDArray[np.int32] | npt.NDArray[np.int64]"


@KERNELS.kernel(ResizeNearest)
def resize_nearest(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, ResizeNearest)
    if y.elements == 0 or x.elements == 0:
        return None
    rows, columns = (taps.lower for taps in op.taps(x))
    down, right = _regular(rows), _regular(columns)
    channels = x.shape[3]
    if down is None or right is None or y.shape[2] % right.group:
        return _take(node, rows, columns)
    axes = (
        Axis(y.shape[2] // right.group, right.step * channels, right.group * channels),
        Axis(right.group, 0, channels),
        Axis(channels, 1, 1),
    )
    return moved(node, [Segment(right.first * channels, 0, axes)], down)


def take_rows(node: Node, rows: _Indices) -> Call | None:
    """Whole rows of the first operand."""
    return _take(node, rows, None)


def _take(node: Node, rows: _Indices, columns: _Indices | None) -> Call | None:
    x = node.inputs[0].type
    if max(x.shape[1], x.shape[2]) > MAX_INDEX + 1:
        return None
    params: Params = {
        "rows": rows.astype("<u2"),
        "columns": None if columns is None else columns.astype("<u2"),
        "pixel_bytes": x.dtype.size_bytes(x.shape[3]),
    }
    return Call(TAKE, node.inputs[:1], params)


def _regular(indices: _Indices) -> RowRule | None:
    """The rule first + (i // group) * step where the indices follow it."""
    changes = np.flatnonzero(np.diff(indices))
    group = int(changes[0]) + 1 if len(changes) else len(indices)
    step = int(indices[group] - indices[0]) if len(changes) else 1
    follows = indices[0] + np.arange(len(indices)) // group * step
    return RowRule(int(indices[0]), step, group) if np.array_equal(indices, follows) else None
