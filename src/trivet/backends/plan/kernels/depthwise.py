"""Depthwise convolutions: one filter a channel has its own kernel, others are convolutions of one-channel groups."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.conv import (
    PATCH_BYTES,
    WINDOW,
    Geometry,
    Requantized,
    constant_weights,
    conv_f32_call,
    conv_geometry,
    conv_s8_call,
    is_f32,
    is_s8,
    no_such_types,
    requantization,
    weight_zero,
)
from trivet.backends.plan.kernels.requant import (
    REAL_BOUNDS,
    REQUANT_BLOBS,
    REQUANT_FIELDS,
    fixed_scratch,
    folded_bias,
    no_scratch,
    real_bounds,
)
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, Record
from trivet.ir.graph import Node
from trivet.ops.conv import DepthwiseConv2D

MAX_TAPS = 64
"""Taps of a window that the kernel holds pointers to (TRIVET_MAX_TAPS of core_s8.h)."""

DEPTHWISE_S8 = CKernel(
    21,
    "depthwise_s8",
    Record(
        "depthwise_s8",
        (
            Field("weights", BLOB, "i8 [kernel_h][kernel_w][channels]"),
            *REQUANT_BLOBS,
            Field("channels", U32),
            *WINDOW,
            Field("in_zero", I32, "zero point of the operand"),
            Field("weight_zero", I32, "zero point of the weights"),
            *REQUANT_FIELDS,
        ),
    ),
)
DEPTHWISE_F32 = CKernel(
    23,
    "depthwise_f32",
    Record(
        "depthwise_f32",
        (
            Field("weights", BLOB, "f32 [kernel_h][kernel_w][channels]"),
            Field("bias", BLOB, "f32, one for each channel, or absent"),
            Field("channels", U32),
            *WINDOW,
            *REAL_BOUNDS,
        ),
    ),
)
FAMILY = (DEPTHWISE_S8, DEPTHWISE_F32)


@KERNELS.kernel(DepthwiseConv2D)
def depthwise_conv2d(node: Node) -> Call | None:
    op, x, w = node.op, node.inputs[0].type, node.inputs[1]
    assert isinstance(op, DepthwiseConv2D)
    weights = constant_weights(node)
    geometry = conv_geometry(node, op, (w.type.shape[0], w.type.shape[1]), x.shape[3])
    filters = weights.reshape(-1, w.type.shape[2])
    own_kernel = w.type.shape[2] == x.shape[3] > 1 and len(filters) <= MAX_TAPS
    if is_f32(node):
        if own_kernel:
            return _depthwise_f32(node, geometry, filters, op)
        return conv_f32_call(node, geometry, filters.T, op.clamp)
    if not is_s8(node):
        raise no_such_types(node)
    requantized = requantization(node)
    if own_kernel:
        return _depthwise_s8(node, geometry, filters, requantized)
    return conv_s8_call(node, geometry, filters.T, requantized)


def _depthwise_s8(node: Node, geometry: Geometry, filters: np.ndarray, requantized: Requantized) -> Call:
    zero, x_quant = weight_zero(node), node.inputs[0].type.quant
    assert x_quant is not None
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    channels = geometry.in_channels
    params = geometry.window_params() | requantized.params()
    params |= {
        "weights": filters,
        "bias": folded_bias(bias, filters.T.astype(np.int64), x_quant.zero_point, zero),
        "channels": channels,
        "in_zero": x_quant.zero_point,
        "weight_zero": zero,
    }
    scratch = fixed_scratch(channels) if channels > PATCH_BYTES else no_scratch
    return Call(DEPTHWISE_S8, node.inputs[:1], params, scratch)


def _depthwise_f32(node: Node, geometry: Geometry, filters: np.ndarray, op: DepthwiseConv2D) -> Call:
    params = geometry.window_params() | real_bounds(op.clamp)
    params |= {
        "weights": filters,
        "bias": node.inputs[2].data if len(node.inputs) > 2 else None,
        "channels": geometry.in_channels,
    }
    return Call(DEPTHWISE_F32, node.inputs[:1], params)
