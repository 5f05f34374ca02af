"""Convolutions and dense layers on int16 activations with int8 weights, and pools of int16."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import (
    GEOMETRY,
    WINDOW,
    Geometry,
    constant_weights,
    conv_geometry,
    dense_geometry,
    weight_zero,
)
from trivet.backends.plan.kernels.limits import SHIFTS, SHIFTS_64
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8, I16
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multipliers
from trivet.ir.graph import Node
from trivet.ir.op import Array
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.matmul import Dense
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.products import Reals, clamp_limits, sums_are_wide

ROUND_Q31, ROUND_Q15, ROUND_AWAY, ROUND_EVEN = range(4)

_BOUNDS = (Field("lo", I32, "least stored result"), Field("hi", I32, "largest stored result"))
CONV_I16 = CKernel(
    209,
    "conv_i16",
    Record(
        "conv_i16",
        (
            Field("weights", BLOB, "i8 [out_channels][kernel_h][kernel_w][in_channels / groups]"),
            Field("bias", BLOB, "i64, one for each output channel, or absent"),
            Field("multipliers", BLOB, "one for each output channel: i32 Q0.31 mantissas, or f64 scales"),
            Field("shifts", BLOB, "i8, one for each output channel, with mantissas; positive means left"),
            *GEOMETRY,
            Field("rounding", U32, "0: 32-bit sums, Q0.31; 1: 64-bit, mantissas of 16 bits; 2, 3: f64, away, even"),
            Field("in_zero", I32),
            Field("weight_zero", I32),
            Field("out_zero", I32),
            *_BOUNDS,
        ),
    ),
)
CONV_TRANSPOSE_I16 = CKernel(210, "conv_transpose_i16", CONV_I16.params)
POOL_I16 = CKernel(
    211,
    "pool_i16",
    Record(
        "pool_i16",
        (
            Field("scale", BLOB, "f64 [1]: operand scale / result scale; absent: means of the stored integers"),
            Field("channels", U32),
            *WINDOW,
            Field("average", U32, "0: the largest, 1: the mean"),
            Field("count_include_pad", U32, "1: padding counts, as zero"),
            Field("in_zero", I32),
            Field("out_zero", I32),
            *_BOUNDS,
        ),
    ),
)
FAMILY = (CONV_I16, CONV_TRANSPOSE_I16, POOL_I16)

_Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


@KERNELS.kernel(Conv2D)
def conv_i16(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1]
    assert isinstance(op, Conv2D)
    if w.data is None:
        return None
    geometry = conv_geometry(node, op, (w.type.shape[1], w.type.shape[2]), op.groups)
    return _call(CONV_I16, node, geometry, w.data, op)


@KERNELS.kernel(DepthwiseConv2D)
def depthwise_i16(node: Node) -> Call | None:
    """A group for each channel."""
    op, w = node.op, node.inputs[1]
    assert isinstance(op, DepthwiseConv2D)
    if w.data is None:
        return None
    geometry = conv_geometry(node, op, (w.type.shape[0], w.type.shape[1]), node.inputs[0].type.shape[3])
    return _call(CONV_I16, node, geometry, w.data.transpose(2, 0, 1), op)


@KERNELS.kernel(ConvTranspose2D)
def conv_transpose_i16(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1]
    assert isinstance(op, ConvTranspose2D)
    if w.data is None:
        return None
    x, y = node.inputs[0].type.shape, node.output.type.shape
    geometry = Geometry(
        x[2], x[3], y[2], y[3], op.groups, w.type.shape[1], w.type.shape[2],
        *op.stride, *op.dilation, op.pads[0][0], op.pads[1][0],
    )  # fmt: skip
    return _call(CONV_TRANSPOSE_I16, node, geometry, w.data, op)


@KERNELS.kernel(Dense)
def dense_i16(node: Node) -> Call | None:
    """A pointwise convolution; what is not of rank 4 is one row of pixels."""
    op, w = node.op, node.inputs[1]
    assert isinstance(op, Dense)
    if w.data is None:
        return None
    return _call(CONV_I16, node, dense_geometry(node), w.data, op)


_Product = Conv2D | DepthwiseConv2D | ConvTranspose2D | Dense


def _call(kernel: CKernel, node: Node, geometry: Geometry, weights: Array, op: _Product) -> Call | None:
    types = node.input_types
    if types[0].dtype is not I16 or types[1].dtype is not I8:
        return None
    constant_weights(node)
    zero = weight_zero(node)
    x_quant, bias = types[0].quant, node.inputs[2].data if len(node.inputs) > 2 else None
    assert x_quant is not None and op.out is not None and op.numerics is not None
    wide = sums_are_wide(types[0], types[2] if len(types) > 2 else None)
    how = _rounding(op, wide)
    params = geometry.params() | _requant(op.scales(types), how) | _limits(op.out, op.clamp)
    params |= {
        "weights": np.ascontiguousarray(weights).reshape(geometry.out_channels, -1),
        "bias": None if bias is None else bias.astype("<i8"),
        "rounding": how,
        "in_zero": x_quant.zero_point,
        "weight_zero": zero,
    }
    return Call(kernel, node.inputs[:1], params)


def _rounding(op: _Product, wide: bool) -> int:
    assert op.numerics is not None
    if op.numerics is Numerics.ONNX:
        return ROUND_EVEN
    if isinstance(op, Dense) and op.numerics.is_litert:
        return ROUND_AWAY
    return ROUND_Q15 if wide else ROUND_Q31


def _requant(scales: Reals, how: int) -> _Params:
    if how in (ROUND_AWAY, ROUND_EVEN):
        return {"multipliers": scales.astype("<f8"), "shifts": None}
    mantissas, shifts = quantize_multipliers(scales)
    most = (SHIFTS_64 if how == ROUND_Q15 else SHIFTS)[1]
    if shifts.max(initial=0) > most:
        raise NoKernel(f"its scales are too far apart: results are up to {scales.max():g} times its sums")
    return {"multipliers": mantissas.astype("<i4"), "shifts": shifts.astype(np.int8)}


def _limits(out: Quant, clamp: Bounds) -> _Params:
    limits = clamp_limits(I16, clamp)
    return {"out_zero": out.zero_point, "lo": limits.lo, "hi": limits.hi}


@KERNELS.kernel(MaxPool2D, AveragePool2D)
def pool_i16(node: Node) -> Call | None:
    op, x, y = node.op, node.inputs[0].type, node.output.type
    assert isinstance(op, MaxPool2D | AveragePool2D)
    if x.dtype is not I16 or x.quant is None or y.quant is None:
        return None
    is_average = isinstance(op, AveragePool2D)
    if isinstance(op, AveragePool2D) and op.numerics is Numerics.LITERT_U8:
        return None
    dilation = (1, 1) if isinstance(op, AveragePool2D) else op.dilation
    geometry = Geometry(
        x.shape[2], x.shape[3], y.shape[2], y.shape[3], 1, *op.kernel, *op.stride, *dilation, op.pads[0][0],
        op.pads[1][0],
    )  # fmt: skip
    rescales = isinstance(op, AveragePool2D) and op.numerics is Numerics.ONNX
    params = geometry.window_params() | _limits(y.quant, op.clamp)
    params |= {
        "scale": np.array([x.quant.scale / y.quant.scale], "<f8") if rescales else None,
        "channels": x.shape[3],
        "average": int(is_average),
        "count_include_pad": int(isinstance(op, AveragePool2D) and op.count_include_pad),
        "in_zero": x.quant.zero_point,
    }
    return Call(POOL_I16, node.inputs, params)
