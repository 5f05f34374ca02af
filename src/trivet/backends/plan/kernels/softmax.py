"""Softmax along an axis."""

from __future__ import annotations

import math

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.softmax import Softmax
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
FAMILY = (SOFTMAX_S8, SOFTMAX_F32, SOFTMAX_AXIS_F32)


@KERNELS.kernel(Softmax)
def softmax_s8(node: Node) -> Call | None:
    """TensorFlow Lite's integer softmax over the last axis."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Softmax)
    if x.dtype is not d.I8 or op.dtype is not d.I8 or op.numerics in (None, Numerics.ONNX) or op.axis != x.rank - 1:
        return None
    if not 1 <= x.shape[-1] <= MAX_FEATURES_S8:
        return None
    assert x.quant is not None
    table = power_table(x.quant.scale, op.beta).astype("<i4")
    return Call(SOFTMAX_S8, node.inputs, {"powers": table, "features": x.shape[-1]})


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
