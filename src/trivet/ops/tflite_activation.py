"""Functions of one quantized operand as the TensorFlow Lite kernels compute them.

Arguments are stored values and the operand's type; results hold the output's zero point. Those that say "saturated" are
final, the others are yet to be clipped to the type.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trivet.core import fixedpoint, libm
from trivet.core.dtype import I8
from trivet.core.fixedpoint import Ints, inverse_sqrt, rdbp, saturating_shift_left, srdhm16, wrap16
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, Quant
from trivet.core.tables import SIGMOID_TABLE, lut8, lut16, lut16_lookup
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.stored import Float32s, centered, scale_ratio
from trivet.ops.tflite_elementwise import exact_log2, scale_of, scaled

_ONE_THIRD_RANGE = 3.0 / 32768
"""Real step of HARD_SWISH's ReLU-like factor in 16 bits."""


def rescaled(x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Ints:
    """The operand in the output's scale (RELU)."""
    return scaled(centered(x, type_), scale_ratio(numerics, (scale_of(type_),), (out.scale,))) + out.zero_point


def magnitude(x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Ints:
    """|x|, rescaled only where the scales differ."""
    values = np.abs(centered(x, type_))
    if scale_of(type_) != out.scale:
        values = scaled(values, scale_ratio(numerics, (scale_of(type_),), (out.scale,)))
    return values + out.zero_point


def leaky_relu(x: Array, type_: TensorType, alpha: float, out: Quant, numerics: Numerics) -> Ints:
    """x or alpha * x; a negative alpha is applied after its magnitude was rounded."""
    values, scale = centered(x, type_), scale_of(type_)
    positive = scaled(values, scale_ratio(numerics, (scale,), (out.scale,)))
    negative = scaled(values, scale_ratio(numerics, (scale, abs(alpha)), (out.scale,)))
    return np.where(values >= 0, positive, negative if alpha >= 0 else -negative) + out.zero_point


def prelu(x: Array, alpha: Array, types: tuple[TensorType, ...], out: Quant, numerics: Numerics) -> Ints:
    """x or alpha * x, alpha a quantized tensor."""
    values, scale = centered(x, types[0]), scale_of(types[0])
    positive = scaled(values, scale_ratio(numerics, (scale,), (out.scale,)))
    slope = scale_ratio(numerics, (scale, scale_of(types[1])), (out.scale,))
    return np.where(values >= 0, positive, scaled(values * centered(alpha, types[1]), slope)) + out.zero_point


def hard_swish(x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Ints:
    """x * relu6(x + 3) / 6 in 16 bits, saturated to eight."""
    fine = float(np.float32(scale_of(type_)) * np.float32(1 / 128))
    result = scale_ratio(numerics, (fine,), (out.scale,))
    factor = scale_ratio(numerics, (fine,), (_ONE_THIRD_RANGE,))
    values = wrap16(centered(x, type_) << 7)
    product = _relu_factor(values, factor) * srdhm16(values, _mantissa16(result))
    truncated = np.sign(product) * (np.abs(product) >> 15)
    offset = 128 if numerics is Numerics.LITERT_U8 else 0
    wrapped = wrap16(rdbp(truncated, max(-result.shift, 0)) + out.zero_point + offset)
    return np.clip(wrapped, offset - 128, offset + 127) - offset


def rsqrt(x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Ints:
    """1 / sqrt(x) of int8; a stored zero gives the largest value."""
    values = np.maximum(centered(x, type_), 0)
    root = float(np.sqrt(np.float32(scale_of(type_))))
    ratio = scale_ratio(numerics, (1.0,), (root, out.scale))
    mantissa, shift = inverse_sqrt(values)
    fine = fixedpoint.multiply_by_quantized_multiplier(1, mantissa, shift + 20)
    result = scaled(fine, Multiplier(ratio.mantissa, ratio.shift - 20)) + out.zero_point
    return np.where(values == 0, I8.max, result)


def logistic(x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Ints:
    """1 / (1 + e^-x), saturated. TFLM's int8 form takes the output's quantization as 1/256 and -128."""
    if type_.dtype is not I8:
        return logistic16(x, *_table_argument(scale_of(type_), (0,)))
    if numerics.is_litert:
        return through_float32(_sigmoid, x, type_, out)
    return _fixed_point8(lambda a: rdbp(fixedpoint.logistic(a, 4), 23) - 128, x, type_)


def tanh(x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Ints:
    """Hyperbolic tangent, saturated. TFLM's int8 form takes the output's quantization as 1/128 and 0."""
    if type_.dtype is not I8:
        return tanh16(x, *_table_argument(scale_of(type_), (0, 1)))
    if numerics.is_litert:
        return through_float32(libm.tanhf, x, type_, out)
    return _fixed_point8(lambda a: rdbp(fixedpoint.tanh(a, 4), 24), x, type_)


def through_float32(function: Callable[[Float32s], Float32s], x: Array, type_: TensorType, out: Quant) -> Ints:
    """A float32 function through the references' 8- and 16-bit tables, saturated."""
    assert type_.quant is not None
    if type_.dtype is I8:
        return lut8(function, type_.quant, out)[x.astype(np.int64) + 128]
    operand, result = (type_.quant.scale, type_.quant.zero_point), (out.scale, out.zero_point)
    return lut16_lookup(x, lut16(function, operand, result))


def logistic16(x: Array, multiplier: int, left: int) -> Ints:
    """The int16 logistic function: Q0.15 from a table over x * multiplier / 2^left in steps of 2^-9/24."""
    value = _argument16(x, multiplier, left)
    entry = _interpolated(np.abs(value), 9, 0x7FFF << 10)
    return np.where(value >= 0, entry + 512, (1 << 25) - entry + 511) >> 10


def tanh16(x: Array, multiplier: int, left: int) -> Ints:
    """The int16 hyperbolic tangent: Q0.15 from the same table, 2 * logistic(2x) - 1."""
    value = _argument16(x, multiplier, left)
    entry = _interpolated(np.abs(value), 8, 0xFFFF << 8)
    return np.where(value >= 0, entry - (1 << 23) + 128, -entry + (1 << 23) + 127) >> 8


def _sigmoid(x: Float32s) -> Float32s:
    return np.float32(1) / (np.float32(1) + libm.expf(-x))


def _fixed_point8(function: Callable[[Ints], Ints], x: Array, type_: TensorType) -> Ints:
    """An int8 function on Q4.27 arguments; beyond 15 it is at its limits."""
    fraction, exponent = math.frexp(scale_of(type_) * (1 << 27))
    multiplier = Multiplier(math.floor(fraction * (1 << 31) + 0.5), exponent)
    radius = math.floor(math.ldexp(15.0, 27 - exponent))
    values = centered(x, type_)
    inner = np.clip(function(scaled(np.clip(values, -radius, radius), multiplier)), I8.min, I8.max)
    return np.where(values <= -radius, I8.min, np.where(values >= radius, I8.max, inner))


def _relu_factor(values: Ints, factor: Multiplier) -> Ints:
    """HARD_SWISH's min(max(x + 3, 0), 6) / 6 in Q0.15."""
    shifted = saturating_shift_left(values, factor.shift - 1, 16) if factor.shift > 0 else values
    product = srdhm16(shifted, _mantissa16(factor))
    if factor.shift > 0:
        product = saturating_shift_left(product, 1, 16)
    elif factor.shift < 0:
        product = rdbp(product, -factor.shift)
    return (product + (1 << 15)) >> 1


def _mantissa16(multiplier: Multiplier) -> int:
    """The mantissa's upper 16 bits, rounded."""
    top = (1 << 31) - 1 - (1 << 15)
    return 32767 if multiplier.mantissa >= top else (multiplier.mantissa + (1 << 15)) >> 16


def _table_argument(scale: float, power_of_two_shifts: tuple[int, ...]) -> tuple[int, int]:
    """(multiplier, left shift) that make a stored int16 value the argument of the sigmoid table.

    Scales 2^(s-12), s in `power_of_two_shifts`, multiply by 3 << s exactly; others by as many bits as 15 allow.
    """
    log2 = exact_log2(scale)
    if log2 is not None and 12 + log2 in power_of_two_shifts:
        return 3 << (12 + log2), 0
    multiplier, left = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2 and left <= 30:
        multiplier, left = multiplier * 2, left + 1
    return int(multiplier), left


def _argument16(x: Array, multiplier: int, left: int) -> Ints:
    return (x.astype(np.int64) * multiplier + ((1 << left) >> 1)) >> left


def _interpolated(magnitude: Ints, bits: int, limit: int) -> Ints:
    """The sigmoid table at magnitude / 2^bits, with `bits` more fraction bits; `limit` beyond its end."""
    index = magnitude >> bits
    inside = np.minimum(index, 254)
    start, stop = SIGMOID_TABLE[inside], SIGMOID_TABLE[inside + 1]
    entry = (start << bits) + (magnitude & ((1 << bits) - 1)) * (stop - start)
    return np.where(index >= 255, limit, entry)
