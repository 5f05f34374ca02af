"""Dynamic quantization: scales and zero points are computed from the data when the network runs."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import F32, I8, I32, U8
from trivet.frontends.onnx.context import MICROSOFT, Context, Converters
from trivet.frontends.onnx.layout import from_image, image, two
from trivet.frontends.onnx.ops.conv import check_operands, convolution
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.frontends.onnx.ops.quantize import is_known
from trivet.frontends.onnx.windows import pads2d, window
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ops.dynamic import DynamicQuantize, DynamicRange, IntegerConv2D
from trivet.ops.elementwise import Add, Cast, Mul, Sub
from trivet.ops.matmul import MatMul

ONNX = Converters()


@ONNX("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: Context) -> tuple[Value, ...]:
    """x: f32 -> uint8, its scale [], its zero point [] (uint8)."""
    stored, scale, zero = ctx.emit_all(DynamicQuantize(DynamicRange.AFFINE), ctx.operand(0))
    return stored, scale, ctx.emit(Cast(U8), zero)


@ONNX("MatMulInteger")
def matmul_integer(ctx: Context) -> Value:
    """a: [..., M, K], b: [K, N], their zero points (optional) -> int32 [..., M, N], exact."""
    a, b = ctx.plain(0), ctx.plain(1)
    if b.is_constant and b.type.rank == 2:
        return integer_product(ctx, a, 1, ctx.optional(2), 3)
    if a.type.rank != 2 or b.type.rank != 2:
        ctx.refuse(f"a product of {a.type} and {b.type}", hint="write it as one product for each matrix")
    return ctx.emit(MatMul(), _centered(ctx, a, ctx.optional(2), (-1, 1)), _centered(ctx, b, ctx.optional(3), (1, -1)))


def _centered(ctx: Context, x: Value, zero: Value | None, shape: tuple[int, int]) -> Value:
    """x - zero as i32; a zero point of several elements counts for each index of the axis that `shape` leaves open."""
    wide = cast_to(ctx, x, I32)
    if zero is None:
        return wide
    count = zero.type.elements
    place = tuple(count if size < 0 else size for size in shape)
    return ctx.emit(Sub(), wide, ctx.reshape(cast_to(ctx, zero, I32), place))


@ONNX("ConvInteger")
def conv_integer(ctx: Context) -> Value:
    """x: [N, C, ...], w: [O, C/group, ...], their zero points (optional) -> int32 [N, O, ...]; padding adds nothing."""
    x, w, groups = ctx.plain(0), ctx.operand(1), ctx.attr_int("group", 1)
    check_operands(ctx, x, w, groups)
    shape = window(ctx, x.type.shape[2:], w.type.shape[2:])
    if not (is_known(ctx, 1) and is_known(ctx, 3)):
        return _computed_convolution(ctx, x, w)
    weights, zeros = stored_weights(ctx, 1, 3, channels=0)
    filters = weights.transpose(0, *range(2, weights.ndim), 1)
    if weights.ndim == 3:
        filters = filters[:, :, None]
    op = IntegerConv2D(two(shape.stride, 1), two(shape.dilation, 1), pads2d(shape.pads), groups)
    y = ctx.emit(op, image(ctx, x), ctx.constant(filters, I8), _zero(ctx, ctx.optional(2)), *zeros)
    return from_image(ctx, y, x.type.rank)


def _computed_convolution(ctx: Context, x: Value, w: Value) -> Value:
    """The same with computed weights: in float32, which holds every sum of so few products.

    Raises: Unsupported, for more products.
    """
    terms = math.prod(w.type.shape[1:])
    if terms * 255 * 255 >= 1 << 24:
        ctx.refuse(f"sums of {terms} products with computed weights", hint="make the weights constants")
    real = [cast_to(ctx, value, F32) for value in (x, w)]
    for index, (operand, shape) in enumerate(((2, ()), (3, (-1, *(1 for _ in w.type.shape[1:]))))):
        if (zero := ctx.optional(operand)) is not None:
            size = zero.type.elements
            place = () if size == 1 else tuple(size if n < 0 else n for n in shape)
            real[index] = ctx.emit(Sub(), real[index], cast_to(ctx, ctx.reshape(zero, place), F32))
    return cast_to(ctx, convolution(ctx, real[0], real[1], None), I32)


@ONNX("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(ctx: Context) -> Value:
    """a, b, their scales, their zero points (optional), bias (optional): a_scale * b_scale * (a b) + bias."""
    sums = integer_product(ctx, ctx.plain(0), 1, ctx.optional(4), 5)
    return _scaled(ctx, sums, ctx.operand(2), ctx.operand(3), ctx.optional(6))


@ONNX("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(ctx: Context) -> Value:
    """a: f32, quantized here; b, its scale, its zero point (optional), bias (optional)."""
    stored, scale, zero = ctx.emit_all(DynamicQuantize(DynamicRange.AFFINE), ctx.operand(0))
    return _scaled(ctx, integer_product(ctx, stored, 1, zero, 3), scale, ctx.operand(2), ctx.optional(4))


def integer_product(ctx: Context, a: Value, b: int, a_zero: Value | None, b_zero: int) -> Value:
    """The exact product of a, whose zero point is one number, with the constant matrix of operand `b`."""
    weights, zeros = stored_weights(ctx, b, b_zero, channels=1)
    if weights.ndim != 2 or a.type.rank == 0 or a.type.shape[-1] != weights.shape[0]:
        ctx.refuse(f"a product of {a.type} and {ctx.operand(b).type}", hint="write it as one product for each matrix")
    return _product(ctx, a, weights, _zero(ctx, a_zero), zeros)


def _product(ctx: Context, a: Value, weights: Array, zero: Value, zeros: tuple[Value, ...]) -> Value:
    """a: i8 or u8 [..., K], weights: i8 [K, N] -> i32 [..., N]."""
    inner, columns = weights.shape
    pixels = ctx.reshape(a, (1, 1, math.prod(a.type.shape[:-1]), inner))
    filters = ctx.constant(np.ascontiguousarray(weights.T).reshape(columns, 1, 1, inner), I8)
    y = ctx.emit(IntegerConv2D(), pixels, filters, zero, *zeros)
    return ctx.reshape(y, (*a.type.shape[:-1], columns))


def dynamic_product(ctx: Context, a: Value, weights: Array, zeros: Array, scales: Array) -> Value:
    """a: f32 [..., K], quantized here, with a matrix [K, N] of stored integers: f32 [..., N]."""
    stored, scale, zero = ctx.emit_all(DynamicQuantize(DynamicRange.AFFINE), a)
    narrow, wide = restated(weights, zeros, 1)
    sums = _product(ctx, stored, narrow, zero, (ctx.constant(wide, I32),) if wide.any() else ())
    return ctx.emit(Mul(), ctx.emit(Cast(F32), sums), ctx.emit(Mul(), scale, ctx.constant(scales)))


def stored_weights(ctx: Context, weights: int, zero: int, channels: int) -> tuple[Array, tuple[Value, ...]]:
    """Constant weights as int8, with their zero points for each index of the axis `channels` unless all are zero.

    uint8 is restated: both sides less 128.
    """
    data = ctx.known(weights, "the weights")
    zeros = ctx.known(zero, "their zero point") if ctx.has(zero) else np.zeros(1, data.dtype)
    if data.ndim <= channels or zeros.size not in (1, data.shape[channels]):
        ctx.invalid(f"{zeros.size} zero points do not suit weights {data.dtype}{list(data.shape)}")
    stored, wide = restated(data, zeros, channels)
    return stored, (ctx.constant(wide, I32),) if wide.any() else ()


def restated(data: Array, zeros: Array, channels: int) -> tuple[Array, Array]:
    """Weights as int8, and int32 zero points for each index of the axis `channels`."""
    offset = 128 if data.dtype == np.uint8 else 0
    wide = np.broadcast_to(zeros.astype(np.int32).ravel() - offset, (data.shape[channels],))
    return (data.astype(np.int16) - offset).astype(np.int8), wide


def _zero(ctx: Context, zero: Value | None) -> Value:
    """A zero point of one number as i32 []; one that a cast made narrow is taken as it was."""
    if zero is None:
        return ctx.constant(0, I32)
    if zero.type.elements != 1:
        ctx.refuse(f"{zero.type.elements} zero points of the activation", hint="quantize activations per tensor")
    source = zero.producer
    if source is not None and isinstance(source.op, Cast) and source.inputs[0].type.dtype is I32:
        zero = source.inputs[0]
    return ctx.reshape(cast_to(ctx, zero, I32), ())


def _scaled(ctx: Context, sums: Value, a_scale: Value, b_scale: Value, bias: Value | None) -> Value:
    y = ctx.emit(Mul(), ctx.emit(Cast(F32), sums), ctx.emit(Mul(), a_scale, b_scale))
    return y if bias is None else ctx.emit(Add(), y, bias)
