"""Windowed pools over the spatial axes, channels last."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, Reduced, pointwise
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, Op, Region, Tile, require
from trivet.ir.types import TensorType, Types
from trivet.ops.products import clamp_limits, clamped_range, clipped_f32, rescaled, stored
from trivet.ops.quantized import check_numerics, result
from trivet.ops.windows import NO_PADS, Pads2D, Windows, check_window, tile_windows


@dataclass(frozen=True, slots=True)
class MaxPool2D(Op):
    """Maximum over a window; padding never wins, and the quantization stays.

    x: [N, H, W, C] -> y: [N, window_count(H), window_count(W), C]
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    clamp: Bounds = UNBOUNDED
    name: ClassVar[str] = "max_pool2d"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].rank == 4, "max_pool2d takes one operand [N, H, W, C]")
        (x,) = types
        check_window("max_pool2d", self.stride, self.dilation, self.pads)
        extents = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        require(
            all(max(p) < e for p, e in zip(self.pads, extents, strict=True)),
            f"max_pool2d pads {self.pads} reach a window of padding alone",
        )
        rows, columns = self._windows().counts(*x.shape[1:3])
        require(rows > 0 and columns > 0, f"max_pool2d window {self.kernel} does not fit {x}")
        return (x.with_shape((x.shape[0], rows, columns, x.shape[3])),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        lowest = -np.inf if types[0].dtype.is_float else types[0].dtype.min
        highest: Array | None = None
        for tap in self._windows().taps(x, lowest):
            highest = tap.copy() if highest is None else np.maximum(highest, tap, out=highest)
        assert highest is not None
        if types[0].dtype.is_float:
            return (clipped_f32(highest, self.clamp),)
        return (stored(highest, 0, types[0].dtype, self.clamp),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return (_clamped(intervals[0], types[0], self.clamp),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (_access(self._windows(), types[0]),)

    def tile(self, types: Types, out: Region) -> Tile | None:
        spans, pads = tile_windows(self._windows().rules(*types[0].shape[1:3]), (out[1], out[2]))
        return Tile(replace(self, pads=pads), ((out[0], *spans, out[3]),))

    def _windows(self) -> Windows:
        return Windows(self.kernel, self.stride, self.dilation, self.pads)


@dataclass(frozen=True, slots=True)
class AveragePool2D(Op):
    """Mean over a window: of the valid elements, or of all with padding as zero (`count_include_pad`).

    x: [N, H, W, C] -> y: [N, window_count(H), window_count(W), C]
    TFLite's integer pools average the stored values and keep the quantization; `out` then equals the operand's. ONNX's
    requantize the exact mean of the real values.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    count_include_pad: bool = False
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "average_pool2d"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].rank == 4, "average_pool2d takes one operand [N, H, W, C]")
        (x,) = types
        check_numerics("average_pool2d", x, self.out, self.numerics)
        check_window("average_pool2d", self.stride, (1, 1), self.pads)
        require(
            all(max(p) < k for p, k in zip(self.pads, self.kernel, strict=True)),
            f"average_pool2d pads {self.pads} reach a window of padding alone",
        )
        rows, columns = self._windows().counts(*x.shape[1:3])
        require(rows > 0 and columns > 0, f"average_pool2d window {self.kernel} does not fit {x}")
        return (result(x, (x.shape[0], rows, columns, x.shape[3]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = types
        windows = self._windows()
        if self.count_include_pad:
            counts: Array = np.full((1, 1, 1, 1), self.kernel[0] * self.kernel[1], np.int64)
        else:
            counts = windows.valid_counts(*x.shape[1:3])
        if self.out is None or self.numerics is None:
            return (clipped_f32(self._sums(arrays[0].astype(np.float64)) / counts, self.clamp),)
        assert x.quant is not None
        acc = self._sums(arrays[0].astype(np.int64) - x.quant.zero_point)
        if self.numerics is Numerics.ONNX:
            means = rescaled(acc / counts, x.quant.scale / self.out.scale, self.numerics)
            return (stored(means, self.out.zero_point, x.dtype, self.clamp),)
        offset = -x.dtype.min if self.numerics is Numerics.LITERT_U8 else 0
        raw = acc + (x.quant.zero_point + offset) * counts
        return (stored(_rounded_mean(raw, counts), -offset, x.dtype, self.clamp),)

    def _sums(self, x: Array) -> Array:
        """Over every window, padding as zero: [N, OH, OW, C]."""
        sums: Array | None = None
        for tap in self._windows().taps(x, 0):
            sums = tap.copy() if sums is None else np.add(sums, tap, out=sums)
        assert sums is not None
        return sums

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        (x,) = types
        if self.numerics is Numerics.ONNX or x.quant is None:
            return clamped_range(self.infer(types)[0], self.clamp)
        reached = [intervals[0]]
        if self.count_include_pad:
            reached.append(Interval(x.quant.zero_point, x.quant.zero_point))
        return (_clamped(Interval.hull(reached), x, self.clamp),)

    def access(self, types: Types) -> tuple[Access, ...]:
        x = types[0]
        if self.is_global(x):
            _, height, width, channels = x.shape
            return ((pointwise(0, x.shape[0]), Reduced(height), Reduced(width), pointwise(3, channels)),)
        return (_access(self._windows(), x),)

    def is_global(self, x: TensorType) -> bool:
        """True iff the one window is the whole map: then it may be summed up in any grouping."""
        return self.kernel == x.shape[1:3] and self.pads == NO_PADS

    def tile(self, types: Types, out: Region) -> Tile | None:
        spans, pads = tile_windows(self._windows().rules(*types[0].shape[1:3]), (out[1], out[2]))
        return Tile(replace(self, pads=pads), ((out[0], *spans, out[3]),))

    def _windows(self) -> Windows:
        return Windows(self.kernel, self.stride, (1, 1), self.pads)


def _rounded_mean(sums: Array, counts: Array) -> Array:
    """sums / counts, halves away from zero: (|s| + n/2) / n with the sign of s, both divisions truncated."""
    means: Array = np.sign(sums) * ((np.abs(sums) + counts // 2) // counts)
    return means


def _access(windows: Windows, x: TensorType) -> Access:
    rows, columns = windows.rules(*x.shape[1:3])
    return pointwise(0, x.shape[0]), rows, columns, pointwise(3, x.shape[3])


def _clamped(interval: Interval, x: TensorType, clamp: Bounds) -> Interval:
    if x.dtype.is_float:
        return interval
    limits = clamp_limits(x.dtype, clamp)
    return interval.clamp(limits.lo, limits.hi)
