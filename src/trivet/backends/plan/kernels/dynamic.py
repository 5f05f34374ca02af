"""Quantization at run time, and integer convolutions of what it gives."""

from __future__ import annotations

import math

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.conv import GEOMETRY, Geometry
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, Record
from trivet.core import dtype as d
from trivet.ir.graph import Node
from trivet.ops.dynamic import DynamicQuantize, DynamicRange, IntegerConv2D

_MODES = {DynamicRange.AFFINE: 0, DynamicRange.SYMMETRIC: 1, DynamicRange.ASYMMETRIC: 2}

DYNAMIC_QUANTIZE = CKernel(
    200,
    "dynamic_quantize",
    Record(
        "dynamic_quantize",
        (
            Field("mode", U32, "0: u8 over the range, 1: i8 about zero, 2: i8 over the range"),
            Field("groups", U32, "scales of the result"),
            Field("elements", U32, "of one scale"),
        ),
    ),
    by_rows=False,
)
INTEGER_CONV = CKernel(
    201,
    "integer_conv",
    Record(
        "integer_conv",
        (
            Field("weights", BLOB, "i8 [out_channels][kernel_h][kernel_w][in_channels / groups]"),
            Field("weight_zeros", BLOB, "i32, one for each output channel, or absent: zero"),
            *GEOMETRY,
            Field("in_zero", I32, "zero point of the operand"),
            Field("zero_operand", U32, "1: operand 1 holds that zero point"),
            Field("is_unsigned", U32, "1: the operand is u8"),
        ),
    ),
)
FAMILY = (DYNAMIC_QUANTIZE, INTEGER_CONV)


@KERNELS.kernel(DynamicQuantize)
def dynamic_quantize(node: Node) -> Call:
    op, x, scale = node.op, node.inputs[0].type, node.outputs[1].type
    assert isinstance(op, DynamicQuantize)
    params = {"mode": _MODES[op.range], "groups": scale.elements, "elements": x.elements // scale.elements}
    return Call(DYNAMIC_QUANTIZE, node.inputs, params, images=1)


@KERNELS.kernel(IntegerConv2D)
def integer_conv(node: Node) -> Call | None:
    """Weights are constant; the zero point may be an operand."""
    op, (x, w, zero, *rest) = node.op, node.inputs
    assert isinstance(op, IntegerConv2D)
    if w.data is None or any(v.data is None for v in rest) or x.type.elements == 0:
        return None
    (_, _, in_width, in_channels), (_, _, out_width, out_channels) = x.type.shape, node.output.type.shape
    geometry = Geometry(
        in_width, in_channels, out_width, out_channels, op.groups, w.type.shape[1], w.type.shape[2],
        *op.stride, *op.dilation, op.pads[0][0], op.pads[1][0],
    )  # fmt: skip
    params = geometry.params() | {
        "weights": w.data.reshape(w.type.shape[0], math.prod(w.type.shape[1:])),
        "weight_zeros": rest[0].data.astype("<i4") if rest and rest[0].data is not None else None,
        "zero_operand": int(zero.data is None),
        "in_zero": 0 if zero.data is None else int(zero.data),
        "is_unsigned": int(x.type.dtype is d.U8),
    }
    operands = (x,) if zero.data is not None else (x, zero)
    return Call(INTEGER_CONV, operands, params)
