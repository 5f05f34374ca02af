"""Depthwise convolutions: one filter a channel has its own kernel, others are convolutions of one-channel groups."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.conv import (
    PATCH_BYTES,
    WINDOW,
    Requantized,
    conv_geometry,
    conv_s8_call,
    is_s8,
    weight_zero,
)
from trivet.backends.plan.kernels.requant import (
    REQUANT_BLOBS,
    REQUANT_FIELDS,
    fixed_scratch,
    folded_bias,
    no_scratch,
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
FAMILY = (DEPTHWISE_S8,)


@KERNELS.kernel(DepthwiseConv2D)
def depthwise_conv2d_s8(node: Node) -> Call | None:
    op, x, w = node.op, node.inputs[0].type, node.inputs[1]
    assert isinstance(op, DepthwiseConv2D)
    zero = weight_zero(node)
    if not is_s8(node) or w.data is None or zero is None:
        return None
    channels = x.shape[3]
    geometry = conv_geometry(node, op, (w.type.shape[0], w.type.shape[1]), channels)
    requantized = Requantized(op.scales(node.input_types), op.out, op.clamp, op.numerics)
    filters = w.data.reshape(-1, w.type.shape[2]).astype(np.int64)
    if w.type.shape[2] != channels or len(filters) > MAX_TAPS or channels == 1:
        return conv_s8_call(node, geometry, filters.T, requantized)
    assert x.quant is not None
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    params = geometry.window_params() | requantized.params()
    params |= {
        "weights": filters.astype(np.int8),
        "bias": folded_bias(bias, filters.T, x.quant.zero_point, zero),
        "channels": channels,
        "in_zero": x.quant.zero_point,
        "weight_zero": zero,
    }
    scratch = fixed_scratch(channels) if channels > PATCH_BYTES else no_scratch
    return Call(DEPTHWISE_S8, node.inputs[:1], params, scratch)
