"""The scalar unit's one program: softmax of int8 rows through a table of exponentials."""

from __future__ import annotations

import numpy as np

from trivet.backends.tpu.ir import Ints
from trivet.core.fixedpoint import count_leading_zeros, one_over_one_plus, rdbp, srdhm, wrap32


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
