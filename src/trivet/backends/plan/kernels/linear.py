"""The cheapest exact form of a sum of two int8 values: y = clamp((a*A + b*B + C) >> S), where one can be proved.

The proof is by enumeration: for given factors, every pair of stored values bounds the constant C from both sides, and
whatever lies between the bounds gives the right result for all 65,536 pairs.
"""

from __future__ import annotations

import numpy as np

from trivet.core.record import dataclass
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType

SHIFTS = (22, 21, 20, 18, 16)
NEARBY = (0, 1, -1, 2, -2)
"""Factors tried around the real one."""

_FAR = 1 << 30

_STORED = np.arange(-128, 128, dtype=np.int8)


@dataclass(frozen=True, slots=True)
class Linear:
    """Factors, constant and right shift; all sums fit in int32."""

    a: int
    b: int
    constant: int
    shift: int


def pair_table(op: Op, a: TensorType, b: TensorType) -> Array:
    """The operator on every pair of stored values: int8 [256, 256], from -128 on."""
    left = np.broadcast_to(_STORED[:, None], (256, 256))
    right = np.broadcast_to(_STORED[None, :], (256, 256))
    (table,) = op.evaluate(
        (np.ascontiguousarray(left), np.ascontiguousarray(right)), (a.with_shape((256, 256)), b.with_shape((256, 256)))
    )
    return table


def find_linear(table: Array, slope_a: float, slope_b: float) -> Linear | None:
    """A linear form that equals `table` everywhere; slopes are output steps per input step.

    Where the table reaches its least or largest value, the form may lie beyond: the clamp makes up for it.
    """
    y = table.astype(np.int64)
    lowest, highest = int(y.min()), int(y.max())
    stored = _STORED.astype(np.int64)
    for shift in SHIFTS:
        scale = float(1 << shift)
        near_a, near_b = round(slope_a * scale), round(slope_b * scale)
        if (abs(near_a) + abs(near_b) + 4) * 128 + (abs(highest) + 130) * (1 << shift) >= 1 << 31:
            continue
        least = np.where(y == lowest, -(1 << 62), y << shift)
        most = np.where(y == highest, 1 << 62, ((y + 1) << shift) - 1)
        for da in NEARBY:
            for db in NEARBY:
                total = (near_a + da) * stored[:, None] + (near_b + db) * stored[None, :]
                low, high = int((least - total).max()), int((most - total).min())
                if low <= high and _fits(total, low, high):
                    return Linear(near_a + da, near_b + db, _middle(low, high), shift)
    return None


def _middle(low: int, high: int) -> int:
    """A constant between the bounds, of which a side that nothing bounds is far away."""
    return (max(low, min(high, 0) - _FAR) + min(high, max(low, 0) + _FAR)) // 2


def _fits(total: Array, low: int, high: int) -> bool:
    constant = _middle(low, high)
    return int(total.min()) + constant >= -(1 << 31) and int(total.max()) + constant < 1 << 31
