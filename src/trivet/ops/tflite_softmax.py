"""Integer softmax and log-softmax over the last axis, as the TensorFlow Lite kernels compute them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from trivet.core import libm
from trivet.core.dtype import I8, DType
from trivet.core.fixedpoint import (
    Floats,
    Ints,
    count_leading_zeros,
    exp_on_negative,
    half_sum,
    multiply_by_quantized_multiplier,
    one_over_one_plus,
    rdbp,
    saturate16,
    saturating_shift_left,
    srdhm,
    wrap32,
)
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, quantize_multiplier
from trivet.core.tables import lut16, lut16_lookup
from trivet.ir.op import Array

_FRACTION_BITS = 26
"""Arguments of the exponential are Q5.26."""


def argument_multiplier(scale: float, beta: float) -> tuple[Multiplier, int]:
    """What brings differences from the maximum to Q5.26, and the smallest difference that counts."""
    real = min(float(np.float32(beta)) * scale * (1 << _FRACTION_BITS), (1 << 31) - 1.0)
    multiplier = quantize_multiplier(real)
    return multiplier, -math.floor(math.ldexp(31.0, _FRACTION_BITS - multiplier.shift))


def softmax8(x: Array, scale: float, beta: float, dtype: DType) -> Ints:
    """int8 to int8 or int16 (`dtype`), whose zero point is the type's minimum and whose scale is 2^-bits."""
    index = x.astype(np.int64) - x.max(-1, keepdims=True) + 255
    powers, are_counted = _powers8(*argument_multiplier(scale, beta))
    power, counts = powers[index], are_counted[index]
    total = np.where(counts, rdbp(power, 12), 0).sum(-1, keepdims=True)
    zeros = count_leading_zeros(total)
    reciprocal = one_over_one_plus(wrap32((total << zeros) - (1 << 31)))
    scaled = rdbp(srdhm(reciprocal, power), 12 - zeros + 31 - dtype.bits) + dtype.min
    return np.where(counts, np.clip(scaled, dtype.min, dtype.max), dtype.min)


def power_table(scale: float, beta: float) -> Ints:
    """e^(beta * scale * d) in Q0.31 for d from -255 to 0; -1 where the difference is too large to count: [256]."""
    powers, are_counted = _powers8(*argument_multiplier(scale, beta))
    return np.where(are_counted, powers, -1)


def softmax16(x: Array, scale: float, beta: float, numerics: Numerics) -> Ints:
    """int16 to int16 (Q0.15) through tables of the exponential and of the reciprocal."""
    exponential, reciprocal = _softmax16_tables(numerics.is_litert)
    multiplier = _argument_multiplier16(scale, beta, numerics)
    differences = x.astype(np.int64) - x.max(-1, keepdims=True)
    argument = multiply_by_quantized_multiplier(differences, multiplier.mantissa, multiplier.shift)
    power = lut16_lookup(saturate16(argument + 32767), exponential)
    total = power.sum(-1, keepdims=True)
    zeros = count_leading_zeros(total)
    normalized = ((total << (zeros - 1)) + (1 << 13)) >> 14
    inverse = lut16_lookup(saturate16(normalized - (1 << 15) - (1 << 16)), reciprocal)
    result: Ints = np.clip((power * inverse + (np.int64(1) << (30 - zeros))) >> (31 - zeros), 0, 32767)
    return result


def log_softmax8(x: Array, scale: float) -> Ints:
    """int8 to int8 with scale 16/256 and zero point 127."""
    multiplier, smallest = argument_multiplier(scale, 1.0)
    back = quantize_multiplier(math.ldexp(1.0, 31 - multiplier.shift) / multiplier.mantissa)
    differences = x.astype(np.int64) - x.max(-1, keepdims=True)
    counts = differences >= smallest
    argument = multiply_by_quantized_multiplier(differences, multiplier.mantissa, multiplier.shift)
    power = exp_on_negative(np.where(counts, argument, 0), 5)
    log_total = _log_q5(np.where(counts, rdbp(power, 12), 0).sum(-1, keepdims=True))
    limit = multiply_by_quantized_multiplier(log_total - (1 << 31), back.mantissa, back.shift)
    result = np.clip(rdbp(argument - log_total, 22) + I8.max, I8.min, I8.max)
    return np.where(differences > np.maximum(smallest - 1, limit), result, I8.min)


def _powers8(multiplier: Multiplier, smallest: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """For each difference from -255 to 0: its exponential, and whether it counts."""
    differences = np.arange(-255, 1)
    counts = differences >= smallest
    argument = srdhm(wrap32(np.where(counts, differences, 0) << multiplier.shift), multiplier.mantissa)
    return exp_on_negative(argument, 5), counts


def _argument_multiplier16(scale: float, beta: float, numerics: Numerics) -> Multiplier:
    """What brings differences to steps of 10/65535."""
    beta32 = np.float32(beta)
    real = float(np.float32(scale) * beta32) if numerics.is_litert else scale * float(beta32)
    return quantize_multiplier(real / (10.0 / 65535.0))


@cache
def _softmax16_tables(is_litert: bool) -> tuple[Ints, Ints]:
    """e^v over [-10, 0] and 1/(1+v) over [0, 1]; LiteRT fills them in float64, TFLM in float32."""
    real = np.float64 if is_litert else np.float32
    step, ten = real(1) / real(65535), real(10) / real(65535)
    twice = (float(real(2) / real(65535)), 0)

    def reciprocal(v: Floats) -> Floats:
        return real(1) / (real(1) + v)

    exponential = lut16(np.exp if is_litert else libm.expf, (float(ten), 32767), twice, real)
    return exponential, lut16(reciprocal, (float(step), -32768), twice, real)


def _log_q5(z: Ints) -> Ints:
    """Natural logarithm of Q12.19 numbers >= 1 as Q5.26 (gemmlowp-style `log_x_for_x_greater_than_or_equal_to_1`)."""
    sqrt_half, sqrt_sqrt_half, quarter = 1518500250, 1805811301, 1 << 23
    headroom = count_leading_zeros(z)
    mantissa_a = _shifted(srdhm(_shifted(z, headroom - 1), sqrt_half), np.ones_like(z))
    power_a = _saturate32(_shifted(12 - headroom, np.full_like(z, 25)) + quarter)
    headroom_b = count_leading_zeros(srdhm(z, sqrt_half)) - 1
    mantissa_b = _shifted(z, headroom_b)
    power_b = _saturate32(_shifted(12 - headroom_b, np.full_like(z, 25)) - quarter)
    mantissa, power = np.minimum(mantissa_a, mantissa_b), np.maximum(power_a, power_b)
    p = half_sum(mantissa, sqrt_sqrt_half)
    q = 2 * (mantissa - sqrt_sqrt_half)
    square = srdhm(q, q)
    numerator = srdhm(q, mantissa) + srdhm(srdhm(q, square), 117049297)
    denominator = srdhm(p, 1057819769 + q + srdhm(127690142, square)) + srdhm(638450708, q)
    quotient = srdhm(rdbp(numerator, 6), one_over_one_plus(denominator))
    return saturating_shift_left(srdhm(power, 1488522236) + quotient, 1)


def _shifted(x: Ints, exponent: Ints) -> Ints:
    """x * 2^exponent, saturating to the left and rounding to the right."""
    left, right = np.maximum(exponent, 0), np.maximum(-exponent, 0)
    return np.where(exponent > 0, saturating_shift_left(x, left), rdbp(x, right))


def _saturate32(x: Ints) -> Ints:
    return np.clip(x, -(1 << 31), (1 << 31) - 1)
