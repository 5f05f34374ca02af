"""Reductions: over rows as they come (the global average pool), or over a block of neighbouring axes at once."""

from __future__ import annotations

import math

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.core.quant import quantize_multiplier
from trivet.ir.graph import Node
from trivet.ir.types import TensorType
from trivet.ops.reduce import Mean, ReduceMax, ReduceMin, ReduceProd, Sum

_RESCALE = (
    Field("scale", BLOB, "f64 [1]: operand scale / result scale, rounded half to even; absent: mantissa and shift"),
    Field("mantissa", I32, "Q0.31 of what brings a sum to the result"),
    Field("shift", I32, "left if positive"),
    Field("count", U32, "elements of one result"),
    Field("divide", U32, "1: with `scale`, sums are divided by the count first"),
    Field("in_zero", I32, "zero point of the operand"),
    Field("out_zero", I32, "zero point of the result"),
)
_BLOCK = (
    Field("outer", U32, "blocks"),
    Field("extent", U32, "elements that become one"),
    Field("inner", U32, "results of one block"),
)
_PIXELS = (Field("width", U32, "pixels of a row"), Field("channels", U32))

SUM_ROWS_S8 = CKernel(64, "sum_rows_s8", Record("sum_rows_s8", (*_RESCALE, *_PIXELS)))
SUM_ROWS_F32 = CKernel(65, "sum_rows_f32", Record("sum_rows_f32", (Field("divisor", F32, "of the sums"), *_PIXELS)))
SUM_BLOCK_S8 = CKernel(66, "sum_block_s8", Record("sum_block_s8", (*_RESCALE, *_BLOCK)), by_rows=False)
FOLD_BLOCK_F32 = CKernel(
    67,
    "fold_block_f32",
    Record(
        "fold_block_f32",
        (
            Field("mode", U32, "0 sum, 1 largest, 2 smallest, 3 product"),
            Field("divisor", F32, "of the result of mode 0"),
            *_BLOCK,
        ),
    ),
    by_rows=False,
)
EXTREMUM_BLOCK_S8 = CKernel(
    68,
    "extremum_block_s8",
    Record("extremum_block_s8", (Field("smallest", U32, "0: the largest, 1: the smallest"), *_BLOCK)),
    by_rows=False,
)
FAMILY = (SUM_ROWS_S8, SUM_ROWS_F32, SUM_BLOCK_S8, FOLD_BLOCK_F32, EXTREMUM_BLOCK_S8)

_SPATIAL = (1, 2)
_MODES = {Sum: 0, Mean: 0, ReduceMax: 1, ReduceMin: 2, ReduceProd: 3}
_MAX_COUNT = 1 << 23
"""So many int8 values less a zero point add up inside int32."""

_Params = dict[str, FieldValue | Blob | None]


@KERNELS.kernel(Mean, Sum)
def sum_rows(node: Node) -> Call | None:
    """Sums over rows and columns, which take the rows as they come."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean | Sum)
    if x.rank != 4 or op.axes != _SPATIAL or x.elements == 0:
        return None
    images, height, width, channels = x.shape
    pixels: _Params = {"width": width, "channels": channels}

    def scratch(rows: int) -> int:
        return 4 * channels

    if x.dtype is d.F32:
        divisor = float(height * width) if isinstance(op, Mean) else 1.0
        params = {"divisor": divisor} | pixels
        return Call(SUM_ROWS_F32, node.inputs, params, scratch, images=images, accumulates=True)
    if x.dtype is not d.I8 or op.out is None or op.count(x) > _MAX_COUNT:
        return None
    return Call(SUM_ROWS_S8, node.inputs, _rescale(op, x) | pixels, scratch, images=images, accumulates=True)


@KERNELS.kernel(Mean, Sum)
def sum_block_s8(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean | Sum)
    block = _block(x, op.axes)
    if x.dtype is not d.I8 or op.out is None or block is None or op.count(x) > _MAX_COUNT:
        return None
    return Call(SUM_BLOCK_S8, node.inputs, _rescale(op, x) | block, images=1)


@KERNELS.kernel(Mean, Sum, ReduceMax, ReduceMin, ReduceProd)
def fold_block_f32(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean | Sum | ReduceMax | ReduceMin | ReduceProd)
    block = _block(x, op.axes)
    if x.dtype is not d.F32 or block is None:
        return None
    divisor = float(op.count(x)) if isinstance(op, Mean) else 1.0
    return Call(FOLD_BLOCK_F32, node.inputs, {"mode": _MODES[type(op)], "divisor": divisor} | block, images=1)


@KERNELS.kernel(ReduceMax, ReduceMin)
def extremum_block_s8(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, ReduceMax | ReduceMin)
    block = _block(x, op.axes)
    if x.dtype is not d.I8 or block is None:
        return None
    return Call(EXTREMUM_BLOCK_S8, node.inputs, {"smallest": int(isinstance(op, ReduceMin))} | block, images=1)


def _rescale(op: Mean | Sum, x: TensorType) -> _Params:
    assert x.quant is not None and op.out is not None
    real = x.quant.scale / op.out.scale
    onnx = op.numerics is Numerics.ONNX
    multiplier = op.multiplier(x) if isinstance(op, Mean) else quantize_multiplier(real)
    return {
        "scale": np.array([real], "<f8") if onnx else None,
        "mantissa": 0 if onnx else multiplier.mantissa,
        "shift": 0 if onnx else multiplier.shift,
        "count": op.count(x),
        "divide": int(isinstance(op, Mean)),
        "in_zero": x.quant.zero_point,
        "out_zero": op.out.zero_point,
    }


def _block(x: TensorType, axes: tuple[int, ...]) -> _Params | None:
    """The operand as [outer, extent, inner] where the axes, unit ones aside, are neighbours; None otherwise."""
    real = [axis for axis in range(x.rank) if x.shape[axis] != 1]
    reduced = [axis for axis in real if axis in axes]
    if x.elements == 0 or (reduced and [a for a in real if reduced[0] <= a <= reduced[-1]] != reduced):
        return None
    first, last = (reduced[0], reduced[-1] + 1) if reduced else (x.rank, x.rank)
    shape = x.shape
    return {
        "outer": math.prod(shape[:first]),
        "extent": math.prod(shape[first:last]),
        "inner": math.prod(shape[last:]),
    }
