"""A memory that holds, for every byte, who wrote it last."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from trivet.core.record import dataclass

NOBODY, CALLER, WORK, COUNTERS, CONSTANTS = -1, -2, -3, -4, -5
"""Writers that are no steps: nobody yet, the caller or an initial state, a kernel's work space, a stream's counters,
constants that are copied or decoded."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Row `row` of image `image` of what step `writer` made; work space and counters carry their owner as the row."""

    writer: int
    image: int = 0
    row: int = 0


class Memory:
    """Marks of a region, as runs of equal ones."""

    def __init__(self) -> None:
        self._starts = [0]
        self._marks = [Mark(NOBODY)]
        self.end = 0
        """One past the highest byte ever written."""

    def write(self, span: range, mark: Mark) -> None:
        if len(span) == 0:
            return
        self.end = max(self.end, span.stop)
        first, last = self._cut(span.start), self._cut(span.stop)
        self._starts[first:last], self._marks[first:last] = [span.start], [mark]

    def read(self, span: range) -> Iterator[Mark]:
        """The marks of some bytes, in order of address."""
        index = bisect_right(self._starts, span.start) - 1
        while index < len(self._starts) and self._starts[index] < span.stop:
            yield self._marks[index]
            index += 1

    def _cut(self, at: int) -> int:
        """The index of the run that starts at `at`, which is made if need be."""
        index = bisect_right(self._starts, at) - 1
        if self._starts[index] == at:
            return index
        self._starts.insert(index + 1, at)
        self._marks.insert(index + 1, self._marks[index])
        return index + 1
