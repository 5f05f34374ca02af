"""Axis rules: which indices of an operand axis an operator reads to make a span of an output axis.

A rule is monotone: as the output span moves forward, neither end of what it reads moves back. What cannot be said
monotonically is `Whole`, which is always sound. Rows, columns and channels use the same rules.
"""

from __future__ import annotations

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Indices start <= i < stop."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return max(0, self.stop - self.start)

    def clipped(self, size: int) -> Span:
        """The part inside [0, size); empty spans keep their place."""
        start = min(max(self.start, 0), size)
        return Span(start, max(start, min(max(self.stop, 0), size)))


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window: output index o reads taps o*stride - before + k*dilation, k in [0, kernel).

    `size` is the operand's extent. Pointwise access is a kernel of one. Where the dilation divides the stride all
    windows share one grid of taps, and what is read starts and ends on it; elsewhere only the clip is monotone.
    """

    out_axis: int
    size: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def extent(self) -> int:
        """Rows from the first to the last tap, inclusive."""
        return (self.kernel - 1) * self.dilation + 1

    def unclipped(self, out: Span) -> Span:
        """What the windows cover, padding included."""
        first = out.start * self.stride - self.before
        return Span(first, (out.stop - 1) * self.stride - self.before + self.extent)

    def reads(self, out: Span) -> Span:
        if out.size == 0:
            return Span(0, 0)
        if self.stride % self.dilation:
            return self.unclipped(out).clipped(self.size)
        return Span(self._first_tap_inside(out.start), self._last_tap_inside(out.stop - 1) + 1).clipped(self.size)

    def missing(self, out: Span) -> tuple[int, int]:
        """Indices of the windows that lie before and after the operand."""
        window = self.unclipped(out)
        return max(0, min(0, window.stop) - window.start), max(0, window.stop - max(self.size, window.start))

    def _first_tap_inside(self, out: int) -> int:
        first = out * self.stride - self.before
        return first if first >= 0 else first + -(first // self.dilation) * self.dilation

    def _last_tap_inside(self, out: int) -> int:
        last = out * self.stride - self.before + self.extent - 1
        excess = max(0, last - (self.size - 1))
        return last - -(-excess // self.dilation) * self.dilation


@dataclass(frozen=True, slots=True)
class Upsampled:
    """A rational view: output index o reads `taps` indices from floor((o*num + offset)/den) on, clamped to the operand.

    Nearest by f: num 1, den f, offset 0, taps 1. Bilinear by f with half pixels: num 2, den 2f, offset 1 - f, taps 2.
    """

    out_axis: int
    size: int
    num: int
    den: int
    offset: int
    taps: int

    def reads(self, out: Span) -> Span:
        if out.size == 0:
            return Span(0, 0)
        first = min(max((out.start * self.num + self.offset) // self.den, 0), self.size - 1)
        last = min(max(((out.stop - 1) * self.num + self.offset) // self.den + self.taps - 1, 0), self.size - 1)
        return Span(first, last + 1)

    def missing(self, out: Span) -> tuple[int, int]:
        return 0, 0


@dataclass(frozen=True, slots=True)
class Shifted:
    """Output index o reads operand index o - offset where that is inside (concat, pad, unit-stride slice)."""

    out_axis: int
    size: int
    offset: int

    def reads(self, out: Span) -> Span:
        return Span(out.start - self.offset, out.stop - self.offset).clipped(self.size)

    def missing(self, out: Span) -> tuple[int, int]:
        start, stop = out.start - self.offset, out.stop - self.offset
        return max(0, min(0, stop) - start), max(0, stop - max(self.size, start))


@dataclass(frozen=True, slots=True)
class Blocked:
    """Blocks of `num` operand indices become blocks of `den` output indices (depth/space to depth/space)."""

    out_axis: int
    size: int
    num: int
    den: int

    def reads(self, out: Span) -> Span:
        if out.size == 0:
            return Span(0, 0)
        return Span(out.start // self.den * self.num, -(-out.stop // self.den) * self.num).clipped(self.size)

    def missing(self, out: Span) -> tuple[int, int]:
        return 0, 0


@dataclass(frozen=True, slots=True)
class Prefix:
    """Output index o reads operand indices 0..o (cumulative operators)."""

    out_axis: int
    size: int

    def reads(self, out: Span) -> Span:
        return Span(0, out.stop).clipped(self.size)

    def missing(self, out: Span) -> tuple[int, int]:
        return 0, 0


@dataclass(frozen=True, slots=True)
class Broadcast:
    """An operand axis of extent one, read for every output index."""

    size: int = 1

    def reads(self, out: Span) -> Span:
        return Span(0, 1)

    def missing(self, out: Span) -> tuple[int, int]:
        return 0, 0


@dataclass(frozen=True, slots=True)
class Reduced:
    """An axis that the operator accumulates over, in any grouping: read once, index after index."""

    size: int

    def reads(self, out: Span) -> Span:
        return Span(0, self.size)

    def missing(self, out: Span) -> tuple[int, int]:
        return 0, 0


@dataclass(frozen=True, slots=True)
class Whole:
    """Any output index may read all of the axis."""

    size: int

    def reads(self, out: Span) -> Span:
        return Span(0, self.size)

    def missing(self, out: Span) -> tuple[int, int]:
        return 0, 0


AxisRule = Sliding | Upsampled | Shifted | Blocked | Prefix | Broadcast | Reduced | Whole
Access = tuple[AxisRule, ...]
"""One rule per axis of an operand."""


def pointwise(out_axis: int, size: int) -> Sliding:
    """Output index o reads operand index o."""
    return Sliding(out_axis, size)


def whole(shape: tuple[int, ...]) -> Access:
    """The rule that is always sound: every axis whole."""
    return tuple(Whole(size) for size in shape)
