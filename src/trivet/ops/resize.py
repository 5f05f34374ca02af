"""Resampling of the spatial axes, channels last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.access import Access, AxisRule, Span, Upsampled, Whole, pointwise
from trivet.core.bounds import UNBOUNDED
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, Op, Region, Tile, require
from trivet.ir.types import TensorType, Types
from trivet.ops.products import stored
from trivet.ops.quantized import QUANTIZED

Indices: TypeAlias = "npt.NDArray[np.int64]"


class Coordinates(Enum):
    """How an output index becomes an operand position (the names of ONNX's Resize).

    TensorFlow Lite's nearest neighbour with half-pixel centres is `TF_HALF_PIXEL_FOR_NN` with `FLOOR`; with aligned
    corners it is `ALIGN_CORNERS` with `ROUND_PREFER_CEIL`.
    """

    HALF_PIXEL = "half_pixel"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    TF_HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"


class NearestRounding(Enum):
    """Which neighbour a fractional position takes."""

    FLOOR = "floor"
    CEIL = "ceil"
    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"


def resized(name: str, types: Types, size: tuple[int, int]) -> TensorType:
    """Raises: TypeMismatch."""
    require(len(types) == 1 and types[0].rank == 4, f"{name} takes one operand [N, H, W, C]")
    require(min(size) > 0, f"{name} to {size}")
    n, _, _, c = types[0].shape
    return types[0].with_shape((n, *size, c))


def positions(size: int, new_size: int, coordinates: Coordinates, scale: float | None) -> npt.NDArray[np.float32]:
    """The operand position of every output index, as the reference runtimes compute it: [new_size].

    With `scale` (output per input) an index is divided by it and rounded to float32 once, as ONNX Runtime does, which
    takes half pixels by the float32 scale; without it the index is multiplied by the float32 ratio of the sizes, as
    TensorFlow Lite does.
    """
    index = np.arange(new_size, dtype=np.float32)
    half = np.float32(0 if coordinates in (Coordinates.ASYMMETRIC, Coordinates.ALIGN_CORNERS) else 0.5)
    if coordinates is Coordinates.ALIGN_CORNERS and new_size > 1:
        length, new_length = size - 1, new_size - 1
        scale = None if scale is None else new_length / max(length, 1)
    elif coordinates in (Coordinates.ALIGN_CORNERS, Coordinates.PYTORCH_HALF_PIXEL) and new_size == 1:
        return index
    else:
        length, new_length = size, new_size
    if scale is None:
        centres = (index + half) * (np.float32(length) / np.float32(new_length))
    else:
        divisor = np.float64(np.float32(scale) if half else scale)
        centres = ((index + half) / divisor).astype(np.float32)
    return centres if coordinates is Coordinates.TF_HALF_PIXEL_FOR_NN else centres - half


@dataclass(frozen=True, slots=True)
class Taps:
    """Along one axis, the operand indices that each output index reads, and the weight of `upper` (in `one`-ths)."""

    lower: Indices
    upper: Indices
    weight: Array

    def rule(self, axis: int, size: int) -> AxisRule:
        """The rational rule that covers exactly these taps, or Whole where rounding departs from it."""
        count, width = len(self.lower), int((self.upper - self.lower).max()) + 1
        for rule in _candidates(axis, size, count, width):
            spans = [rule.reads(Span(o, o + 1)) for o in range(count)]
            if all(s.start <= lo and hi < s.stop for s, lo, hi in zip(spans, self.lower, self.upper, strict=True)):
                return rule
        return Whole(size)

    def region(self, out: Span) -> Span:
        """The operand indices that the output indices `out` read."""
        return Span(int(self.lower[out.start : out.stop].min()), int(self.upper[out.start : out.stop].max()) + 1)

    def matches(self, part: Taps, out: Span, start: int) -> bool:
        """True iff `part`, counted from operand index `start`, are the taps of the output indices `out`."""
        own = slice(out.start, out.stop)
        return (
            np.array_equal(self.lower[own], part.lower + start)
            and np.array_equal(self.upper[own], part.upper + start)
            and np.array_equal(self.weight[own], part.weight)
        )


def _candidates(axis: int, size: int, count: int, width: int) -> Iterator[Upsampled]:
    """Rules o -> floor((o*length + offset) / new_length), the tightest first; in halves, so half pixels are exact.

    The lengths are the sizes, or one less where corners align; the offsets those of the coordinate modes, each rounded
    down, to the nearest (halves down or up), or up.
    """
    ratios = ((size, count), (size - 1, count - 1)) if min(size, count) > 1 else ((size, count),)
    for extra, slack in ((0, 0), (1, 0), (1, 1)):
        for length, new_length in ratios:
            common = math.gcd(2 * length, 2 * new_length)
            num, den = 2 * length // common, 2 * new_length // common
            for offset in (0, length - new_length, length):
                for rounding in (0, new_length - 1, new_length, 2 * new_length - 1):
                    first = (offset + rounding - slack) // common
                    yield Upsampled(axis, size, num, den, first, width + extra)


@dataclass(frozen=True, slots=True)
class ResizeNearest(Op):
    """The nearest element.

    x: [N, H, W, C] -> y: [N, *size, C]
    `scales` are output per input, float64 where they come from ONNX's sizes; None is TensorFlow Lite's arithmetic.
    """

    size: tuple[int, int]
    coordinates: Coordinates = Coordinates.ASYMMETRIC
    rounding: NearestRounding = NearestRounding.FLOOR
    scales: tuple[float, float] | None = None
    name: ClassVar[str] = "resize_nearest"

    def infer(self, types: Types) -> Types:
        return (resized("resize_nearest", types, self.size),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        rows, columns = self.taps(types[0])
        return (arrays[0][:, rows.lower][:, :, columns.lower],)

    def taps(self, x: TensorType) -> tuple[Taps, Taps]:
        """Which rows and columns are read."""
        rows, columns = (self._taps(x.shape[i + 1], i) for i in (0, 1))
        return rows, columns

    def _taps(self, size: int, i: int) -> Taps:
        scale = None if self.scales is None else self.scales[i]
        exact = positions(size, self.size[i], self.coordinates, scale).astype(np.float64)
        nearest = np.clip(_ROUNDINGS[self.rounding](exact), 0, size - 1).astype(np.int64)
        return Taps(nearest, nearest, np.zeros(self.size[i], np.int64))

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals

    def access(self, types: Types) -> tuple[Access, ...]:
        return (_access(types[0], self.taps(types[0])),)

    def tile(self, types: Types, out: Region) -> Tile | None:
        return _tile(self, types[0], out)


@dataclass(frozen=True, slots=True)
class ResizeBilinear(Op):
    """Weighted mean of the four neighbours; the quantization stays.

    x: [N, H, W, C] -> y: [N, *size, C]
    `scales` are output per input, float64 where they come from ONNX's sizes; None is TensorFlow Lite's arithmetic.
    """

    size: tuple[int, int]
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    scales: tuple[float, float] | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "resize_bilinear"

    def infer(self, types: Types) -> Types:
        y = resized("resize_bilinear", types, self.size)
        require((self.numerics is not None) == (y.dtype in QUANTIZED), "resize_bilinear takes `numerics` iff quantized")
        if self.in_fixed_point:
            known = (Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS, Coordinates.ASYMMETRIC)
            require(self.coordinates in known, f"resize_bilinear has no integer form with {self.coordinates.value}")
            require(self.scales is None, "resize_bilinear in TensorFlow Lite's integers takes no scales")
        return (y,)

    @property
    def in_fixed_point(self) -> bool:
        """True iff TensorFlow Lite's integer kernel is meant, which weighs in 1/1024."""
        return self.numerics in (Numerics.TFLM, Numerics.LITERT)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = types
        if self.in_fixed_point:
            return (self._in_fixed_point(arrays[0], x),)
        values = arrays[0].astype(np.float32)
        if self.numerics is Numerics.LITERT_U8:
            mean = self._weighted(values - np.float32(x.dtype.min), x, np.float32(1))
            return (stored(np.floor(mean + np.float32(0.5)), x.dtype.min, x.dtype, UNBOUNDED),)
        if self.numerics is Numerics.ONNX:
            assert x.quant is not None
            mean = self._weighted(values - np.float32(x.quant.zero_point), x, np.float32(1))
            return (stored(np.rint(mean), x.quant.zero_point, x.dtype, UNBOUNDED),)
        return (self._weighted(values, x, np.float32(1)),)

    def _in_fixed_point(self, array: Array, x: TensorType) -> Array:
        """Weights in 1/1024, products rounded half away from zero."""
        sums = self._weighted(array.astype(np.int64), x, np.int64(_ONE))
        means = np.sign(sums) * ((np.abs(sums) + (1 << 19)) >> 20)
        return stored(means, 0, x.dtype, UNBOUNDED)

    def _weighted(self, array: Array, x: TensorType, one: np.float32 | np.int64) -> Array:
        """The four neighbours' products in TensorFlow Lite's order (left to right, row neighbour first)."""
        rows, columns = self.taps(x)
        down, right = rows.weight[:, None, None], columns.weight[:, None]
        upper, lower = array[:, rows.lower], array[:, rows.upper]
        total: Array = upper[:, :, columns.lower] * (one - down) * (one - right)
        total += lower[:, :, columns.lower] * down * (one - right)
        total += upper[:, :, columns.upper] * (one - down) * right
        total += lower[:, :, columns.upper] * down * right
        return total

    def taps(self, x: TensorType) -> tuple[Taps, Taps]:
        """Rows and columns that are read; weights in float32, or in 1/1024 under TensorFlow Lite's int8 contracts."""
        rows, columns = (self._taps(x.shape[i + 1], i) for i in (0, 1))
        return rows, columns

    def _taps(self, size: int, i: int) -> Taps:
        if self.in_fixed_point:
            return _fixed_point_taps(size, self.size[i], self.coordinates)
        position = positions(size, self.size[i], self.coordinates, None if self.scales is None else self.scales[i])
        lower = np.clip(np.floor(position), 0, size - 1).astype(np.int64)
        upper = np.clip(np.ceil(position), 0, size - 1).astype(np.int64)
        return Taps(lower, upper, position - lower.astype(np.float32))

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals

    def access(self, types: Types) -> tuple[Access, ...]:
        return (_access(types[0], self.taps(types[0])),)

    def tile(self, types: Types, out: Region) -> Tile | None:
        return _tile(self, types[0], out)


_ONE = 1 << 10
"""Weight one of TensorFlow Lite's integer bilinear kernel."""

_ROUNDINGS: dict[NearestRounding, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    NearestRounding.FLOOR: np.floor,
    NearestRounding.CEIL: np.ceil,
    NearestRounding.ROUND_PREFER_FLOOR: lambda position: np.ceil(position - 0.5),
    NearestRounding.ROUND_PREFER_CEIL: lambda position: np.floor(position + 0.5),
}


def _fixed_point_taps(size: int, new_size: int, coordinates: Coordinates) -> Taps:
    """Taps with positions in 1/1024; at the border a weight may be negative, where both taps are one element."""
    if coordinates is Coordinates.ALIGN_CORNERS and new_size > 1:
        step = (_ONE * (size - 1) + (new_size - 1) // 2) // (new_size - 1)
    else:
        step = (_ONE * size + new_size // 2) // new_size
    position = np.arange(new_size, dtype=np.int64) * step
    if coordinates is Coordinates.HALF_PIXEL:
        position += step // 2 - _ONE // 2
    lower = np.maximum(_truncated(position), 0)
    return Taps(lower, np.minimum(_truncated(position + _ONE - 1), size - 1), position - _ONE * lower)


def _truncated(position: Indices) -> Indices:
    """position / 1024 toward zero."""
    quotient: Indices = np.sign(position) * (np.abs(position) // _ONE)
    return quotient


def _access(x: TensorType, taps: tuple[Taps, Taps]) -> Access:
    rows, columns = (taps[i].rule(i + 1, x.shape[i + 1]) for i in (0, 1))
    return pointwise(0, x.shape[0]), rows, columns, pointwise(3, x.shape[3])


def _tile(op: ResizeNearest | ResizeBilinear, x: TensorType, out: Region) -> Tile | None:
    """The same resize of the part that `out` reads, where its positions repeat there; None otherwise."""
    whole = op.taps(x)
    spans = [taps.region(span) for taps, span in zip(whole, out[1:3], strict=True)]
    scales = op.scales or (op.size[0] / x.shape[1], op.size[1] / x.shape[2])
    integer = isinstance(op, ResizeBilinear) and op.in_fixed_point
    part = replace(op, size=(out[1].size, out[2].size), scales=None if integer else scales)
    taps = part.taps(x.with_shape((x.shape[0], spans[0].size, spans[1].size, x.shape[3])))
    if not all(w.matches(p, o, s.start) for w, p, o, s in zip(whole, taps, out[1:3], spans, strict=True)):
        return None
    return Tile(part, ((out[0], *spans, out[3]),))
