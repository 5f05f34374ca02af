"""Slices chosen by index: indices or the table may be constant. Constant indices in even steps are a movement."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.movement import RowRule, moved
from trivet.backends.plan.kernels.strides import Axis, Segment
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.plan.kernels.take import take_rows
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.ir.graph import Node
from trivet.ops.movement import Gather

_FIELDS = (
    Field("table", BLOB, "what is chosen from; absent: the first activation"),
    Field("indices", BLOB, "i32 [count], negative ones count from the end; absent: the next activation (i32, i64)"),
    Field("outer", U32, "blocks, of a row or of the tensor"),
    Field("extent", U32, "slices of a block to choose from"),
    Field("count", U32, "slices chosen in each block"),
    Field("slice_bytes", U32),
)

GATHER = CKernel(104, "gather", Record("gather", _FIELDS), by_rows=False)
GATHER_ROWS = CKernel(105, "gather_rows", Record("gather_rows", _FIELDS))
FAMILY = (GATHER, GATHER_ROWS)


@KERNELS.kernel(Gather)
def gather(node: Node) -> Call | None:
    op, (x, indices) = node.op, node.inputs
    assert isinstance(op, Gather)
    if node.output.type.elements == 0 or x.type.elements == 0:
        return None
    chosen = None if indices.data is None else _from_start(indices.data, x.type.shape[op.axis])
    by_rows = x.type.rank == node.output.type.rank == 4 and op.axis >= 2 and not x.is_constant
    if chosen is not None and not x.is_constant:
        return _at_known_places(node, op, chosen, by_rows)
    return _looked_up(node, op, chosen, by_rows)


def _looked_up(node: Node, op: Gather, chosen: npt.NDArray[np.int32] | None, by_rows: bool) -> Call:
    x, indices = node.inputs
    params: Params = {
        "table": x.data,
        "indices": chosen,
        "outer": math.prod(x.type.shape[2 if by_rows else 0 : op.axis]),
        "extent": x.type.shape[op.axis],
        "count": indices.type.elements,
        "slice_bytes": x.type.dtype.size_bytes(math.prod(x.type.shape[op.axis + 1 :])),
    }
    operands = tuple(v for v in node.inputs if not v.is_constant)
    if by_rows:
        return Call(GATHER_ROWS, operands, params)
    return Call(GATHER, operands, params, images=1)


def _at_known_places(node: Node, op: Gather, chosen: npt.NDArray[np.int32], by_rows: bool) -> Call | None:
    x = node.inputs[0].type
    if x.rank == node.output.type.rank == 4 and op.axis == 1:
        return take_rows(node, chosen)
    steps = np.diff(chosen)
    if (steps != steps[:1]).any():
        return _looked_up(node, op, chosen, by_rows)
    outer, inner = math.prod(x.shape[2 if by_rows else 0 : op.axis]), math.prod(x.shape[op.axis + 1 :])
    step = int(steps[0]) if len(steps) else 1
    axes = (
        Axis(outer, x.shape[op.axis] * inner, len(chosen) * inner),
        Axis(len(chosen), step * inner, inner),
        Axis(inner, 1, 1),
    )
    return moved(node, [Segment(int(chosen[0]) * inner, 0, axes)], RowRule() if by_rows else None)


def _from_start(indices: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.int32]:
    """Indices that count from the start, as one list."""
    flat = np.ravel(indices).astype(np.int64)
    return np.where(flat < 0, flat + size, flat).astype(np.int32)
