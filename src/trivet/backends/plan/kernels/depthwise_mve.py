"""Depthwise convolutions on int8 with windows of 3 x 3, for cores with Helium (Cortex-M55, M85)."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import (
    WINDOW,
    constant_weights,
    conv_geometry,
    is_s8,
    requantization,
)
from trivet.backends.plan.kernels.mve import (
    LANES,
    NUMBERS,
    RESCALE_FIELDS,
    VECTOR,
    channel_numbers,
    rescale_params,
)
from trivet.backends.plan.kernels.requant import fixed_scratch, grouped_channels, no_scratch
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.ir.graph import Node
from trivet.ops.conv import DepthwiseConv2D

KERNEL = (3, 3)
STACK_BYTES = 256
"""Channels of zero points that are on the stack (kernels/depthwise_mve_s8.c)."""

DEPTHWISE_MVE_S8 = CKernel(
    242,
    "depthwise_mve_s8",
    Record(
        "depthwise_mve_s8",
        (
            Field("weights", BLOB, "i8 [blocks][9][16]; with 8 channels, twice the same; the last block may overlap"),
            NUMBERS,
            Field("channels", U32),
            *WINDOW,
            Field("in_zero", I32, "zero point of the operand"),
            *RESCALE_FIELDS,
        ),
    ),
)
FAMILY = (DEPTHWISE_MVE_S8,)


@KERNELS.kernel(DepthwiseConv2D, requires=("mve",))
def depthwise_conv2d_mve(node: Node) -> Call | None:
    op, x, w = node.op, node.inputs[0].type, node.inputs[1]
    assert isinstance(op, DepthwiseConv2D)
    if not is_s8(node):
        return None
    channels, width = x.shape[3], node.output.type.shape[2]
    if w.type.shape[:2] != KERNEL or w.type.shape[2] != channels or op.dilation != (1, 1):
        raise NoKernel("takes windows of 3 x 3 without dilation, one filter a channel")
    pairs = 2 * channels == VECTOR and op.stride[1] == 1 and width >= 2
    if channels < VECTOR and not pairs:
        raise NoKernel(f"takes {VECTOR} channels or more, or 8 at stride 1")
    filters = constant_weights(node).reshape(-1, channels)
    if (filters == -128).any():
        raise NoKernel("a weight of -128: sums of two products may leave int16")
    requantized = requantization(node)
    which = np.tile(np.arange(channels), 2) if pairs else grouped_channels(channels, VECTOR)
    quant = node.inputs[0].type.quant
    assert quant is not None
    params: dict[str, FieldValue | Blob | None] = {
        **conv_geometry(node, op, KERNEL, channels).window_params(),
        **rescale_params(requantized),
        "weights": np.ascontiguousarray(filters[:, which].reshape(9, -1, VECTOR).transpose(1, 0, 2)),
        "numbers": pack_quarters(channel_numbers(node, filters.T, requantized)[:, which]),
        "channels": channels,
        "in_zero": quant.zero_point,
    }
    scratch = no_scratch if channels <= STACK_BYTES else fixed_scratch(channels)
    return Call(DEPTHWISE_MVE_S8, node.inputs[:1], params, scratch)


def pack_quarters(numbers: np.ndarray) -> np.ndarray:
    """[3, C], C a multiple of 16 -> [C/16][4][3][4]: channels 0, 4, 8, 12; 2, 6, ...; 1, 5, ...; 3, 7, ...

    Products of even and of odd channels are widened apart, twice.
    """
    blocks = numbers.reshape(3, -1, LANES, LANES)[:, :, :, [0, 2, 1, 3]]
    return np.ascontiguousarray(blocks.transpose(1, 3, 0, 2)).astype("<i4")
