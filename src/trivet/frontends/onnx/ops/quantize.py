"""QuantizeLinear and DequantizeLinear: explicit operators here, folded into quantized types by passes later."""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import F32, I8, I16, I32, U8, U16, DType
from trivet.core.quant import Quant
from trivet.frontends.onnx.context import MICROSOFT, Context, Converters
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.frontends.onnx.ops.movement import sliced
from trivet.frontends.onnx.tensors import DTYPES
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ops.elementwise import Add, Div, Maximum, Minimum, Mul, Sub
from trivet.ops.mathematics import Round
from trivet.ops.movement import Expand, Reinterpret
from trivet.ops.quantize import Dequantize, Quantize

ONNX = Converters()

STORED = (I8, U8, I16, U16, I32)


@ONNX("QuantizeLinear")
@ONNX("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(ctx: Context) -> Value:
    """x: f32, scale and zero point: [] or [S_axis] -> stored integers, by default uint8."""
    x = ctx.operand(0)
    zero = ctx.operand(2).type.dtype if ctx.has(2) else None
    dtype = zero or DTYPES.get(ctx.attr_int("output_dtype", 0), U8)
    if dtype not in STORED:
        ctx.refuse(f"quantization to {dtype.name}", hint="quantize to int8, uint8 or int16")
    if ctx.constant_data(ctx.operand(1)) is None or ctx.operand(1).type.rank > 1 or not is_known(ctx, 2):
        return quantized_by(ctx, x, 1, 2, dtype)
    quant = linear(ctx, x, 1, 2)
    if quant is None:
        ctx.refuse("blocks with scales of their own", hint="quantize per tensor or per channel")
    if min(quant.scales) == 0.0:
        ctx.refuse("a scale of zero, which no number can be divided by")
    return quantized(ctx, cast_to(ctx, x, F32), dtype, quant)


def quantized(ctx: Context, x: Value, dtype: DType, quant: Quant) -> Value:
    return ctx.emit(Quantize(quant, dtype, ctx.numerics), x)


@ONNX("DequantizeLinear")
@ONNX("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(ctx: Context) -> Value:
    """x: stored integers, scale and zero point: [] or [S_axis] -> f32; blocks of constants are resolved here."""
    x = ctx.operand(0)
    if not x.type.dtype.is_integer:
        ctx.refuse(f"dequantization of {x.type.dtype.name}", hint="quantize to an integer type")
    if ctx.has(1) and ctx.operand(1).type.dtype is not F32:
        ctx.refuse(f"scales of {ctx.operand(1).type.dtype.name}", hint="store scales as float32")
    if ctx.constant_data(ctx.operand(1)) is None or not is_known(ctx, 2):
        return dequantized_by(ctx, x, 1, 2, ctx.attr_int("axis", 1))
    quant = linear(ctx, x, 1, 2)
    return dequantized(ctx, x, quant) if quant is not None else _dequantized_blocks(ctx)


def dequantized(ctx: Context, x: Value, quant: Quant) -> Value:
    """The real numbers behind stored integers that carry another quantization, or none yet."""
    if x.data is not None:
        x = ctx.constant(x.data, x.type.dtype, quant)
    elif x.type.quant != quant and not ctx.builder.quantize_input(x, quant):
        if x.type.quant is None and x.type.dtype in (U8, U16):
            return _arithmetic(ctx, x, quant)
        x = ctx.emit(Reinterpret(quant), x)
    return ctx.emit(Dequantize(), x)


def _arithmetic(ctx: Context, x: Value, quant: Quant) -> Value:
    """The same numbers by float arithmetic, for plain unsigned integers: quantized ones are signed inside the graph."""
    shape = [1] * x.type.rank
    if quant.axis is not None:
        shape[quant.axis] = len(quant.scales)
    zeros, scales = (np.array(v, np.float32).reshape(shape) for v in (quant.zero_points, quant.scales))
    return ctx.emit(Mul(), ctx.emit(Sub(), cast_to(ctx, x, F32), ctx.constant(zeros)), ctx.constant(scales))


def linear(ctx: Context, x: Value, scale: int, zero: int) -> Quant | None:
    """The quantization that scale and zero point operands state for x; None for blocks."""
    scales = ctx.known(scale, "the scale")
    zeros = ctx.known(zero, "the zero point") if ctx.has(zero) else np.zeros(scales.shape, np.int64)
    if ctx.attr_int("block_size", 0) or scales.ndim > 1:
        return None
    return stated(ctx, x, scales, zeros, ctx.attr_int("axis", 1))


def stated(ctx: Context, x: Value, scales: Array, zeros: Array, axis: int) -> Quant:
    """Per tensor for one scale, else along `axis`, with every number checked."""
    if scales.size == 0 or not np.all(np.isfinite(scales)) or np.any(scales < 0):
        ctx.invalid("scales must be finite and not negative")
    if zeros.size not in (1, scales.size):
        ctx.invalid(f"{scales.size} scales with {zeros.size} zero points")
    if scales.size == 1:
        return Quant.per_tensor(float(scales.reshape(-1)[0]), int(zeros.reshape(-1)[0]))
    axis = ctx.axis(axis, x.type.rank)
    if x.type.shape[axis] != scales.size:
        ctx.invalid(f"{scales.size} scales do not suit axis {axis} of {x.type}")
    return Quant.per_axis(scales, np.broadcast_to(zeros.reshape(-1), scales.size), axis)


def _dequantized_blocks(ctx: Context) -> Value:
    """Stretches of one axis of a constant share a scale: the real numbers, at compile time."""
    stored, scales = ctx.known(0, "the operand"), ctx.known(1, "the scale")
    zeros = ctx.known(2, "the zero point") if ctx.has(2) else np.zeros(scales.shape, np.int64)
    axis, block = ctx.axis(ctx.attr_int("axis", 1), stored.ndim), ctx.attr_int("block_size", 0)
    if block < 1 or scales.ndim != stored.ndim or zeros.shape != scales.shape:
        ctx.invalid(f"blocks of {block} with scales of shape {list(scales.shape)} on {list(stored.shape)}")
    size = stored.shape[axis]
    if scales.shape[axis] * block < size:
        ctx.invalid(f"{scales.shape[axis]} blocks of {block} do not cover {size} elements")
    each_scale = np.repeat(scales, block, axis).take(range(size), axis)
    each_zero = np.repeat(zeros, block, axis).take(range(size), axis)
    real = (stored.astype(np.int64) - each_zero.astype(np.int64)).astype(np.float32) * each_scale.astype(np.float32)
    return ctx.constant(real)


def is_known(ctx: Context, index: int) -> bool:
    """True iff an operand is left out, or known now."""
    return not ctx.has(index) or ctx.constant_data(ctx.operand(index)) is not None


def dequantized_by(ctx: Context, x: Value, scale: int, zero: int, axis: int) -> Value:
    """(x - zero) * scale by arithmetic, with parameters that are computed when the network runs."""
    real = cast_to(ctx, ctx.unquantized(x), F32)
    if ctx.has(zero):
        real = ctx.emit(Sub(), real, cast_to(ctx, _spread(ctx, x, ctx.operand(zero), axis), F32))
    return ctx.emit(Mul(), real, _spread(ctx, x, ctx.operand(scale), axis))


def quantized_by(ctx: Context, x: Value, scale: int, zero: int, dtype: DType) -> Value:
    """x / scale, rounded to even, plus zero, saturated: by arithmetic, with parameters that are computed.

    Raises: Unsupported, for integers that float32 does not hold.
    """
    if dtype.bits > 16:
        ctx.refuse(f"quantization to {dtype.name} by a computed scale", hint="make the scale a constant")
    axis = ctx.attr_int("axis", 1)
    stored = ctx.emit(Round(), ctx.emit(Div(), cast_to(ctx, x, F32), _spread(ctx, x, ctx.operand(scale), axis)))
    if ctx.has(zero):
        stored = ctx.emit(Add(), stored, cast_to(ctx, _spread(ctx, x, ctx.operand(zero), axis), F32))
    inside = ctx.emit(Maximum(), stored, ctx.constant(float(dtype.min)))
    return cast_to(ctx, ctx.emit(Minimum(), inside, ctx.constant(float(dtype.max))), dtype)


def _spread(ctx: Context, x: Value, parameter: Value, axis: int) -> Value:
    """A parameter of each tensor, of each index of `axis`, or of blocks along it, as it broadcasts to x."""
    shape = parameter.type.shape
    if parameter.type.elements == 1:
        return ctx.reshape(parameter, ())
    axis = ctx.axis(axis, x.type.rank)
    if len(shape) == 1 and shape[0] == x.type.shape[axis]:
        return ctx.reshape(parameter, (*shape, *(1 for _ in x.type.shape[axis + 1 :])))
    block = ctx.attr_int("block_size", 0) or -(-x.type.shape[axis] // max(shape[min(axis, len(shape) - 1)], 1))
    whole = tuple(size if i != axis else -(-size // max(block, 1)) for i, size in enumerate(x.type.shape))
    if shape != whole:
        ctx.invalid(f"scales or zero points {parameter.type} do not suit {x.type}")
    lifted = ctx.reshape(parameter, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = ctx.emit(Expand((*shape[: axis + 1], block, *shape[axis + 1 :])), lifted)
    flat = ctx.reshape(wide, (*shape[:axis], shape[axis] * block, *shape[axis + 1 :]))
    return sliced(ctx, flat, axis, 0, x.type.shape[axis])
