"""Closed integer intervals (the only closed ranges in the project)."""

from __future__ import annotations

from collections.abc import Iterable

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers v with lo <= v <= hi."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        assert self.lo <= self.hi, f"empty interval [{self.lo}, {self.hi}]"

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.lo - other.hi, self.hi - other.lo)

    def __mul__(self, other: Interval) -> Interval:
        corners = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(corners), max(corners))

    def __contains__(self, value: int) -> bool:
        return self.lo <= value <= self.hi

    def within(self, other: Interval) -> bool:
        """True iff every member also lies in `other`."""
        return other.lo <= self.lo and self.hi <= other.hi

    def clamp(self, lo: int, hi: int) -> Interval:
        """The image under min(max(v, lo), hi)."""
        return Interval(min(max(self.lo, lo), hi), min(max(self.hi, lo), hi))

    @staticmethod
    def hull(intervals: Iterable[Interval]) -> Interval:
        """The smallest interval that holds all of them."""
        members = list(intervals)
        return Interval(min(i.lo for i in members), max(i.hi for i in members))
