"""Convolutions and dense layers on int8 for cores with Helium (Cortex-M55, M85)."""

from __future__ import annotations

import math

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import (
    WINDOW,
    Geometry,
    Requantized,
    constant_weights,
    conv_geometry,
    dense_geometry,
    is_s8,
    requantization,
)
from trivet.backends.plan.kernels.mve import (
    LANES,
    NUMBERS,
    RESCALE_FIELDS,
    VECTOR,
    channel_numbers,
    pack_numbers,
    pack_paired,
    pack_together,
    rescale_params,
)
from trivet.backends.plan.kernels.requant import fixed_scratch, grouped_channels, no_scratch
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.ir.graph import Node
from trivet.ops.conv import Conv2D
from trivet.ops.matmul import Dense

CONV_STACK_BYTES, DENSE_STACK_BYTES = 1024, 512
"""Copies up to this size are on the stack (kernels/conv_mve_s8.c, dense_mve_s8.c)."""
MAX_ROWS = 32

CONV_MVE_S8 = CKernel(
    240,
    "conv_mve_s8",
    Record(
        "conv_mve_s8",
        (
            Field("weights", BLOB, "i8 [ceil(O/4)][2][steps][2][16]: of 4 channels first 0 and 2, then 1 and 3"),
            NUMBERS,
            Field("in_channels", U32),
            Field("out_channels", U32),
            *WINDOW,
            Field("in_zero", I32, "zero point of the operand"),
            *RESCALE_FIELDS,
        ),
    ),
)
DENSE_MVE_S8 = CKernel(
    241,
    "dense_mve_s8",
    Record(
        "dense_mve_s8",
        (
            Field("weights", BLOB, "i8 [ceil(O/4)][steps][4][16]"),
            NUMBERS,
            Field("features", U32),
            Field("outputs", U32),
            *RESCALE_FIELDS,
        ),
    ),
)
FAMILY = (CONV_MVE_S8, DENSE_MVE_S8)


@KERNELS.kernel(Conv2D, requires=("mve",))
def conv2d_mve(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1]
    assert isinstance(op, Conv2D)
    if not is_s8(node):
        return None
    if op.groups != 1 or op.dilation != (1, 1):
        raise NoKernel("takes one group without dilation")
    geometry = conv_geometry(node, op, (w.type.shape[1], w.type.shape[2]), 1)
    return _conv(node, geometry, requantization(node))


@KERNELS.kernel(Dense, requires=("mve",))
def dense_mve(node: Node) -> Call | None:
    """One pixel has a kernel of its own; several are a pointwise convolution."""
    x = node.inputs[0].type
    if not is_s8(node):
        return None
    if x.rank != 4 and math.prod(x.shape[:-1]) == 1:
        return _pixel(node, requantization(node))
    return _conv(node, dense_geometry(node), requantization(node))


def _conv(node: Node, geometry: Geometry, requantized: Requantized) -> Call:
    weights = constant_weights(node).reshape(geometry.out_channels, -1)
    if geometry.out_channels < LANES or geometry.kernel_h > MAX_ROWS:
        raise NoKernel(f"takes {LANES} output channels or more, and {MAX_ROWS} kernel rows")
    quant = node.inputs[0].type.quant
    assert quant is not None
    params: dict[str, FieldValue | Blob | None] = {
        **geometry.window_params(),
        **rescale_params(requantized),
        **_packed_numbers(node, weights, requantized),
        "weights": pack_paired(weights),
        "in_channels": geometry.in_channels,
        "out_channels": geometry.out_channels,
        "in_zero": quant.zero_point,
    }
    copies = 2 * (-(-geometry.window // VECTOR) * VECTOR)
    scratch = no_scratch if copies <= CONV_STACK_BYTES else fixed_scratch(copies + VECTOR)
    return Call(CONV_MVE_S8, node.inputs[:1], params, scratch, overwrites=_overwrites(geometry))


def _overwrites(geometry: Geometry) -> bool:
    """True iff every pixel becomes one of the same size: both of a pair are copied before either is written."""
    same = geometry.window == geometry.in_channels == geometry.out_channels
    return same and geometry.out_width == geometry.in_width


def _pixel(node: Node, requantized: Requantized) -> Call:
    weights = constant_weights(node)
    outputs, features = weights.shape
    if outputs < LANES:
        raise NoKernel(f"takes {LANES} output channels or more")
    params: dict[str, FieldValue | Blob | None] = {
        **rescale_params(requantized),
        **_packed_numbers(node, weights, requantized),
        "weights": pack_together(weights),
        "features": features,
        "outputs": outputs,
    }
    padded = -(-features // VECTOR) * VECTOR
    in_place = features == padded or padded <= DENSE_STACK_BYTES
    return Call(DENSE_MVE_S8, node.inputs[:1], params, no_scratch if in_place else fixed_scratch(padded), by_rows=False)


def _packed_numbers(node: Node, weights: np.ndarray, requantized: Requantized) -> dict[str, FieldValue | Blob | None]:
    numbers = channel_numbers(node, weights, requantized)
    return {"numbers": pack_numbers(numbers[:, grouped_channels(numbers.shape[1], LANES)])}
