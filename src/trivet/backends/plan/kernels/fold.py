"""Reductions over any axes of any element type, and the place of the largest or smallest element along one.

The kernels of `reduce` are faster where they apply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.format import DTYPES
from trivet.backends.plan.kernels.strides import strides
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.ir.graph import Node
from trivet.ir.op import Op
from trivet.ops.reduce import ArgMax, ArgMin, Mean, ReduceMax, ReduceMin, ReduceProd, Sum

FOLD = CKernel(
    165,
    "fold",
    Record(
        "fold",
        (
            Field("kept", BLOB, "u32 [axes][2]: extent and elements from index to index of the axes that stay"),
            Field("folded", BLOB, "u32 [axes][2]: the same of those that go"),
            Field("mode", U32, "0 sum, 1 mean, 2 largest, 3 smallest, 4 product"),
            Field("dtype", U32, "element type"),
        ),
    ),
    by_rows=False,
)
ARGUMENT = CKernel(
    166,
    "argument",
    Record(
        "argument",
        (
            Field("outer", U32, "blocks"),
            Field("extent", U32, "of the axis"),
            Field("inner", U32, "results of one block"),
            Field("smallest", U32, "0: the place of the largest, 1: of the smallest"),
            Field("dtype", U32, "element type of the operand"),
            Field("wide", U32, "1: results are int64, 0: int32"),
        ),
    ),
    by_rows=False,
)
FAMILY = (FOLD, ARGUMENT)

_MODES: dict[type[Op], int] = {Sum: 0, Mean: 1, ReduceMax: 2, ReduceMin: 3, ReduceProd: 4}
_ORDERED = (d.F32, d.I8, d.U8, d.I16, d.I32, d.I64)
_MAX_AXES = 8


@KERNELS.kernel(*_MODES, fallback=True)
def fold(node: Node) -> Call | None:
    """Floats and plain integers; the largest and smallest of quantized ones too, which stay as they are stored."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Sum | Mean | ReduceMax | ReduceMin | ReduceProd)
    computes = not isinstance(op, ReduceMax | ReduceMin)
    if x.elements == 0 or x.rank > _MAX_AXES or x.dtype not in (*_ORDERED, d.BOOL):
        return None
    if computes and (x.quant is not None or x.dtype not in (d.F32, d.I32, d.I64)):
        return None
    axes = [(n, s) for n, s in zip(x.shape, strides(x.shape), strict=True)]
    params: dict[str, FieldValue | Blob | None] = {
        "kept": _table(axis for i, axis in enumerate(axes) if i not in op.axes),
        "folded": _table(axis for i, axis in enumerate(axes) if i in op.axes),
        "mode": _MODES[type(op)],
        "dtype": DTYPES[d.U8 if x.dtype is d.BOOL else x.dtype],
    }
    return Call(FOLD, node.inputs, params, images=1)


def _table(axes: Iterable[tuple[int, int]]) -> Blob:
    """Axes of more than one index; one of a single index where there is no other."""
    return np.array([axis for axis in axes if axis[0] != 1] or [(1, 1)], "<u4")


@KERNELS.kernel(ArgMax, ArgMin)
def argument(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, ArgMax | ArgMin)
    if x.dtype not in _ORDERED or x.elements == 0:
        return None
    params: dict[str, FieldValue | Blob | None] = {
        "outer": math.prod(x.shape[: op.axis]),
        "extent": x.shape[op.axis],
        "inner": math.prod(x.shape[op.axis + 1 :]),
        "smallest": int(isinstance(op, ArgMin)),
        "dtype": DTYPES[x.dtype],
        "wide": int(op.dtype is d.I64),
    }
    return Call(ARGUMENT, node.inputs, params, images=1)
