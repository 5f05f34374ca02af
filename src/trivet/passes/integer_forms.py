"""The integer form of every operator that has one, between dequantized operands and a quantize.

A form returns the value that equals the quantize's result, or None where the operator has to stay float. Operators that
move or compare elements commute with quantization exactly; sums of products, arithmetic and pools take the output
quantization as attribute and round once, as the float operator and its quantize do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import F32, I8
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.activation import PRelu
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.elementwise import Add, Div, Maximum, Minimum, Mul, SquaredDifference, Sub, Where
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import (
    Concat,
    DepthToSpace,
    Expand,
    Gather,
    Pad,
    Reshape,
    Slice,
    SpaceToDepth,
    Tile,
    Transpose,
)
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.quantize import Dequantize
from trivet.ops.reduce import Mean, ReduceMax, ReduceMin, Sum
from trivet.ops.resize import ResizeBilinear, ResizeNearest
from trivet.ops.softmax import LogSoftmax, Softmax
from trivet.passes.integer_bias import integer_bias, sums_fit
from trivet.passes.patterns import made_by
from trivet.passes.qdq_site import Site

Form = Callable[[Site], Value | None]


def product(site: Site) -> Value | None:
    """conv2d, depthwise_conv2d, conv_transpose2d, dense: constant weights, one scale or one for each output channel."""
    op = site.node.op
    assert isinstance(op, Conv2D | DepthwiseConv2D | ConvTranspose2D | Dense)
    x, weights = site.stored(site.node.inputs[0]), _stored_weights(site.node.inputs[1])
    axis = 2 if isinstance(op, DepthwiseConv2D) else 0
    if x is None or weights is None or weights.type.quant is None or weights.type.quant.axis not in (None, axis):
        return None
    operands = [x, weights]
    if len(site.node.inputs) == 3:
        bias = integer_bias(site, site.node.inputs[2], x.type, weights, axis)
        if bias is None:
            return None
        operands.append(bias)
    if not sums_fit(x.type, weights, operands[2] if len(operands) == 3 else None, axis):
        return None
    return site.emit(replace(op, clamp=site.bounds(op.clamp), out=site.out, numerics=site.numerics), *operands)


def _stored_weights(value: Value) -> Value | None:
    source = made_by(value, Dequantize)
    constant = None if source is None else source.inputs[0]
    return constant if constant is not None and constant.is_constant and constant.type.dtype is I8 else None


def requantizing(site: Site) -> Value | None:
    """add, sub, mul, div, pools, means, softmax: every operand dequantized; the operator takes the output's scale."""
    op = site.node.op
    operands = [site.stored(value) for value in site.node.inputs]
    present = [value for value in operands if value is not None]
    if len(present) < len(operands):
        return None
    match op:
        case Add() | Sub() | Mul() | Div() | SquaredDifference() | AveragePool2D():
            form: Op = replace(op, clamp=site.bounds(op.clamp), out=site.out, numerics=site.numerics)
        case Softmax():
            form = replace(op, out=site.out, numerics=site.numerics, dtype=site.dtype)
        case BatchMatMul() | Mean() | Sum() | LogSoftmax() | PRelu():
            form = replace(op, out=site.out, numerics=site.numerics)
        case _:
            raise AssertionError(op.name)
    return site.emit(form, *present)


def moving(site: Site) -> Value | None:
    """Movement and nearest resize of one dequantized operand: on the stored integers, requantized if scales differ."""
    x = site.stored(site.node.inputs[0])
    if x is None:
        return None
    return site.requantized(site.emit(site.node.op, x, *site.node.inputs[1:]))


def comparing(site: Site) -> Value | None:
    """reduce_max, reduce_min, max_pool2d: rounding is monotone, so they commute with it."""
    x, op = site.stored(site.node.inputs[0]), site.node.op
    if x is None:
        return None
    if not isinstance(op, MaxPool2D):
        return site.requantized(site.emit(op, x))
    assert x.type.quant is not None
    if x.type.quant == site.out:
        return site.emit(replace(op, clamp=site.bounds(op.clamp)), x)
    return site.clamped(site.requantized(site.emit(replace(op, clamp=UNBOUNDED), x)), op.clamp)


def joining(site: Site) -> Value | None:
    """concat, where, maximum, minimum: every operand under the output's quantization first, float ones too."""
    op = site.node.op
    first = 1 if isinstance(op, Where) else 0
    joined = site.node.inputs[first:]
    if not any(site.stored(value) is not None for value in joined):
        return None
    integers = [site.quantized(value) for value in joined]
    form = replace(op, out=site.out) if isinstance(op, Maximum | Minimum) else op
    return site.emit(form, *site.node.inputs[:first], *integers)


def padding(site: Site) -> Value | None:
    """pad: the value is stored under the output's quantization."""
    x, op = site.stored(site.node.inputs[0]), site.node.op
    assert isinstance(op, Pad)
    if x is None:
        return None
    value = site.quantize.op.evaluate((np.array([op.value], np.float32),), (TensorType(F32, (1,)),))[0]
    return site.emit(replace(op, value=int(value[0])), site.requantized(x))


def interpolating(site: Site) -> Value | None:
    """resize_bilinear: rounds to its operand's scale, so only where that is the output's."""
    x, op = site.stored(site.node.inputs[0]), site.node.op
    assert isinstance(op, ResizeBilinear)
    if x is None or x.type.quant != site.out:
        return None
    return site.emit(replace(op, numerics=site.numerics), x)


FORMS: dict[type[Op], Form] = {
    Conv2D: product,
    DepthwiseConv2D: product,
    ConvTranspose2D: product,
    Dense: product,
    BatchMatMul: requantizing,
    Add: requantizing,
    Sub: requantizing,
    Mul: requantizing,
    Div: requantizing,
    SquaredDifference: requantizing,
    AveragePool2D: requantizing,
    Mean: requantizing,
    Sum: requantizing,
    Softmax: requantizing,
    LogSoftmax: requantizing,
    PRelu: requantizing,
    MaxPool2D: comparing,
    ReduceMax: comparing,
    ReduceMin: comparing,
    Maximum: joining,
    Minimum: joining,
    Where: joining,
    Concat: joining,
    Pad: padding,
    Reshape: moving,
    Transpose: moving,
    Slice: moving,
    Expand: moving,
    Tile: moving,
    Gather: moving,
    SpaceToDepth: moving,
    DepthToSpace: moving,
    ResizeNearest: moving,
    ResizeBilinear: interpolating,
}
"""Clamps and other functions of one operand are tables: see `lookup_tables`."""

PRODUCTS: tuple[type[Op], ...] = (Conv2D, DepthwiseConv2D, ConvTranspose2D, Dense)

REORDERING: tuple[type[Op], ...] = (Reshape, Transpose, Slice, Expand, Tile, Gather, SpaceToDepth, DepthToSpace)
"""Operators that commute with quantize and dequantize in both directions, whatever the quantization (one scale)."""
