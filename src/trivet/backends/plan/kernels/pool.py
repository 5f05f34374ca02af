"""Windowed pools."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import WINDOW, Geometry
from trivet.backends.plan.kernels.limits import SCALES
from trivet.backends.plan.kernels.reduce import sums_rows
from trivet.backends.plan.kernels.requant import REAL_BOUNDS, real_bounds
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.products import clamp_limits

_BOUNDS = (Field("lo", I32, "least stored result"), Field("hi", I32, "largest stored result"))
_CHANNELS = Field("channels", U32)
_INCLUDE_PAD = Field("count_include_pad", U32, "1: padding counts, as zero")

MAX_POOL_S8 = CKernel(24, "max_pool_s8", Record("max_pool_s8", (_CHANNELS, *WINDOW, *_BOUNDS)))
AVERAGE_POOL_S8 = CKernel(
    25,
    "average_pool_s8",
    Record(
        "average_pool_s8",
        (
            Field(
                "scale",
                BLOB,
                "f64 [1]: operand scale / result scale; absent: means of the stored integers",
                limits=SCALES,
            ),
            _CHANNELS,
            *WINDOW,
            _INCLUDE_PAD,
            Field("offset", I32, "added to stored integers while means are rounded: 0, or 128 (uint8 networks)"),
            Field("in_zero", I32, "zero point of the operand"),
            Field("out_zero", I32, "zero point of the result"),
            *_BOUNDS,
        ),
    ),
)
MAX_POOL_F32 = CKernel(26, "max_pool_f32", Record("max_pool_f32", (_CHANNELS, *WINDOW, *REAL_BOUNDS)))
AVERAGE_POOL_F32 = CKernel(
    27, "average_pool_f32", Record("average_pool_f32", (_CHANNELS, *WINDOW, _INCLUDE_PAD, *REAL_BOUNDS))
)
FAMILY = (MAX_POOL_S8, AVERAGE_POOL_S8, MAX_POOL_F32, AVERAGE_POOL_F32)

_Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


def _window_params(node: Node, op: MaxPool2D | AveragePool2D, dilation: tuple[int, int]) -> _Params:
    x, y = node.inputs[0].type.shape, node.output.type.shape
    geometry = Geometry(
        x[2], x[3], y[2], y[3], 1, *op.kernel, *op.stride, *dilation, op.pads[0][0], op.pads[1][0]
    )  # fmt: skip
    bounds: _Params
    if node.inputs[0].type.dtype is d.F32:
        bounds = real_bounds(op.clamp)
    else:
        limits = clamp_limits(d.I8, op.clamp)
        bounds = {"lo": limits.lo, "hi": limits.hi}
    return geometry.window_params() | bounds | {"channels": x[3]}


@KERNELS.kernel(MaxPool2D)
def max_pool2d(node: Node) -> Call | None:
    op, dtype = node.op, node.inputs[0].type.dtype
    assert isinstance(op, MaxPool2D)
    if dtype not in (d.I8, d.F32):
        return None
    kernel = MAX_POOL_S8 if dtype is d.I8 else MAX_POOL_F32
    return Call(kernel, node.inputs, _window_params(node, op, op.dilation))


@KERNELS.kernel(AveragePool2D)
def average_pool2d(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, AveragePool2D)
    if sums_rows(op, x):
        return None
    params = _window_params(node, op, (1, 1)) | {"count_include_pad": int(op.count_include_pad)}
    if x.dtype is d.F32:
        return Call(AVERAGE_POOL_F32, node.inputs, params)
    if x.dtype is not d.I8:
        return None
    assert x.quant is not None and op.out is not None
    onnx = op.numerics is Numerics.ONNX
    params |= {
        "scale": np.array([x.quant.scale / op.out.scale], "<f8") if onnx else None,
        "offset": 128 if op.numerics is Numerics.LITERT_U8 else 0,
        "in_zero": x.quant.zero_point,
        "out_zero": op.out.zero_point,
    }
    return Call(AVERAGE_POOL_S8, node.inputs, params)
