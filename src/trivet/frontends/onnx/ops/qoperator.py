"""Operators with their quantization as operands: dequantize, the float operator, quantize, as a QDQ file states it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trivet.core.dtype import F32
from trivet.core.quant import Quant
from trivet.frontends.onnx.context import MICROSOFT, Context, Converter, Converters
from trivet.frontends.onnx.layout import to_first, to_last
from trivet.frontends.onnx.ops.conv import convolution
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.frontends.onnx.ops.matmul import general_product, product
from trivet.frontends.onnx.ops.movement import joined
from trivet.frontends.onnx.ops.pool import globally_pooled, pooled
from trivet.frontends.onnx.ops.quantize import dequantized, dequantized_by, is_known, quantized, quantized_by, stated
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops.activation import LeakyRelu, Logistic
from trivet.ops.elementwise import Add, Mul
from trivet.ops.softmax import Softmax

ONNX = Converters()

PoolOf = Callable[[Context, Value], Value]


def real(ctx: Context, first: int, axis: int = 0) -> Value:
    """The real numbers of operand `first`, whose scale and zero point follow it."""
    x = ctx.operand(first)
    if not (is_known(ctx, first + 1) and is_known(ctx, first + 2)):
        return dequantized_by(ctx, x, first + 1, first + 2, axis)
    return dequantized(ctx, x, _quant(ctx, x, first + 1, first + 2, axis))


def _quant(ctx: Context, x: Value, scale: int, zero: int, axis: int = 0) -> Quant:
    scales = ctx.known(scale, "the scale")
    zeros = ctx.known(zero, "the zero point") if ctx.has(zero) else np.zeros(scales.shape, np.int64)
    return stated(ctx, x, scales, zeros, axis)


def stored(ctx: Context, y: Value, scale: int, zero: int) -> Value:
    """y as integers of the scale and zero point in those operands; the element type is the zero point's."""
    dtype = ctx.operand(zero).type.dtype if ctx.has(zero) else ctx.operand(0).type.dtype
    if not (is_known(ctx, scale) and is_known(ctx, zero)):
        return quantized_by(ctx, y, scale, zero, dtype)
    quant = _quant(ctx, y, scale, zero)
    if min(quant.scales) == 0.0:
        ctx.invalid("a result has the scale 0")
    return quantized(ctx, y, dtype, quant)


def _bias(ctx: Context, index: int, *products: Value, axis: int = 0) -> Value | None:
    """An int32 bias, whose scale is the product of the operands' scales."""
    bias = ctx.optional(index)
    if bias is None:
        return None
    if not (is_known(ctx, 1) and is_known(ctx, 4)):
        return ctx.emit(Mul(), cast_to(ctx, bias, F32), ctx.emit(Mul(), ctx.operand(1), ctx.operand(4)))
    scales = np.ones(1, np.float32)
    for factor in products:
        scales = scales * np.asarray(_stored_quant(factor).scales, np.float32)
    return dequantized(ctx, bias, stated(ctx, bias, np.asarray(scales), np.zeros(1, np.int64), axis))


def _stored_quant(x: Value) -> Quant:
    assert x.producer is not None
    quant = x.producer.inputs[0].type.quant
    assert quant is not None
    return quant


@ONNX("QLinearConv")
def qlinear_conv(ctx: Context) -> Value:
    """x, its scale, its zero point, w, scale, zero point, y's scale, y's zero point, bias (optional)."""
    x, w = real(ctx, 0), real(ctx, 3)
    return stored(ctx, convolution(ctx, x, w, _bias(ctx, 8, x, w)), 6, 7)


@ONNX("QLinearMatMul")
def qlinear_matmul(ctx: Context) -> Value:
    """Weights with a scale per column have it along their last axis."""
    a, b = ctx.operand(0), ctx.operand(3)
    y = product(ctx, real(ctx, 0, a.type.rank - 2), real(ctx, 3, b.type.rank - 1))
    return stored(ctx, y, 6, 7)


@ONNX("QGemm", domain=MICROSOFT)
def qgemm(ctx: Context) -> Value:
    """a, b with scale and zero point each, int32 c (optional), y's scale and zero point (absent: float)."""
    columns = 0 if ctx.attr_flag("transB") else 1
    a, b = real(ctx, 0), real(ctx, 3, columns)
    alpha = ctx.attr_float("alpha", 1.0)
    bias = ctx.optional(6)
    c = None if bias is None else _bias(ctx, 6, a, b, axis=bias.type.rank - 1)
    if c is not None and alpha != 1.0:
        ctx.refuse(f"a bias beside alpha {alpha}", hint="fold alpha into the scale of an operand")
    y = general_product(ctx, a, b, c, 1.0)
    return stored(ctx, y, 7, 8) if ctx.has(7) else y


def _pair(op: Op) -> Converter:
    def convert(ctx: Context) -> Value:
        return stored(ctx, ctx.emit(op, real(ctx, 0), real(ctx, 3)), 6, 7)

    return convert


ONNX("QLinearAdd", domain=MICROSOFT)(_pair(Add()))
ONNX("QLinearMul", domain=MICROSOFT)(_pair(Mul()))


@ONNX("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(ctx: Context) -> Value:
    return stored(ctx, ctx.emit(Logistic(), real(ctx, 0)), 3, 4)


@ONNX("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(ctx: Context) -> Value:
    return stored(ctx, ctx.emit(LeakyRelu(ctx.attr_float("alpha", 0.01)), real(ctx, 0)), 3, 4)


@ONNX("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(ctx: Context) -> Value:
    """`opset` says which of Softmax's meanings is meant; only the one along an axis is taken."""
    x = real(ctx, 0)
    axis = ctx.axis(ctx.attr_int("axis", -1), x.type.rank)
    if ctx.attr_int("opset", 13) < 13 and axis != x.type.rank - 1:
        ctx.refuse("a softmax over several axes", hint="flatten before it with Reshape")
    return stored(ctx, ctx.emit(Softmax(axis), x), 3, 4)


@ONNX("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_pool(ctx: Context) -> Value:
    return stored(ctx, _channels_first(ctx, globally_pooled), 3, 4)


@ONNX("QLinearAveragePool", domain=MICROSOFT)
def qlinear_pool(ctx: Context) -> Value:
    return stored(ctx, _channels_first(ctx, pooled), 3, 4)


def _channels_first(ctx: Context, pool: PoolOf) -> Value:
    """The pool of operand 0, which is [N, ..., C] with `channels_last`."""
    x = real(ctx, 0)
    if not ctx.attr_flag("channels_last"):
        return pool(ctx, x)
    rank = x.type.rank
    return ctx.transpose(pool(ctx, ctx.transpose(x, to_first(rank))), to_last(rank))


@ONNX("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(ctx: Context) -> Value:
    """y's scale and zero point come first, then each operand with its own."""
    parts: Sequence[Value] = [real(ctx, index) for index in range(2, len(ctx), 3)]
    y = joined(ctx, parts, ctx.attr_int("axis"))
    return quantized(ctx, y, ctx.operand(1).type.dtype, _quant(ctx, y, 0, 1))
