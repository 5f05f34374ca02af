"""Windows over the pixels of an image: where each begins, and which of its taps lie inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.ir import Relation, Value, Var
from trivet.backends.gpu.recipe import Words
from trivet.core.record import dataclass
from trivet.ir.types import Shape
from trivet.ops.windows import NO_PADS, Pads2D


@dataclass(frozen=True, slots=True)
class Image:
    """Windows of `kernel` taps over an image [N, H, W, C]; a pixel of the result is a number in N * OH * OW.

    The machine cannot divide, so where a pixel's window begins stands in tables: without padding the first word of its
    first tap; with padding its row, its column and its image.
    """

    shape: Shape
    counts: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Pads2D

    @property
    def is_padded(self) -> bool:
        return self.pads != NO_PADS

    @property
    def pixels(self) -> int:
        return self.shape[0] * self.counts[0] * self.counts[1]

    @property
    def is_pointwise(self) -> bool:
        """True iff the window of a pixel is that pixel."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not self.is_padded

    def tables(self) -> tuple[Words, ...]:
        """Starts by pixel, flat."""
        if self.is_pointwise:
            return ()
        images, height, width, channels = self.shape
        n, rows, columns = np.indices((images, *self.counts))
        tops = (rows * self.stride[0] - self.pads[0][0]).ravel()
        lefts = (columns * self.stride[1] - self.pads[1][0]).ravel()
        first = n.ravel() * height
        if not self.is_padded:
            return (((first + tops) * width + lefts) * channels,)
        return (tops, lefts, first) if images > 1 else (tops, lefts)

    @contextlib.contextmanager
    def taps(self, out: Builder, pixel: Value, tables: tuple[int, ...]) -> Iterator[tuple[Value, Value]]:
        """For each tap inside the image: its number, and the first word of its pixel, from the image's start."""
        channels, width = self.shape[3], self.shape[2]
        if self.is_pointwise:
            yield 0, out.mul(pixel, channels)
            return
        with contextlib.ExitStack() as stack:
            starts = [out.load(out.add(pixel, table), "start") for table in tables]
            y = self._along(out, stack, 0, starts)
            x = self._along(out, stack, 1, starts)
            tap = out.add(out.mul(y.tap, self.kernel[1]), x.tap)
            if not self.is_padded:
                inside = out.mul(out.add(out.mul(y.place, width), x.place), channels)
                yield tap, out.add(starts[0], inside)
                return
            row = out.add(starts[2], y.place) if len(starts) > 2 else y.place
            yield tap, out.mul(out.add(out.mul(row, width), x.place), channels)

    def _along(self, out: Builder, stack: contextlib.ExitStack, axis: int, starts: list[Var]) -> _Tap:
        tap = stack.enter_context(out.loop(self.kernel[axis], "yx"[axis]))
        place: Value = out.mul(tap, self.dilation[axis])
        if self.is_padded:
            place = out.add(starts[axis], place)
            stack.enter_context(out.when(place, Relation.GE, 0))
            stack.enter_context(out.when(place, Relation.LT, self.shape[1 + axis]))
        return _Tap(tap, place)


@dataclass(frozen=True, slots=True)
class _Tap:
    """The number of a tap along an axis, and where it lies: in the image if that is padded, else in the window."""

    tap: Value
    place: Value
