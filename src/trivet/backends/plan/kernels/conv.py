"""Convolutions and dense layers."""

from __future__ import annotations

import math

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
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
    requant_params,
)
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U16, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.dense_rows import DenseOfRows, DenseToRows
from trivet.ops.matmul import Dense
from trivet.ops.products import Reals

PATCH_BYTES = 1024
"""Windows up to this size are copied on the stack of every runtime; longer ones need scratch (kernels/conv_s8.c)."""
SLACK = 16

WINDOW = (
    Field("in_width", U32), Field("out_width", U32), Field("kernel_h", U16), Field("kernel_w", U16),
    Field("stride_h", U16), Field("stride_w", U16), Field("dilation_h", U16), Field("dilation_w", U16),
    Field("pad_top", U16), Field("pad_left", U16),
)  # fmt: skip
GEOMETRY = (Field("in_channels", U32), Field("out_channels", U32), Field("groups", U32), *WINDOW)

CONV_S8 = CKernel(
    20,
    "conv_s8",
    Record(
        "conv_s8",
        (
            Field("weights", BLOB, "i8, packed: for each group [ceil(O/16)][ceil(K/4)][lanes][4] (core_s8.h)"),
            *REQUANT_BLOBS,
            *GEOMETRY,
            Field("in_zero", I32, "zero point of the operand"),
            Field("weight_zero", I32, "zero point of the weights"),
            *REQUANT_FIELDS,
        ),
    ),
)
CONV_F32 = CKernel(
    22,
    "conv_f32",
    Record(
        "conv_f32",
        (
            Field("weights", BLOB, "f32, packed: for each group [ceil(O/16)][K][lanes] (core_f32.h)"),
            Field("bias", BLOB, "f32, one for each output channel, or absent"),
            *GEOMETRY,
            *REAL_BOUNDS,
        ),
    ),
)
DENSE_S8 = CKernel(
    7,
    "dense_s8",
    Record(
        "dense_s8",
        (
            Field("weights", BLOB, "i8, packed: [ceil(O/16)][ceil(K/4)][lanes][4] (core_s8.h)"),
            *REQUANT_BLOBS,
            Field("in_features", U32),
            Field("out_features", U32),
            Field("weight_zero", I32, "zero point of the weights"),
            *REQUANT_FIELDS,
        ),
    ),
)
FAMILY = (CONV_S8, CONV_F32, DENSE_S8)


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of a convolution over one image; field names are those of the record."""

    in_width: int
    in_channels: int
    out_width: int
    out_channels: int
    groups: int = 1
    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0

    def params(self) -> dict[str, FieldValue | Blob | None]:
        return {field.name: getattr(self, field.name) for field in GEOMETRY}

    def window_params(self) -> dict[str, FieldValue | Blob | None]:
        return {field.name: getattr(self, field.name) for field in WINDOW}

    @property
    def window(self) -> int:
        """Elements of a window of one group."""
        return self.kernel_h * self.kernel_w * self.in_channels // self.groups


def conv_geometry(node: Node, op: Conv2D | DepthwiseConv2D, kernel: tuple[int, int], groups: int) -> Geometry:
    x, y = node.inputs[0].type.shape, node.output.type.shape
    return Geometry(
        x[2], x[3], y[2], y[3], groups, *kernel, *op.stride, *op.dilation, op.pads[0][0], op.pads[1][0]
    )  # fmt: skip


def dense_geometry(node: Node) -> Geometry:
    """A dense layer as a pointwise convolution; what is not of rank 4 is one row of pixels."""
    x, (outputs, features) = node.inputs[0].type, node.inputs[1].type.shape
    width = x.shape[2] if x.rank == 4 else math.prod(x.shape[:-1])
    return Geometry(width, features, width, outputs)


def weight_zero(node: Node) -> int:
    """The weights' zero point.

    Raises: NoKernel, unless all channels have the same.
    """
    quant = node.inputs[1].type.quant
    zeros = set(quant.zero_points) if quant is not None else {0}
    if len(zeros) != 1:
        raise NoKernel("the channels of its weights have different zero points", "quantize weights symmetrically")
    return zeros.pop()


def constant_weights(node: Node) -> np.ndarray:
    """The weights of a product.

    Raises: NoKernel, unless they and the bias are constant.
    """
    weights = node.inputs[1].data
    if weights is None or any(v.data is None for v in node.inputs[2:]):
        raise NoKernel(
            "its weights or its bias are computed at run time, they must be constants",
            "make an input a constant with --bind NAME=x.npy, or store the weights in the model",
        )
    return weights


def no_such_types(node: Node) -> NoKernel:
    """Why a product has no kernel for its element types."""
    x, w = (v.type.dtype.name for v in node.inputs[:2])
    return NoKernel(f"no kernel multiplies activations of {x} with weights of {w}", "quantize to int8")


def is_s8(node: Node) -> bool:
    """True iff activations and weights are int8."""
    return all(v.type.dtype is I8 for v in node.inputs[:2])


def is_f32(node: Node) -> bool:
    return all(v.type.dtype is F32 for v in node.inputs)


@dataclass(frozen=True, slots=True)
class Requantized:
    """How the sums of an int8 operator become its result."""

    scales: Reals
    out: Quant | None
    clamp: Bounds
    numerics: Numerics | None
    as_double: bool = False

    def params(self) -> dict[str, FieldValue | Blob | None]:
        assert self.out is not None and self.numerics is not None
        return requant_params(self.scales, self.out, self.clamp, self.numerics, self.as_double)


_Product = Conv2D | DepthwiseConv2D | ConvTranspose2D | Dense | DenseToRows | DenseOfRows


def requantization(node: Node) -> Requantized:
    """That of a product on integers. LiteRT brings the sums of dense layers to their scale in float64."""
    op = node.op
    assert isinstance(op, _Product)
    is_dense = isinstance(op, Dense | DenseToRows | DenseOfRows)
    as_double = is_dense and op.numerics in (Numerics.LITERT, Numerics.LITERT_U8)
    return Requantized(op.scales(node.input_types), op.out, op.clamp, op.numerics, as_double)


def conv_s8_call(node: Node, geometry: Geometry, weights: np.ndarray, requantized: Requantized) -> Call:
    """The call for weights [O, K], K in the order kernel row, kernel column, channel of the group."""
    zero, x_quant = weight_zero(node), node.inputs[0].type.quant
    assert x_quant is not None
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    wide = weights.astype(np.int64)
    params = geometry.params() | requantized.params()
    params |= {
        "weights": pack_weights(wide, geometry.groups, zero),
        "bias": folded_bias(bias, wide, x_quant.zero_point, zero),
        "in_zero": x_quant.zero_point,
        "weight_zero": zero,
    }
    padded = -(-geometry.window // STEP) * STEP
    scratch = fixed_scratch(padded + SLACK) if padded > PATCH_BYTES else no_scratch
    return Call(CONV_S8, node.inputs[:1], params, scratch, overwrites=_copies_pixels(geometry))


def _copies_pixels(geometry: Geometry) -> bool:
    """True iff the kernel, when its result lies over its operand, copies pixels on the stack first."""
    is_pointwise = geometry.groups == 1 and geometry.window == geometry.in_channels == geometry.out_channels
    return is_pointwise and geometry.out_width == geometry.in_width and geometry.window <= PATCH_BYTES


def conv_f32_call(node: Node, geometry: Geometry, weights: np.ndarray, clamp: Bounds) -> Call:
    """The call for weights [O, K], K in the order kernel row, kernel column, channel of the group."""
    params = geometry.params() | real_bounds(clamp)
    params |= {
        "weights": pack_floats(weights.astype(np.float32), geometry.groups),
        "bias": node.inputs[2].data if len(node.inputs) > 2 else None,
    }
    return Call(CONV_F32, node.inputs[:1], params)


@KERNELS.kernel(Conv2D)
def conv2d(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1]
    assert isinstance(op, Conv2D)
    weights = constant_weights(node).reshape(w.type.shape[0], -1)
    geometry = conv_geometry(node, op, (w.type.shape[1], w.type.shape[2]), op.groups)
    if is_f32(node):
        return conv_f32_call(node, geometry, weights, op.clamp)
    if not is_s8(node):
        raise no_such_types(node)
    requantized = requantization(node)
    return conv_s8_call(node, geometry, weights, requantized)


@KERNELS.kernel(Dense)
def dense_vector(node: Node) -> Call | None:
    """A small kernel without windows."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Dense)
    if not is_s8(node):
        return None
    weights = constant_weights(node).astype(np.int64)
    outputs, features = weights.shape
    if math.prod(x.shape[:-1]) != 1:
        raise NoKernel("takes one vector")
    if features % STEP != 0 and features > PATCH_BYTES:
        raise NoKernel(f"takes more than {PATCH_BYTES} features only where they are whole words")
    assert x.quant is not None
    requantized = requantization(node)
    zero = weight_zero(node)
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    params = requantized.params() | {
        "weights": pack_weights(weights, 1, zero),
        "bias": folded_bias(bias, weights, x.quant.zero_point, zero),
        "in_features": features,
        "out_features": outputs,
        "weight_zero": zero,
    }
    return Call(DENSE_S8, node.inputs[:1], params, overwrites=features == outputs and features <= PATCH_BYTES)


@KERNELS.kernel(Dense)
def dense(node: Node) -> Call | None:
    """A pointwise convolution; what is not of rank 4 is one row of pixels."""
    op, geometry = node.op, dense_geometry(node)
    assert isinstance(op, Dense)
    weights = constant_weights(node)
    if is_f32(node):
        return conv_f32_call(node, geometry, weights, op.clamp)
    if not is_s8(node):
        raise no_such_types(node)
    requantized = requantization(node)
    return conv_s8_call(node, geometry, weights, requantized)
