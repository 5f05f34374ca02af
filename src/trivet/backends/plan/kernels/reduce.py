"""Reductions: over rows as they come (the global average pool), or over a block of neighbouring axes at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.limits import SCALES, SHIFTS
from trivet.backends.plan.kernels.requant import real_bounds
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.core.bounds import UNBOUNDED
from trivet.core.numerics import Numerics
from trivet.core.quant import quantize_multiplier
from trivet.ir.graph import Node
from trivet.ir.types import TensorType
from trivet.ops.pool import AveragePool2D
from trivet.ops.products import clamp_limits
from trivet.ops.reduce import Mean, ReduceMax, ReduceMin, ReduceProd, Sum

_RESCALE = (
    Field(
        "scale",
        BLOB,
        "f64 [1]: operand scale / result scale, rounded half to even; absent: mantissa and shift",
        limits=SCALES,
    ),
    Field("mantissa", I32, "Q0.31 of what brings a sum to the result"),
    Field("shift", I32, "left if positive", limits=SHIFTS),
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
AVERAGE_ROWS_S8 = CKernel(
    69,
    "average_rows_s8",
    Record(
        "average_rows_s8",
        (
            Field("offset", I32, "added to stored integers while means are rounded: 0, or 128 (uint8 networks)"),
            Field("count", U32, "elements of one result"),
            Field("lo", I32, "least stored result"),
            Field("hi", I32, "largest stored result"),
            *_PIXELS,
        ),
    ),
)
SUM_ROWS_F32 = CKernel(
    65,
    "sum_rows_f32",
    Record("sum_rows_f32", (Field("divisor", F32, "of the sums"), Field("lo", F32), Field("hi", F32), *_PIXELS)),
)
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
FAMILY = (SUM_ROWS_S8, AVERAGE_ROWS_S8, SUM_ROWS_F32, SUM_BLOCK_S8, FOLD_BLOCK_F32, EXTREMUM_BLOCK_S8)

SUM_BLOCK = 64
"""Channels that are summed at a time where the operand is all there (kernels/reduce_*.c)."""

_SPATIAL = (1, 2)
_MODES = {Sum: 0, Mean: 0, ReduceMax: 1, ReduceMin: 2, ReduceProd: 3}
_MAX_COUNT = 1 << 23
"""So many int8 values less a zero point add up inside int32."""

_Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


def _sums(height: int, channels: int) -> Callable[[int], int]:
    """Work space of firings of some rows out of `height`: a sum of 4 bytes for each channel, or for a block of them."""
    return lambda rows: 4 * (min(channels, SUM_BLOCK) if rows >= height else channels)


@KERNELS.kernel(Mean, Sum)
def sum_rows(node: Node) -> Call | None:
    """Sums over rows and columns, which take the rows as they come."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean | Sum)
    if x.rank != 4 or op.axes != _SPATIAL or x.elements == 0:
        return None
    images, height, width, channels = x.shape
    pixels: _Params = {"width": width, "channels": channels}

    if x.dtype is d.F32:
        divisor = float(height * width) if isinstance(op, Mean) else 1.0
        params: _Params = {"divisor": divisor, **real_bounds(UNBOUNDED), **pixels}
        return Call(SUM_ROWS_F32, node.inputs, params, _sums(height, channels), images=images, accumulates=True)
    if x.dtype is not d.I8 or op.out is None or op.count(x) > _MAX_COUNT:
        return None
    return Call(
        SUM_ROWS_S8, node.inputs, _rescale(op, x) | pixels, _sums(height, channels), images=images, accumulates=True
    )


def sums_rows(op: AveragePool2D, x: TensorType) -> bool:
    """True iff `average_rows` takes the pool."""
    if not op.is_global(x) or not 1 <= x.shape[1] * x.shape[2] <= _MAX_COUNT:
        return False
    return x.dtype is d.F32 or (x.dtype is d.I8 and op.numerics is not Numerics.ONNX)


@KERNELS.kernel(AveragePool2D)
def average_rows(node: Node) -> Call | None:
    """The average pool of a whole map, which takes the rows as they come."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, AveragePool2D)
    if not sums_rows(op, x):
        return None
    images, height, width, channels = x.shape
    pixels: _Params = {"width": width, "channels": channels}
    count = height * width

    if x.dtype is d.F32:
        params: _Params = {"divisor": float(count), **real_bounds(op.clamp), **pixels}
        return Call(SUM_ROWS_F32, node.inputs, params, _sums(height, channels), images=images, accumulates=True)
    limits = clamp_limits(d.I8, op.clamp)
    offset = 128 if op.numerics is Numerics.LITERT_U8 else 0
    params = {"offset": offset, "count": count, "lo": limits.lo, "hi": limits.hi} | pixels
    return Call(AVERAGE_ROWS_S8, node.inputs, params, _sums(height, channels), images=images, accumulates=True)


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
