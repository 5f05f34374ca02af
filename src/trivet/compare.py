"""Are two results the same, and if not, where and by how much."""

from __future__ import annotations

import numpy as np

from trivet.core.record import dataclass
from trivet.ir.op import Array

FLOAT_TOLERANCE = 1e-5
"""Floats agree when they differ by at most this part of the largest magnitude of the expected tensor."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differing` of `elements` elements are not the same; `largest` is the largest difference."""

    same: bool
    elements: int
    differing: int
    largest: float
    first: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.differing == 0:
            return f"equal in all {self.elements} elements"
        if self.same:
            return f"within tolerance in all {self.elements} elements (largest difference {self.largest:.3g})"
        where = f", first at {list(self.first)}" if self.first is not None else ""
        return f"{self.differing} of {self.elements} elements differ, by {self.largest:.6g} at most{where}"


def compare(expected: Array, actual: Array, tolerance: float = FLOAT_TOLERANCE) -> Comparison:
    """Integers and booleans must be equal; floats within `tolerance` of the largest magnitude, NaN beside NaN."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return Comparison(False, expected.size, expected.size, float("inf"))
    if expected.dtype.kind != "f":
        wrong = expected != actual
        distance = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
        return _comparison(wrong, wrong, distance)
    both_nan = np.isnan(expected) & np.isnan(actual)
    with np.errstate(invalid="ignore"):
        distance = np.where(both_nan | (expected == actual), 0.0, np.abs(expected.astype(np.float64) - actual))
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0.0))
    wrong = ~(distance <= tolerance * scale)
    return _comparison(wrong, distance != 0, distance)


def _comparison(wrong: Array, differing: Array, distance: Array) -> Comparison:
    bad = bool(wrong.any())
    first = tuple(int(i) for i in np.argwhere(wrong)[0]) if bad else None
    count = int((wrong if bad else differing).sum())
    return Comparison(not bad, int(wrong.size), count, float(distance.max(initial=0.0)), first)
