"""Integer arithmetic of the TensorFlow Lite contracts, on int64 arrays that hold 32-bit (or 16-bit) values.

Every function is elementwise, broadcasts, and equals the reference's C code for each input, the rounding of negative
halves and wrapping shifts included.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = "npt.NDArray[np.int64]"
IntLike: TypeAlias = "npt.ArrayLike"
Floats: TypeAlias = "npt.NDArray[Any]"

_EXP_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""(k, e^-(2^k) in Q0.31)."""


def wrap32(x: IntLike) -> Ints:
    """`x` modulo 2^32, as a signed number."""
    return ((np.asarray(x, np.int64) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def wrap16(x: IntLike) -> Ints:
    """`x` modulo 2^16, as a signed number."""
    return ((np.asarray(x, np.int64) + (1 << 15)) & 0xFFFF) - (1 << 15)


def saturate16(x: IntLike) -> Ints:
    """`x` clipped to the range of int16."""
    return np.clip(np.asarray(x, np.int64), -(1 << 15), (1 << 15) - 1)


def srdhm(a: IntLike, b: IntLike) -> Ints:
    """Saturating rounding doubling high multiply: a*b / 2^31, halves toward +infinity."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: Ints = np.minimum((product + (1 << 30)) >> 31, (1 << 31) - 1)
    return high


def srdhm16(a: IntLike, b: IntLike) -> Ints:
    """The 16-bit form: a*b / 2^15, halves toward +infinity."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    high: Ints = np.minimum((product + (1 << 14)) >> 15, (1 << 15) - 1)
    return high


def rdbp(x: IntLike, exponent: IntLike) -> Ints:
    """Rounding divide by power of two: x / 2^exponent, halves away from zero."""
    values, exponents = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponents) - 1
    return (values >> exponents) + ((values & mask) > (mask >> 1) + (values < 0))


def round_half_away(x: Floats) -> Floats:
    """The nearest integer as a float of the same type, halves away from zero (`round` of C)."""
    magnitude = np.abs(x)
    whole = np.floor(magnitude)
    rounded: Floats = np.copysign(whole + (magnitude - whole >= 0.5), x).astype(x.dtype)
    return rounded


def multiply_by_quantized_multiplier(x: IntLike, mantissa: IntLike, shift: IntLike) -> Ints:
    """x * mantissa * 2^(shift - 31) rounded twice: 32-bit accumulators.

    A left shift comes before the product and wraps.
    """
    shifts = np.asarray(shift, np.int64)
    left = np.maximum(shifts, 0)
    values = np.asarray(x, np.int64)
    if left.any():
        values = wrap32(values << left)
    product = srdhm(values, mantissa)
    return product if (shifts >= 0).all() else rdbp(product, np.maximum(-shifts, 0))


def multiply_by_quantized_multiplier_64(x: IntLike, mantissa: IntLike, shift: IntLike) -> Ints:
    """x * mantissa * 2^(shift - 31) with the mantissa cut to 16 bits, rounded once: 64-bit accumulators; shift < 8."""
    mantissas = np.asarray(mantissa, np.int64)
    reduced = np.where(mantissas < 0x7FFF0000, (mantissas + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - np.asarray(shift, np.int64)
    return wrap32((np.asarray(x, np.int64) * reduced + (np.int64(1) << (total - 1))) >> total)


def count_leading_zeros(x: IntLike) -> Ints:
    """Zero bits above the highest set bit of a 32-bit pattern; 32 for zero."""
    bits = np.asarray(x, np.int64) & 0xFFFFFFFF
    return 32 - np.frexp(bits.astype(np.float64))[1].astype(np.int64)


def saturating_shift_left(x: IntLike, exponent: IntLike, bits: int = 32) -> Ints:
    """x * 2^exponent, clipped to `bits` bits."""
    values, exponents = np.asarray(x, np.int64), np.asarray(exponent, np.int64)
    top = (1 << (bits - 1)) - 1
    limit = (np.int64(1) << (bits - 1 - exponents)) - 1
    shifted = np.clip(values << exponents, -top - 1, top)
    return np.where(values > limit, top, np.where(values < -limit, -top - 1, shifted))


def rescale(x: IntLike, integer_bits: int, new_integer_bits: int, bits: int = 32) -> Ints:
    """A fixed-point number with another count of integer bits, saturating."""
    exponent = integer_bits - new_integer_bits
    if exponent > 0:
        return saturating_shift_left(x, exponent, bits)
    return rdbp(x, -exponent)


def half_sum(a: IntLike, b: IntLike) -> Ints:
    """(a + b) / 2, halves away from zero."""
    total = np.asarray(a, np.int64) + np.asarray(b, np.int64)
    halves: Ints = np.sign(total) * ((np.abs(total) + 1) >> 1)
    return halves


def exp_on_negative(a: IntLike, integer_bits: int, bits: int = 32) -> Ints:
    """e^a in Q0 for a <= 0 with `integer_bits` integer bits (gemmlowp's `exp_on_negative_values`)."""
    values = np.asarray(a, np.int64)
    fraction_bits = bits - 1 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    remainder = (values & (quarter - 1)) - quarter
    result = _exp_last_quarter(rescale(remainder, integer_bits, 0, bits), bits)
    left_over = remainder - values
    for power, factor in _EXP_FACTORS:
        if integer_bits > power:
            is_set = (left_over >> (fraction_bits + power)) & 1 == 1
            result = np.where(is_set, _product(result, _constant(factor, bits), bits), result)
    if integer_bits > 5:
        result = np.where(values < _constant(-(1 << (36 - integer_bits)), bits), 0, result)
    return np.where(values == 0, (1 << (bits - 1)) - 1, result)


def one_over_one_plus(a: IntLike, bits: int = 32) -> Ints:
    """1 / (1 + a) for a in [0, 1), both Q0 (three Newton-Raphson steps)."""
    return rescale(_half_reciprocal(a, bits), 1, 0, bits)


def logistic(a: IntLike, integer_bits: int, bits: int = 32) -> Ints:
    """1 / (1 + e^-a) in Q0."""
    values = np.asarray(a, np.int64)
    positive = one_over_one_plus(exp_on_negative(-np.abs(values), integer_bits, bits), bits)
    one = (1 << (bits - 1)) - 1
    return np.where(values == 0, 1 << (bits - 2), np.where(values > 0, positive, one - positive))


def tanh(a: IntLike, integer_bits: int, bits: int = 32) -> Ints:
    """Hyperbolic tangent in Q0, as (1 - e) / (1 + e) with e = e^(-2|a|)."""
    values = np.asarray(a, np.int64)
    power = exp_on_negative(-np.abs(values), integer_bits + 1, bits)
    magnitude = rescale(_half_reciprocal(power, bits) - (1 << (bits - 3)), 2, 0, bits)
    return np.sign(values) * magnitude


def inverse_sqrt(x: IntLike) -> tuple[Ints, Ints]:
    """1 / sqrt(x) for integers x >= 0 as (mantissa, shift): mantissa * 2^(shift - 31); 0 counts as 1.

    Five Newton-Raphson steps on Q3.28, as TensorFlow Lite's `GetInvSqrtQuantizedMultiplierExp`.
    """
    values = np.maximum(np.asarray(x, np.int64), 1)
    folds = np.maximum(0, (31 - count_leading_zeros(values) - 27) >> 1)
    values = values >> (2 * folds)
    even = (count_leading_zeros(values) - 1) // 2 - 1
    right = 11 + folds - even
    argument = (values << (2 * even)) >> 1
    root = np.full_like(argument, 1 << 28)
    for _ in range(5):
        cube = rescale(srdhm(srdhm(root, root), root), 9, 3)
        root = rescale(srdhm((1 << 28) + (1 << 27), root) - srdhm(rdbp(argument, 1), cube), 6, 3)
    root = srdhm(root, 1518500250) << np.maximum(-right, 0)
    is_one = np.asarray(x, np.int64) <= 1
    return np.where(is_one, (1 << 31) - 1, root), np.where(is_one, 0, -np.maximum(right, 0))


def _product(a: IntLike, b: IntLike, bits: int) -> Ints:
    return srdhm(a, b) if bits == 32 else srdhm16(a, b)


def _constant(value: int, bits: int) -> int:
    """A 32-bit constant rounded to the width."""
    return value if bits == 32 else int(rdbp(value, 16))


def _exp_last_quarter(a: Ints, bits: int) -> Ints:
    """e^a for a in [-1/4, 0), Q0: a Taylor polynomial around -1/8."""
    x = a + (1 << (bits - 4))
    x2 = _product(x, x, bits)
    x3, x4 = _product(x2, x, bits), _product(x2, x2, bits)
    tail = rdbp(_product(rdbp(x4, 2) + x3, _constant(715827883, bits), bits) + x2, 1)
    scale = _constant(1895147668, bits)
    total = scale + _product(scale, x + tail, bits)
    return total if bits == 32 else saturate16(total)


def _half_reciprocal(a: IntLike, bits: int) -> Ints:
    """1 / ((1 + a) / 2) with two integer bits, for a in [0, 1) Q0."""
    half = half_sum(a, (1 << (bits - 1)) - 1)
    x = _constant(1515870810, bits) + _product(half, _constant(-1010580540, bits), bits)
    for _ in range(3):
        error = (1 << (bits - 3)) - _product(half, x, bits)
        x = x + rescale(_product(x, error, bits), 4, 2, bits)
    return x
