"""The closed range that a clamp keeps values in."""

from __future__ import annotations

import math

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """lo <= v <= hi: real numbers for floats, stored integers for quantized results."""

    lo: float = -math.inf
    hi: float = math.inf

    def __post_init__(self) -> None:
        assert self.lo <= self.hi, f"empty bounds {self.lo}..{self.hi}"

    def intersect(self, other: Bounds) -> Bounds:
        """Clamping by `self`, then by `other`."""
        lo = min(max(self.lo, other.lo), other.hi)
        return Bounds(lo, max(lo, min(max(self.hi, other.lo), other.hi)))


UNBOUNDED = Bounds()
