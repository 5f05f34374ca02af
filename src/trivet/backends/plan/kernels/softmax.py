"""Softmax along an axis."""

from __future__ import annotations

import math

import numpy as np

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, Record
from trivet.backends.table import NoKernel
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ir.types import Shape
from trivet.ops.softmax import LogSoftmax, Softmax, powers8
from trivet.ops.tflite_softmax import power_table

MAX_FEATURES_S8 = 4095
"""So many powers of at most 2^19 each sum up inside int32."""

SOFTMAX_S8 = CKernel(
    60,
    "softmax_s8",
    Record(
        "softmax_s8",
        (
            Field("powers", BLOB, "i32 [256]: e^(beta scale d) in Q0.31 for d from -255 to 0; -1: counts as nothing"),
            Field("features", U32, "elements of the last axis"),
            Field("wide", U32, "1: the result is int16"),
        ),
    ),
)
SOFTMAX_F32 = CKernel(
    61,
    "softmax_f32",
    Record(
        "softmax_f32",
        (Field("features", U32, "elements of the last axis"), Field("beta", F32, "factor of the exponents")),
    ),
)
SOFTMAX_AXIS_F32 = CKernel(
    62,
    "softmax_axis_f32",
    Record(
        "softmax_axis_f32",
        (
            Field("features", U32, "extent of the axis"),
            Field("inner", U32, "elements from one index of the axis to the next"),
            Field("beta", F32, "factor of the exponents"),
        ),
    ),
    by_rows=False,
)
_VECTORS = (
    Field("features", U32, "extent of the axis"),
    Field("inner", U32, "elements from one index of the axis to the next"),
)
LOG_SOFTMAX_F32 = CKernel(160, "log_softmax_f32", Record("log_softmax_f32", _VECTORS), by_rows=False)
REAL_SOFTMAX_S8 = CKernel(
    161,
    "real_softmax_s8",
    Record(
        "real_softmax_s8",
        (
            Field("powers", BLOB, "i32 [256]: e^(beta scale d) in Q1.30 for d from -255 to 0"),
            *_VECTORS,
            Field("logarithm", U32, "1: of the result"),
            Field("scale", F32, "of the operand, with a logarithm"),
            Field("out_scale", F32, "of the result"),
            Field("out_zero", I32, "of the result"),
            Field("wide", U32, "1: the result is int16"),
        ),
    ),
    by_rows=False,
)
FAMILY = (SOFTMAX_S8, SOFTMAX_F32, SOFTMAX_AXIS_F32, LOG_SOFTMAX_F32, REAL_SOFTMAX_S8)


@KERNELS.kernel(Softmax)
def softmax_s8(node: Node) -> Call | None:
    """TensorFlow Lite's integer softmax over the last axis."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Softmax)
    if x.dtype is not d.I8 or op.numerics in (None, Numerics.ONNX) or op.axis != x.rank - 1:
        return None
    if not 1 <= x.shape[-1] <= MAX_FEATURES_S8:
        raise NoKernel(f"{x.shape[-1]:,} features, {MAX_FEATURES_S8:,} are possible")
    assert x.quant is not None
    table = power_table(x.quant.scale, op.beta).astype("<i4")
    return Call(SOFTMAX_S8, node.inputs, {"powers": table, "features": x.shape[-1], "wide": int(op.dtype is d.I16)})


@KERNELS.kernel(Softmax)
def softmax_f32(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Softmax)
    if x.dtype is not d.F32 or x.elements == 0:
        return None
    params: dict[str, float | int] = {"features": x.shape[op.axis], "beta": float(np.float32(op.beta))}
    if op.axis == x.rank - 1:
        return Call(SOFTMAX_F32, node.inputs, params)
    return Call(SOFTMAX_AXIS_F32, node.inputs, params | {"inner": math.prod(x.shape[op.axis + 1 :])}, images=1)


@KERNELS.kernel(LogSoftmax)
def log_softmax_f32(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, LogSoftmax)
    if x.dtype is not d.F32 or x.elements == 0:
        return None
    return Call(LOG_SOFTMAX_F32, node.inputs, _vectors(x.shape, op.axis), images=1)


@KERNELS.kernel(Softmax, LogSoftmax)
def real_softmax_s8(node: Node) -> Call | None:
    """ONNX's softmax of int8, from a table of powers."""
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, Softmax | LogSoftmax)
    if x.dtype is not d.I8 or op.numerics is not Numerics.ONNX or x.elements == 0:
        return None
    assert x.quant is not None and op.out is not None
    params: Params = {
        "powers": powers8(x.quant.scale, op.beta if isinstance(op, Softmax) else 1.0).astype("<i4"),
        "logarithm": int(isinstance(op, LogSoftmax)),
        "scale": x.quant.scale,
        "out_scale": op.out.scale,
        "out_zero": op.out.zero_point,
        "wide": int(y.dtype is d.I16),
    }
    return Call(REAL_SOFTMAX_S8, node.inputs, {**params, **_vectors(x.shape, op.axis)}, images=1)


def _vectors(shape: Shape, axis: int) -> dict[str, int]:
    """The vectors along an axis of a tensor; a scalar is one vector of one element."""
    return {"features": shape[axis] if shape else 1, "inner": math.prod(shape[axis + 1 :])}
