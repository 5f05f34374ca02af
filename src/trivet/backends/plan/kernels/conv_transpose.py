"""Transposed convolutions: each phase of the strides is a convolution with some of the taps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.conv import (
    GEOMETRY,
    PATCH_BYTES,
    Geometry,
    constant_weights,
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
    STEP,
    fixed_scratch,
    folded_bias,
    no_scratch,
    pack_floats,
    pack_weights,
    real_bounds,
)
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, Field, Record
from trivet.backends.table import NoKernel
from trivet.ir.graph import Node
from trivet.ops.conv import ConvTranspose2D

MAX_TAPS = 64
"""Taps of one phase that the kernels hold pointers to (MAX_SEGMENTS of conv_transpose_s8.c)."""

CONV_TRANSPOSE_S8 = CKernel(
    28,
    "conv_transpose_s8",
    Record(
        "conv_transpose_s8",
        (
            Field("weights", BLOB, "i8, packed as those of conv_s8, each tap padded to a multiple of 4"),
            *REQUANT_BLOBS,
            *GEOMETRY,
            Field("in_zero", I32, "zero point of the operand"),
            Field("weight_zero", I32, "zero point of the weights"),
            *REQUANT_FIELDS,
        ),
        "`bias` has one row for each phase of the strides: [stride_h][stride_w][out_channels].",
    ),
)
CONV_TRANSPOSE_F32 = CKernel(
    29,
    "conv_transpose_f32",
    Record(
        "conv_transpose_f32",
        (
            Field("weights", BLOB, "f32, packed as those of conv_f32"),
            Field("bias", BLOB, "f32, one for each output channel, or absent"),
            *GEOMETRY,
            *REAL_BOUNDS,
        ),
    ),
)
FAMILY = (CONV_TRANSPOSE_S8, CONV_TRANSPOSE_F32)


@KERNELS.kernel(ConvTranspose2D)
def conv_transpose2d(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1]
    assert isinstance(op, ConvTranspose2D)
    rows, columns = (_phases(w.type.shape[i + 1], op.stride[i], op.dilation[i]) for i in (0, 1))
    most = max(len(p) for p in rows) * max(len(p) for p in columns)
    weights = constant_weights(node)
    if most > MAX_TAPS:
        raise NoKernel(f"{most} taps of its kernel reach one result, {MAX_TAPS} are possible", "use a smaller kernel")
    x, y = node.inputs[0].type.shape, node.output.type.shape
    geometry = Geometry(
        x[2], x[3], y[2], y[3], op.groups, w.type.shape[1], w.type.shape[2],
        *op.stride, *op.dilation, op.pads[0][0], op.pads[1][0],
    )  # fmt: skip
    if is_f32(node):
        params = geometry.params() | real_bounds(op.clamp)
        params |= {
            "weights": pack_floats(weights.reshape(w.type.shape[0], -1), op.groups),
            "bias": node.inputs[2].data if len(node.inputs) > 2 else None,
        }
        return Call(CONV_TRANSPOSE_F32, node.inputs[:1], params)
    if not is_s8(node):
        raise no_such_types(node)
    return _call_s8(node, op, geometry, weights)


def _call_s8(node: Node, op: ConvTranspose2D, geometry: Geometry, weights: npt.NDArray[np.generic]) -> Call:
    zero, x_quant = weight_zero(node), node.inputs[0].type.quant
    assert x_quant is not None
    wide = weights.astype(np.int64)
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    biases = [
        folded_bias(bias, wide[:, rows][:, :, columns].reshape(len(wide), -1), x_quant.zero_point, zero)
        for rows in _phases(geometry.kernel_h, geometry.stride_h, geometry.dilation_h)
        for columns in _phases(geometry.kernel_w, geometry.stride_w, geometry.dilation_w)
    ]
    tail = -wide.shape[3] % STEP
    padded = np.pad(wide, ((0, 0), (0, 0), (0, 0), (0, tail)), constant_values=zero).reshape(len(wide), -1)
    params = geometry.params() | requantization(node).params()
    params |= {
        "weights": pack_weights(padded, geometry.groups, zero),
        "bias": np.concatenate(biases),
        "in_zero": x_quant.zero_point,
        "weight_zero": zero,
    }
    window = padded.shape[1]
    return Call(
        CONV_TRANSPOSE_S8, node.inputs[:1], params, fixed_scratch(window) if window > PATCH_BYTES else no_scratch
    )


def _phases(kernel: int, stride: int, dilation: int) -> list[list[int]]:
    """The taps of each phase (output + pad) mod stride."""
    return [[k for k in range(kernel) if k * dilation % stride == phase] for phase in range(stride)]
