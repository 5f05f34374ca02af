"""Between real numbers and stored integers, and between stored integers."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.limits import SHIFTS
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multiplier
from trivet.ir.graph import Node
from trivet.ops.quantize import Dequantize, Quantize, Requantize

_CODES = {d.I8: 0, d.U8: 1, d.I16: 2, d.U16: 3, d.I32: 4}
"""Codes of stored element types in the records."""

_STORED = Field("stored", U32, "0 i8, 1 u8, 2 i16, 3 u16, 4 i32")

QUANTIZE = CKernel(
    70,
    "quantize",
    Record(
        "quantize",
        (
            _STORED,
            Field("half_even", U32, "halves go: 0 away from zero, 1 to even"),
            Field("scale", F32),
            Field("zero", I32),
        ),
    ),
)
DEQUANTIZE = CKernel(71, "dequantize", Record("dequantize", (_STORED, Field("scale", F32), Field("zero", I32))))
REQUANTIZE_Q31 = CKernel(
    72,
    "requantize_q31",
    Record(
        "requantize_q31",
        (
            Field("from", U32, "0 i8, 1 u8, 2 i16, 3 u16, 4 i32"),
            _STORED,
            Field("mantissa", I32, "Q0.31"),
            Field("shift", I32, "left if positive", limits=SHIFTS),
            Field("in_zero", I32),
            Field("out_zero", I32),
        ),
    ),
)
LOOKUP_BYTES = CKernel(
    73, "lookup_bytes", Record("lookup_bytes", (Field("table", BLOB, "byte [256]: the result of each stored byte"),))
)
QUANTIZE_AXIS = CKernel(
    74,
    "quantize_axis",
    Record(
        "quantize_axis",
        (
            Field("scales", BLOB, "f32 [channels]"),
            Field("zeros", BLOB, "i32 [channels]"),
            _STORED,
            Field("half_even", U32),
            Field("channels", U32),
            Field("inner", U32, "elements from one channel to the next"),
        ),
    ),
    by_rows=False,
)
DEQUANTIZE_AXIS = CKernel(
    75,
    "dequantize_axis",
    Record(
        "dequantize_axis",
        (
            Field("scales", BLOB, "f32 [channels]"),
            Field("zeros", BLOB, "i32 [channels]"),
            _STORED,
            Field("channels", U32),
            Field("inner", U32, "elements from one channel to the next"),
        ),
    ),
    by_rows=False,
)
FAMILY = (QUANTIZE, DEQUANTIZE, REQUANTIZE_Q31, LOOKUP_BYTES, QUANTIZE_AXIS, DEQUANTIZE_AXIS)

_Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


@KERNELS.kernel(Quantize)
def quantize(node: Node) -> Call | None:
    op = node.op
    assert isinstance(op, Quantize)
    half_even = int(op.numerics is Numerics.ONNX)
    params: _Params = {"stored": _CODES[op.dtype], "half_even": half_even}
    if op.out.is_per_tensor:
        return Call(QUANTIZE, node.inputs, params | {"scale": op.out.scale, "zero": op.out.zero_point})
    return Call(QUANTIZE_AXIS, node.inputs, params | _axis(op.out, node.output.type.shape), images=1)


@KERNELS.kernel(Dequantize)
def dequantize(node: Node) -> Call | None:
    x = node.inputs[0].type
    if x.dtype not in _CODES or x.quant is None:
        return None
    params: _Params = {"stored": _CODES[x.dtype]}
    if x.quant.is_per_tensor:
        return Call(DEQUANTIZE, node.inputs, params | {"scale": x.quant.scale, "zero": x.quant.zero_point})
    return Call(DEQUANTIZE_AXIS, node.inputs, params | _axis(x.quant, x.shape), images=1)


@KERNELS.kernel(Requantize)
def requantize_bytes(node: Node) -> Call | None:
    """Between 8-bit types: a table."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Requantize)
    if x.quant is None or x.dtype.bits != 8 or op.dtype.bits != 8:
        return None
    if not (x.quant.is_per_tensor and op.out.is_per_tensor):
        return None
    values = np.arange(256).astype(np.uint8).view(x.dtype.numpy)
    (table,) = op.evaluate((values,), (x.with_shape((256,)),))
    return Call(LOOKUP_BYTES, node.inputs, {"table": table})


@KERNELS.kernel(Requantize)
def requantize_q31(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Requantize)
    if x.quant is None or op.numerics is Numerics.ONNX or not (x.quant.is_per_tensor and op.out.is_per_tensor):
        return None
    if x.dtype not in _CODES or op.dtype not in _CODES:
        return None
    multiplier = quantize_multiplier(x.quant.scale / op.out.scale)
    params: _Params = {
        "from": _CODES[x.dtype],
        "stored": _CODES[op.dtype],
        "mantissa": multiplier.mantissa,
        "shift": multiplier.shift,
        "in_zero": x.quant.zero_point,
        "out_zero": op.out.zero_point,
    }
    return Call(REQUANTIZE_Q31, node.inputs, params)


def _axis(quant: Quant, shape: tuple[int, ...]) -> _Params:
    assert quant.axis is not None
    return {
        "scales": np.array(quant.scales, "<f4"),
        "zeros": np.array(quant.zero_points, "<i4"),
        "channels": shape[quant.axis],
        "inner": math.prod(shape[quant.axis + 1 :]),
    }
