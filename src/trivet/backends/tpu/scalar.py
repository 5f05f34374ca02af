"""The scalar unit's programs: softmax through a table of exponentials, and between floats and stored integers."""

from __future__ import annotations

import numpy as np

from trivet.backends.tpu.ir import DequantizeLayer, Ints, QuantizeLayer, QuotientLayer, Rounding
from trivet.core.dtype import DType
from trivet.core.fixedpoint import count_leading_zeros, one_over_one_plus, rdbp, round_half_away, srdhm, wrap32
from trivet.ir.op import Array


def softmax(x: Ints, powers: Ints) -> Ints:
    """Rows [M, C] of int8 values to int8: 2^-8 * (y + 128) is the probability.

    `powers[d + 255]` is e^(scale * d) in Q0.31 for the distance d from the row's largest element; a negative one does
    not count.
    """
    power = powers[x - x.max(axis=1, keepdims=True) + 255]
    counts = power >= 0
    total = wrap32(np.where(counts, rdbp(power, 12), 0).sum(axis=1, keepdims=True))
    zeros = count_leading_zeros(total)
    reciprocal = one_over_one_plus(wrap32((total << zeros) - (1 << 31)))
    scaled = rdbp(srdhm(reciprocal, power), np.clip(35 - zeros, 0, 31)) - 128
    return np.where(counts, np.clip(scaled, -128, 127), -128)


def quotients(x: Ints, powers: Ints, layer: QuotientLayer, dtype: DType) -> Ints:
    """Rows [M, C] of int8 values to their share of the row's exponentials, in float64, halves to even.

    `powers[d + 255]` is the exponential for the distance d from the row's largest element, which has a positive one.
    """
    power = powers[x - x.max(axis=1, keepdims=True) + 255]
    real = power / power.sum(axis=1, keepdims=True)
    moved = np.rint(real / layer.scale) + layer.zero_point
    clipped: Ints = np.clip(moved, dtype.min, dtype.max).astype(np.int64)
    return clipped


def quantized(x: Array, layer: QuantizeLayer, dtype: DType) -> Ints:
    """float32 to the integers of `dtype`: the division in float32, ends saturate, no number gives the smallest one."""
    with np.errstate(all="ignore"):
        steps = x / np.float32(layer.scale)
        rounded = np.rint(steps) if layer.rounding is Rounding.EVEN else round_half_away(steps)
        moved = rounded.astype(np.float64) + layer.zero_point
    clipped = np.clip(np.where(np.isnan(moved), dtype.min, moved), dtype.min, dtype.max)
    return clipped.astype(np.int64)


def dequantized(x: Array, layer: DequantizeLayer) -> Array:
    """Integers to float32: an exact product, rounded once."""
    return (float(np.float32(layer.scale)) * (x.astype(np.float64) - layer.zero_point)).astype(np.float32)
