"""Integer arithmetic of two quantized operands as the TensorFlow Lite kernels do it.

Arguments are stored values and operand types; results are not yet clamped but hold the output's zero point.
"""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import I8, I16
from trivet.core.fixedpoint import (
    Ints,
    count_leading_zeros,
    multiply_by_quantized_multiplier,
    one_over_one_plus,
    rdbp,
    srdhm,
    wrap32,
)
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, Quant, quantize_multiplier
from trivet.ir.op import Array
from trivet.ir.types import TensorType, Types
from trivet.ops.stored import centered, scale_ratio


def scaled(x: Ints, by: Multiplier) -> Ints:
    """32-bit values times a real, rounded twice."""
    return multiply_by_quantized_multiplier(x, by.mantissa, by.shift)


def scale_of(type_: TensorType) -> float:
    """The per-tensor scale."""
    assert type_.quant is not None
    return type_.quant.scale


def signed_sum(sign: int, a: Array, b: Array, types: Types, out: Quant) -> Ints:
    """a + sign*b: both are brought to twice the larger scale with 20 (int16: 15) more bits, then to the output's."""
    left = 15 if types[0].dtype is I16 else 20
    p, q = (_term(x, type_, types, left) for x, type_ in zip((a, b), types, strict=True))
    return scaled(p + sign * q, sum_multiplier(types, out, left, square=False)) + out.zero_point


def sum_terms(types: Types, out: Quant, left: int, square: bool) -> tuple[list[Ints], Multiplier]:
    """What every stored int8 value of each operand adds to a sum, and what brings the sum (or square) to the output."""
    values = np.arange(-128, 128)
    terms = [_term(values, type_, types, left) for type_ in types]
    return terms, sum_multiplier(types, out, left, square)


def term_multiplier(type_: TensorType, types: Types) -> Multiplier:
    """What brings an operand to twice the larger scale."""
    return quantize_multiplier(scale_of(type_) / _twice_larger(types))


def _term(x: Array, type_: TensorType, types: Types, left: int) -> Ints:
    """An operand at twice the larger scale with `left` more bits."""
    return scaled(centered(x, type_) << left, term_multiplier(type_, types))


def sum_multiplier(types: Types, out: Quant, left: int, square: bool) -> Multiplier:
    """What brings a sum of such terms (or its square) to the output."""
    twice = _twice_larger(types)
    if square:
        return quantize_multiplier(twice * twice / (2.0 ** (2 * left) * out.scale))
    return quantize_multiplier(twice / (2.0**left * out.scale))


def _twice_larger(types: Types) -> float:
    return 2 * max(scale_of(types[0]), scale_of(types[1]))


def product(a: Array, b: Array, types: Types, out: Quant, numerics: Numerics) -> Ints:
    """a * b."""
    ratio = scale_ratio(numerics, (scale_of(types[0]), scale_of(types[1])), (out.scale,))
    return scaled(wrap32(centered(a, types[0]) * centered(b, types[1])), ratio) + out.zero_point


def quotient(a: Array, b: Array, types: Types, out: Quant, numerics: Numerics) -> Ints:
    """a / b through a fixed-point reciprocal of the normalized divisor.

    Where the reference's right shift leaves 32 bits, and is undefined, the quotient is the true one: zero. A divisor
    that stands for zero gives the largest magnitude.
    """
    ratio = scale_ratio(numerics, (scale_of(types[0]),), (scale_of(types[1]), out.scale))
    divisor = centered(b, types[1])
    dividend = np.where(divisor < 0, -1, 1) * centered(a, types[0])
    divisor = np.abs(divisor)
    zeros = np.minimum(count_leading_zeros(divisor), 31)
    reciprocal = one_over_one_plus(np.where(divisor == 0, 0, wrap32((divisor << zeros) - (1 << 31))))
    head = count_leading_zeros(np.where(dividend < 0, ~dividend, dividend)) - 1
    fraction = srdhm(srdhm(wrap32(dividend << head), reciprocal), ratio.mantissa)
    right = 31 - zeros + head - ratio.shift
    value = np.where(right > 31, 0, rdbp(wrap32(fraction << np.maximum(-right, 0)), np.clip(right, 0, 31)))
    limit = np.sign(dividend) << 30
    return np.where(divisor == 0, limit, value) + out.zero_point


def squared_difference(a: Array, b: Array, types: Types, out: Quant) -> Ints:
    """(a - b)^2 at twice the larger scale, with 7 more bits for int8."""
    left = 7 if types[0].dtype is I8 else 0
    p, q = (_term(x, type_, types, left) for x, type_ in zip((a, b), types, strict=True))
    return scaled(wrap32((p - q) * (p - q)), sum_multiplier(types, out, left, square=True)) + out.zero_point


def comparable(x: Array, type_: TensorType) -> Ints:
    """A stored value as a multiple of 2^-8, for comparison with one of another scale."""
    return scaled(centered(x, type_) << 8, quantize_multiplier(scale_of(type_)))


def exact_log2(scale: float) -> int | None:
    """log2 of a scale that is a power of two within 1e-3, computed in float32 as the reference does."""
    log2 = np.float32(np.log(np.float32(scale)) * np.float32(np.float32(1) / np.log(np.float32(2))))
    nearest = round(float(log2))
    return nearest if abs(float(log2 - np.float32(nearest))) < 1e-3 else None
