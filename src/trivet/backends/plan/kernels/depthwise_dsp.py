"""Depthwise convolutions 3x3 on int8 for cores with the DSP extension (Cortex-M4, M7, M33)."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.conv import (
    WINDOW,
    constant_weights,
    conv_geometry,
    is_s8,
    requantization,
)
from trivet.backends.plan.kernels.conv_dsp import rescaled_weights
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, Record
from trivet.backends.table import NoKernel
from trivet.core.dtype import I8
from trivet.ir.graph import Node
from trivet.ops.conv import DepthwiseConv2D
from trivet.ops.products import clamp_limits

GROUP = 4
"""Channels that are widened together."""
TAPS = (0, 1, 3, 4, 2, 6, 5, 7)
"""The order of a channel's weights: bytes 0 and 2, and 1 and 3, of each word belong together; the ninth is apart."""

DEPTHWISE_DSP_S8 = CKernel(
    250,
    "depthwise_dsp_s8",
    Record(
        "depthwise_dsp_s8",
        (
            Field("weights", BLOB, "i8 [C/4]: of each of 4 channels w0 w1 w3 w4 w2 w6 w5 w7, then of each w8"),
            Field("rescale", BLOB, "i32 [C/4][numbers of the form][4 channels] (dsp.h); the constant is in the sums"),
            Field("channels", U32),
            *WINDOW,
            Field("form", U32, "of rescaling: 0 folded with shift 8, 1 with shift 12, 2 exact"),
            Field("in_zero", I32, "zero point of the operand"),
            Field("lo", I32, "least stored result"),
            Field("hi", I32, "largest stored result"),
        ),
    ),
)
FAMILY = (DEPTHWISE_DSP_S8,)


@KERNELS.kernel(DepthwiseConv2D, requires=("dsp",))
def depthwise_conv2d_dsp(node: Node) -> Call | None:
    op, x, w = node.op, node.inputs[0].type, node.inputs[1].type
    assert isinstance(op, DepthwiseConv2D)
    if not is_s8(node):
        return None
    if w.shape[:2] != (3, 3) or op.dilation != (1, 1) or op.stride[1] not in (1, 2):
        raise NoKernel("takes 3x3 taps without dilation, one or two columns apart")
    if w.shape[2] != x.shape[3] or x.shape[3] % GROUP:
        raise NoKernel(f"takes one filter for each of a multiple of {GROUP} channels")
    weights = constant_weights(node).reshape(9, -1).T
    requantized = requantization(node)
    rescaling, weights = rescaled_weights(node, weights, requantized, is_constant_in_sums=True)
    limits = clamp_limits(I8, op.clamp)
    assert x.quant is not None
    params = {
        **conv_geometry(node, op, (3, 3), x.shape[3]).window_params(),
        "weights": pack_taps(weights),
        "rescale": rescaling.packed(GROUP),
        "channels": x.shape[3],
        "form": rescaling.form,
        "in_zero": x.quant.zero_point,
        "lo": limits.lo,
        "hi": limits.hi,
    }
    return Call(DEPTHWISE_DSP_S8, node.inputs[:1], params)


def pack_taps(weights: np.ndarray) -> np.ndarray:
    """[C, 9] -> i8 [C/4, 36]."""
    groups = weights.reshape(-1, GROUP, 9)
    first = groups[:, :, TAPS].reshape(len(groups), -1)
    return np.ascontiguousarray(np.concatenate([first, groups[:, :, 8]], axis=1)).astype(np.int8)
