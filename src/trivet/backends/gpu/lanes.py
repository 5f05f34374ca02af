"""One register of a group of threads: a single integer where all hold the same, else an array with bounds.

The bounds spare most overflow checks: only where they leave 32 bits is the array itself looked at. Arithmetic is on
64-bit integers, so a product of two words is exact before it is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.backends.gpu.isa import WORD, Opcode

Array: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

LOW, HIGH = WORD.lo, WORD.hi

_least: Callable[[Array], np.int64] = np.minimum.reduce
_greatest: Callable[[Array], np.int64] = np.maximum.reduce


class Vec:
    """One word for each thread of a group, all within [lo, hi]. Never changed once made."""

    __slots__ = ("array", "hi", "lo")

    def __init__(self, array: Array, lo: int = LOW, hi: int = HIGH) -> None:
        self.array = array
        self.lo = lo
        self.hi = hi


Lane: TypeAlias = int | Vec
"""What the threads of a group hold in one register."""


class Fault(Exception):
    """An instruction cannot be executed: the reason, and which threads of the group (positions) it concerns."""

    def __init__(self, reason: str, positions: Array | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = 0 if positions is None or positions.size == 0 else int(positions[0])


def raw(lane: Lane) -> int | Array:
    """What numpy computes with."""
    return lane if isinstance(lane, int) else lane.array


def hull(lane: Lane) -> tuple[int, int]:
    """Bounds of all threads' words."""
    return (lane, lane) if isinstance(lane, int) else (lane.lo, lane.hi)


def tight(lane: Vec) -> Vec:
    """The same with bounds that are reached."""
    return Vec(lane.array, int(_least(lane.array)), int(_greatest(lane.array)))


def word(values: Array, lo: int, hi: int, what: str) -> Vec:
    """A result whose bounds are known to hold; the array is looked at only where they do not fit a word.

    Raises: Fault.
    """
    if lo >= LOW and hi <= HIGH:
        return Vec(values, lo, hi)
    lo, hi = int(_least(values)), int(_greatest(values))
    if lo < LOW or hi > HIGH:
        wrong = np.flatnonzero((values < LOW) | (values > HIGH))
        raise Fault(f"{what} {values[wrong[0]]} does not fit 32 bits", wrong)
    return Vec(values, lo, hi)


def _scalar(value: int, what: str) -> int:
    if value < LOW or value > HIGH:
        raise Fault(f"{what} {value} does not fit 32 bits")
    return value


def add(a: Lane, b: Lane) -> Lane:
    """a + b. Raises: Fault outside 32 bits."""
    if isinstance(a, int):
        if isinstance(b, int):
            return _scalar(a + b, "the sum")
        return word(b.array + a, b.lo + a, b.hi + a, "the sum")
    if isinstance(b, int):
        return word(a.array + b, a.lo + b, a.hi + b, "the sum")
    return word(a.array + b.array, a.lo + b.lo, a.hi + b.hi, "the sum")


def subtract(a: Lane, b: Lane) -> Lane:
    """a - b. Raises: Fault outside 32 bits."""
    if isinstance(a, int) and isinstance(b, int):
        return _scalar(a - b, "the difference")
    (a_lo, a_hi), (b_lo, b_hi) = hull(a), hull(b)
    return word(np.subtract(raw(a), raw(b)), a_lo - b_hi, a_hi - b_lo, "the difference")


def multiply(a: Lane, b: Lane) -> Lane:
    """a * b. Raises: Fault outside 32 bits."""
    if isinstance(a, int) and isinstance(b, int):
        return _scalar(a * b, "the product")
    (a_lo, a_hi), (b_lo, b_hi) = hull(a), hull(b)
    ends = (a_lo * b_lo, a_lo * b_hi, a_hi * b_lo, a_hi * b_hi)
    return word(np.multiply(raw(a), raw(b)), min(ends), max(ends), "the product")


def minimum(a: Lane, b: Lane) -> Lane:
    """The smaller one."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    (a_lo, a_hi), (b_lo, b_hi) = hull(a), hull(b)
    return Vec(np.minimum(raw(a), raw(b)), min(a_lo, b_lo), min(a_hi, b_hi))


def maximum(a: Lane, b: Lane) -> Lane:
    """The larger one."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    (a_lo, a_hi), (b_lo, b_hi) = hull(a), hull(b)
    return Vec(np.maximum(raw(a), raw(b)), max(a_lo, b_lo), max(a_hi, b_hi))


def _shift_of(b: Lane) -> int | Array:
    """A count of bits. Raises: Fault outside 0..31."""
    if isinstance(b, Vec) and (b.lo < 0 or b.hi > 31):
        b = tight(b)
    lo, hi = hull(b)
    if lo < 0 or hi > 31:
        counts = np.atleast_1d(np.asarray(raw(b)))
        wrong = np.flatnonzero((counts < 0) | (counts > 31))
        raise Fault(f"a shift by {counts[wrong[0]]}, which must lie in 0..31", wrong)
    return raw(b)


def shift_left(a: Lane, b: Lane) -> Lane:
    """a * 2^b. Raises: Fault outside 32 bits."""
    shift = _shift_of(b)
    if isinstance(a, int) and isinstance(shift, int):
        return _scalar(a << shift, "the shifted value")
    return word(np.left_shift(raw(a), shift), LOW << 31, HIGH << 31, "the shifted value")


def shift_right(a: Lane, b: Lane) -> Lane:
    """a / 2^b, toward minus infinity."""
    shift = _shift_of(b)
    if isinstance(a, int) and isinstance(shift, int):
        return a >> shift
    lo, hi = hull(a)
    return Vec(np.right_shift(raw(a), shift), min(lo, 0), max(hi, 0))


def shift_right_nearest(a: Lane, b: Lane) -> Lane:
    """a / 2^b to the nearest integer, halves away from zero: of either sign, floor((a + 2^(b-1) - (a < 0)) / 2^b)."""
    shift = np.asarray(_shift_of(b), np.int64)
    values = np.asarray(raw(a), np.int64)
    nudge = (np.int64(1) << shift) >> 1
    result = (values + nudge - ((values < 0) & (shift > 0))) >> shift
    lo, hi = hull(a)
    return int(result) if result.ndim == 0 else Vec(result, min(lo, 0), max(hi, 0))


def multiply_high(a: Lane, b: Lane) -> Lane:
    """a * b / 2^31 to the nearest integer, halves upwards; -2^31 * -2^31 gives 2^31 - 1."""
    if isinstance(a, int) and isinstance(b, int):
        return min((a * b + (1 << 30)) >> 31, HIGH)
    product = (np.multiply(raw(a), raw(b)) + (1 << 30)) >> 31
    return Vec(np.minimum(product, HIGH))


ARITHMETIC: dict[Opcode, Callable[[Lane, Lane], Lane]] = {
    Opcode.ADD: add,
    Opcode.MUL: multiply,
    Opcode.SUB: subtract,
    Opcode.MIN: minimum,
    Opcode.MAX: maximum,
    Opcode.SHL: shift_left,
    Opcode.SHR: shift_right,
    Opcode.SHRN: shift_right_nearest,
    Opcode.MULH: multiply_high,
}
"""Every instruction that makes one word of two."""
