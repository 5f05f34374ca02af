"""Windows over the two spatial axes: how many fit, their taps, and the padding that a tile of them loses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trivet.core.access import Sliding, Span
from trivet.core.record import dataclass
from trivet.ir.op import Array, require

Pads2D = tuple[tuple[int, int], tuple[int, int]]
"""((top, bottom), (left, right))."""

NO_PADS: Pads2D = ((0, 0), (0, 0))


def window_count(size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> int:
    """How many windows fit: floor((size + before + after - extent) / stride) + 1, extent = (kernel-1)*dilation + 1."""
    return (size + pads[0] + pads[1] - (kernel - 1) * dilation - 1) // stride + 1


def check_window(name: str, stride: tuple[int, int], dilation: tuple[int, int], pads: Pads2D) -> None:
    """Raises: TypeMismatch."""
    require(min(stride) > 0 and min(dilation) > 0, f"{name} needs positive stride and dilation")
    require(all(p >= 0 for side in pads for p in side), f"{name} needs non-negative pads, got {pads}")


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows over axes 1 and 2 of an operand [N, H, W, C]."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Pads2D

    def counts(self, height: int, width: int) -> tuple[int, int]:
        rows, columns = (
            window_count(size, self.kernel[i], self.stride[i], self.dilation[i], self.pads[i])
            for i, size in enumerate((height, width))
        )
        return rows, columns

    def rules(self, height: int, width: int) -> tuple[Sliding, Sliding]:
        """The axis rules of rows and columns."""
        rows, columns = (
            Sliding(i + 1, size, self.kernel[i], self.stride[i], self.dilation[i], self.pads[i][0])
            for i, size in enumerate((height, width))
        )
        return rows, columns

    def taps(self, x: Array, padding: float) -> Iterator[Array]:
        """For each kernel position in storage order, the element under it in every window: [N, OH, OW, C] each."""
        rows, columns = self.counts(x.shape[1], x.shape[2])
        if self.pads != NO_PADS:
            x = np.pad(x, ((0, 0), *self.pads, (0, 0)), constant_values=padding)
        (sh, sw), (dh, dw) = self.stride, self.dilation
        for ky in range(self.kernel[0]):
            for kx in range(self.kernel[1]):
                top, left = ky * dh, kx * dw
                yield x[:, top : top + (rows - 1) * sh + 1 : sh, left : left + (columns - 1) * sw + 1 : sw]

    def valid_counts(self, height: int, width: int) -> Array:
        """How many taps of each window lie inside the operand: [1, OH, OW, 1]."""
        inside = np.ones((1, height, width, 1), np.int64)
        counts: Array = np.stack(list(self.taps(inside, 0))).sum(axis=0)
        return counts


def tile_window(rule: Sliding, out: Span) -> tuple[Span, tuple[int, int]]:
    """For the windows `out` alone: what they read of the operand, and the padding around it."""
    window, inside = rule.unclipped(out), rule.reads(out)
    before = min(max(inside.start - window.start, 0), window.size)
    return inside, (before, window.size - before - inside.size)


def tile_windows(rules: tuple[Sliding, Sliding], out: tuple[Span, Span]) -> tuple[tuple[Span, Span], Pads2D]:
    """`tile_window` for both axes."""
    (rows, row_pads), (columns, column_pads) = (tile_window(r, o) for r, o in zip(rules, out, strict=True))
    return (rows, columns), (row_pads, column_pads)
