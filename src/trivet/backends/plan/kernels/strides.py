"""Movements as nested loops: what the C kernels `move` and `move_rows` do inside one row or one tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trivet.core.record import dataclass
from trivet.ir.types import Shape

MAX_AXES = 8
"""Loops of a segment; the C kernels keep as many counters."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: how often, and the elements from one turn to the next in the operand and in the result."""

    extent: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Loops from a first element of the operand and of the result on, outermost first."""

    source: int
    target: int
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Loops:
    """Segments of equally many axes that move `run` neighbouring elements at a time, as few axes as possible."""

    run: int
    segments: tuple[Segment, ...]

    @property
    def axes(self) -> int:
        return len(self.segments[0].axes)

    def table(self, element_bytes: int) -> npt.NDArray[np.int32]:
        """[segments][2 + 3 axes]: first byte of operand and result; extent and bytes per turn of each axis."""
        rows = []
        for segment in self.segments:
            row = [segment.source * element_bytes, segment.target * element_bytes]
            for axis in segment.axes:
                row += [axis.extent, axis.source * element_bytes, axis.target * element_bytes]
            rows.append(row)
        return np.array(rows, "<i4")


def loops(segments: Sequence[Segment]) -> Loops | None:
    """The same movement in fewer and longer turns; None where more than MAX_AXES loops remain.

    At least one segment has elements.
    """
    kept = [s for s in segments if all(axis.extent > 0 for axis in s.axes)]
    columns = list(zip(*(s.axes for s in kept), strict=True))
    merged: list[tuple[Axis, ...]] = []
    for column in columns:
        if all(axis.extent == 1 for axis in column):
            continue
        if merged and all(_continues(outer, inner) for outer, inner in zip(merged[-1], column, strict=True)):
            merged[-1] = tuple(
                Axis(outer.extent * inner.extent, inner.source, inner.target)
                for outer, inner in zip(merged[-1], column, strict=True)
            )
        else:
            merged.append(column)
    run = 1
    if merged and len({axis.extent for axis in merged[-1]}) == 1 and all(a.source == a.target == 1 for a in merged[-1]):
        run = merged.pop()[0].extent
    if len(merged) > MAX_AXES:
        return None
    parts = [Segment(s.source, s.target, tuple(column[i] for column in merged)) for i, s in enumerate(kept)]
    return Loops(run, tuple(parts))


def _continues(outer: Axis, inner: Axis) -> bool:
    """True iff a turn of the outer loop goes on where the inner one ends."""
    return outer.source == inner.extent * inner.source and outer.target == inner.extent * inner.target


def strides(shape: Shape) -> tuple[int, ...]:
    """Elements from one index of an axis to the next."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
