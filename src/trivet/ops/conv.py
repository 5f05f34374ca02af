"""Convolutions: channels last, weights as stored by the kernels.

Integer sums are exact; float sums are made in float64 and rounded once, so they equal a reference kernel only within
its own rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, AxisRule, Blocked, Reduced, Span, Upsampled, Whole, pointwise
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, Op, Region, Tile, require, whole_region
from trivet.ir.types import TensorType, Types
from trivet.ops.products import (
    Reals,
    centered,
    clamped_range,
    convolution_scales,
    magnitude,
    matmul,
    products_to_output,
)
from trivet.ops.quantized import check_bias, check_numerics, check_weight, result
from trivet.ops.windows import NO_PADS as NO_PADS
from trivet.ops.windows import Pads2D as Pads2D
from trivet.ops.windows import Windows, tile_windows
from trivet.ops.windows import check_window as check_window
from trivet.ops.windows import window_count as window_count


@dataclass(frozen=True, slots=True)
class Conv2D(Op):
    """Sum of products over a window and the channels of a group; padding counts as the zero point.

    x: [N, H, W, C], w: [O, KH, KW, C/groups], bias: [O] (optional)
    -> y: [N, window_count(H), window_count(W), O]
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    groups: int = 1
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "conv2d"

    def infer(self, types: Types) -> Types:
        _check_filters("conv2d", types, self.groups)
        x, w = types[:2]
        check_numerics("conv2d", x, self.out, self.numerics)
        check_window("conv2d", self.stride, self.dilation, self.pads)
        rows, columns = self._windows(w).counts(*x.shape[1:3])
        require(rows > 0 and columns > 0, "conv2d window {} does not fit {} with pads {}", w.shape[1:3], x, self.pads)
        return (result(x, (x.shape[0], rows, columns, w.shape[0]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w = (centered(a, t) for a, t in zip(arrays[:2], types[:2], strict=True))
        acc = window_sums(self._windows(types[1]), x, w, self.groups)
        return (products_to_output(self, acc, arrays, types),)

    def scales(self, types: Types) -> Reals:
        """sx * sw / sy per output channel, rounded as the contract does: [O]."""
        return _scales(types, self.out, types[1].shape[0], self.numerics)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return clamped_range(self.infer(types)[0], self.clamp)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, w = types[:2]
        rows, columns = self._windows(w).rules(*x.shape[1:3])
        return _filter_access(types, (rows, columns), self.groups)

    def tile(self, types: Types, out: Region) -> Tile | None:
        x, w = types[:2]
        group = _tile_groups(out[3], self.groups, w)
        if group is None:
            return None
        groups, channels = group
        spans, pads = tile_windows(self._windows(w).rules(*x.shape[1:3]), (out[1], out[2]))
        return Tile(replace(self, pads=pads, groups=groups), _filter_regions(types, out, (*spans, channels)))

    def macs(self, types: Types) -> int:
        w = types[1]
        return self.infer(types)[0].elements * w.elements // w.shape[0]

    def _windows(self, w: TensorType) -> Windows:
        return Windows((w.shape[1], w.shape[2]), self.stride, self.dilation, self.pads)


@dataclass(frozen=True, slots=True)
class DepthwiseConv2D(Op):
    """One filter per channel, `multiplier` outputs each; output channel o reads input channel o // multiplier.

    x: [N, H, W, C], w: [KH, KW, C*multiplier], bias: [C*multiplier] (optional)
    -> y: [N, window_count(H), window_count(W), C*multiplier]
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "depthwise_conv2d"

    def infer(self, types: Types) -> Types:
        require(len(types) in (2, 3), "depthwise_conv2d takes 2 or 3 operands, got {}", len(types))
        x, w = types[:2]
        check_numerics("depthwise_conv2d", x, self.out, self.numerics)
        check_window("depthwise_conv2d", self.stride, self.dilation, self.pads)
        require(
            x.rank == 4 and w.rank == 3, "depthwise_conv2d takes [N, H, W, C] and [KH, KW, C*m], got {} and {}", x, w
        )
        require(
            w.shape[2] % x.shape[3] == 0, "depthwise_conv2d weights {} do not divide over {} channels", w, x.shape[3]
        )
        check_weight("depthwise_conv2d", x, w)
        if len(types) == 3:
            check_bias("depthwise_conv2d", x, types[2], w.shape[2])
        rows, columns = self._windows(w).counts(*x.shape[1:3])
        require(rows > 0 and columns > 0, "depthwise_conv2d window {} does not fit {}", w.shape[:2], x)
        return (result(x, (x.shape[0], rows, columns, w.shape[2]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w = (centered(a, t) for a, t in zip(arrays[:2], types[:2], strict=True))
        multiplier = types[1].shape[2] // types[0].shape[3]
        filters = w.reshape(-1, w.shape[2])
        if x.dtype.kind == "i" and len(filters) * magnitude(x) * magnitude(w) >= 1 << 31:
            x = x.astype(np.int64)
        if multiplier > 1:
            x = np.repeat(x, multiplier, axis=3)
        acc: Array = np.zeros(self.infer(types)[0].shape, x.dtype)
        for tap, filter_ in zip(self._windows(types[1]).taps(x, 0), filters, strict=True):
            acc += tap * filter_
        if acc.dtype.kind == "i":
            acc = acc.astype(np.int64)
        return (products_to_output(self, acc, arrays, types),)

    def scales(self, types: Types) -> Reals:
        """sx * sw / sy per output channel, rounded as the contract does: [C*multiplier]."""
        return _scales(types, self.out, types[1].shape[2], self.numerics)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return clamped_range(self.infer(types)[0], self.clamp)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, w = types[:2]
        rows, columns = self._windows(w).rules(*x.shape[1:3])
        channels = Blocked(3, x.shape[3], 1, w.shape[2] // x.shape[3])
        operand: Access = (pointwise(0, x.shape[0]), rows, columns, channels)
        filters: Access = (Whole(w.shape[0]), Whole(w.shape[1]), pointwise(3, w.shape[2]))
        return (operand, filters, (pointwise(3, w.shape[2]),))[: len(types)]

    def tile(self, types: Types, out: Region) -> Tile | None:
        x, w = types[:2]
        multiplier = w.shape[2] // x.shape[3]
        if out[3].start % multiplier or out[3].stop % multiplier:
            return None
        spans, pads = tile_windows(self._windows(w).rules(*x.shape[1:3]), (out[1], out[2]))
        channels = Span(out[3].start // multiplier, out[3].stop // multiplier)
        filters = (*whole_region(w.shape[:2]), out[3])
        regions: tuple[Region, ...] = ((out[0], *spans, channels), filters, (out[3],))
        return Tile(replace(self, pads=pads), regions[: len(types)])

    def macs(self, types: Types) -> int:
        w = types[1]
        return self.infer(types)[0].elements * w.shape[0] * w.shape[1]

    def _windows(self, w: TensorType) -> Windows:
        return Windows((w.shape[0], w.shape[1]), self.stride, self.dilation, self.pads)


@dataclass(frozen=True, slots=True)
class ConvTranspose2D(Op):
    """The transpose of a convolution: every input pixel adds its filter into the output, then `pads` are cut off.

    x: [N, H, W, C], w: [O, KH, KW, C/groups], bias: [O] (optional)
    -> y: [N, (H-1)*sh + (KH-1)*dh + 1 - top - bottom + output_pads[0], ..., O]
    Output channel o belongs to group o // (O/groups). Rows and columns of `output_pads` that no pixel reaches hold the
    bias alone.
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    output_pads: tuple[int, int] = (0, 0)
    groups: int = 1
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "conv_transpose2d"

    def infer(self, types: Types) -> Types:
        _check_filters("conv_transpose2d", types, self.groups)
        x, w = types[:2]
        check_numerics("conv_transpose2d", x, self.out, self.numerics)
        check_window("conv_transpose2d", self.stride, self.dilation, self.pads)
        require(min(self.output_pads) >= 0, f"conv_transpose2d needs non-negative output pads, got {self.output_pads}")
        rows, columns = (
            self._spread(x, w, i) - sum(pads) + extra
            for i, (pads, extra) in enumerate(zip(self.pads, self.output_pads, strict=True))
        )
        require(rows > 0 and columns > 0, f"conv_transpose2d pads {self.pads} leave nothing of {x}")
        return (result(x, (x.shape[0], rows, columns, w.shape[0]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w = (centered(a, t) for a, t in zip(arrays[:2], types[:2], strict=True))
        n, rows, columns, channels = self.infer(types)[0].shape
        (top, _), (left, _) = self.pads
        height, width = (
            max(self._spread(types[0], types[1], i), before + size)
            for i, (before, size) in enumerate(((top, rows), (left, columns)))
        )
        acc: Array = np.zeros((n, height, width, channels), np.int64 if x.dtype.kind == "i" else np.float64)
        for ky in range(w.shape[1]):
            for kx in range(w.shape[2]):
                y0, x0 = ky * self.dilation[0], kx * self.dilation[1]
                reached = acc[:, y0 :: self.stride[0], x0 :: self.stride[1]][:, : x.shape[1], : x.shape[2]]
                reached += self._tap_products(x, w[:, ky, kx])
        acc = acc[:, top : top + rows, left : left + columns]
        return (products_to_output(self, acc, arrays, types),)

    def scales(self, types: Types) -> Reals:
        """sx * sw / sy per output channel, rounded as the contract does: [O]."""
        return _scales(types, self.out, types[1].shape[0], self.numerics)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return clamped_range(self.infer(types)[0], self.clamp)

    def access(self, types: Types) -> tuple[Access, ...]:
        return _filter_access(types, (self._rule(types, 0), self._rule(types, 1)), self.groups)

    def tile(self, types: Types, out: Region) -> Tile | None:
        x, w = types[:2]
        group = _tile_groups(out[3], self.groups, w)
        if group is None:
            return None
        groups, channels = group
        spans = [self._rule(types, i).reads(out[i + 1]) for i in (0, 1)]
        part = x.with_shape((x.shape[0], spans[0].size, spans[1].size, x.shape[3]))
        pads, extra = [], []
        for i, (span, target) in enumerate(zip(spans, out[1:3], strict=True)):
            before = target.start + self.pads[i][0] - span.start * self.stride[i]
            excess = self._spread(part, w, i) - before - target.size
            pads.append((before, max(excess, 0)))
            extra.append(max(-excess, 0))
        op = replace(self, pads=(pads[0], pads[1]), output_pads=(extra[0], extra[1]), groups=groups)
        return Tile(op, _filter_regions(types, out, (spans[0], spans[1], channels)))

    def macs(self, types: Types) -> int:
        x, w = types[:2]
        return x.elements * w.elements // (w.shape[3] * self.groups)

    def _spread(self, x: TensorType, w: TensorType, i: int) -> int:
        """Extent along spatial axis `i` of everything that the operand's pixels reach."""
        return (x.shape[i + 1] - 1) * self.stride[i] + (w.shape[i + 1] - 1) * self.dilation[i] + 1

    def _rule(self, types: Types, i: int) -> Upsampled:
        """Output o reads the operand indices j with 0 <= o + before - j*stride <= reach = (kernel-1)*dilation.

        A stride longer than the reach leaves outputs that no pixel reaches; they read the pixel before them.
        """
        x, w = types[:2]
        stride, reach = self.stride[i], (w.shape[i + 1] - 1) * self.dilation[i]
        offset = self.pads[i][0] - max(reach - stride + 1, 0)
        return Upsampled(i + 1, x.shape[i + 1], 1, stride, offset, reach // stride + 1)

    def _tap_products(self, x: Array, w: Array) -> Array:
        """The products of every pixel with one filter tap: [N, H, W, C], [O, C/groups] -> [N, H, W, O]."""
        pixels = np.split(x.reshape(-1, x.shape[3]), self.groups, axis=1)
        filters = np.split(w, self.groups, axis=0)
        products = [matmul(p, f.T) for p, f in zip(pixels, filters, strict=True)]
        return np.concatenate(products, axis=1).reshape(*x.shape[:3], len(w))


def window_sums(windows: Windows, x: Array, w: Array, groups: int) -> Array:
    """Sums over every window, padding counting as 0: [N, H, W, C], [O, KH, KW, C/groups] -> [N, OH, OW, O]."""
    taps = list(windows.taps(x, 0))
    pixels = taps[0][..., None, :] if len(taps) == 1 else np.stack(taps, axis=3)
    sums = [
        matmul(columns.reshape(-1, filters[0].size), filters.reshape(len(filters), -1).T)
        for columns, filters in zip(np.split(pixels, groups, axis=4), np.split(w, groups, axis=0), strict=True)
    ]
    return np.concatenate(sums, axis=1).reshape(*pixels.shape[:3], w.shape[0])


def _check_filters(name: str, types: Types, groups: int) -> None:
    """Raises: TypeMismatch."""
    require(len(types) in (2, 3), f"{name} takes 2 or 3 operands, got {len(types)}")
    x, w = types[:2]
    require(x.rank == 4 and w.rank == 4, f"{name} takes [N, H, W, C] and [O, KH, KW, C/groups], got {x} and {w}")
    require(
        groups > 0 and w.shape[3] * groups == x.shape[3] and w.shape[0] % groups == 0,
        f"{name} with {groups} groups does not take {x.shape[3]} channels with weights {w}",
    )
    check_weight(name, x, w)
    if len(types) == 3:
        check_bias(name, x, types[2], w.shape[0])


def _scales(types: Types, out: Quant | None, channels: int, numerics: Numerics | None) -> Reals:
    x, w = types[0].quant, types[1].quant
    assert x is not None and w is not None and out is not None and numerics is not None, (
        "a float operator has no scales"
    )
    return convolution_scales(x, w, out, channels, numerics)


def _filter_access(types: Types, spatial: tuple[AxisRule, AxisRule], groups: int) -> tuple[Access, ...]:
    """Rules of (x, w[, bias]) for weights [O, KH, KW, C/groups]."""
    x, w = types[:2]
    channels: AxisRule = (
        Reduced(x.shape[3]) if groups == 1 else Blocked(3, x.shape[3], w.shape[3], w.shape[0] // groups)
    )
    operand: Access = (pointwise(0, x.shape[0]), *spatial, channels)
    filters: Access = (pointwise(3, w.shape[0]), Whole(w.shape[1]), Whole(w.shape[2]), Reduced(w.shape[3]))
    return (operand, filters, (pointwise(3, w.shape[0]),))[: len(types)]


def _filter_regions(types: Types, out: Region, spans: tuple[Span, Span, Span]) -> tuple[Region, ...]:
    """Regions of (x, w[, bias]) for the output region `out` and the operand's rows, columns and channels."""
    filters = (out[3], *whole_region(types[1].shape[1:]))
    regions: tuple[Region, ...] = ((out[0], *spans), filters, (out[3],))
    return regions[: len(types)]


def _tile_groups(channels: Span, groups: int, w: TensorType) -> tuple[int, Span] | None:
    """Groups and input channels of a part of the output channels: whole groups or part of one, else None."""
    outputs, inputs = w.shape[0] // groups, w.shape[3]
    first, last = channels.start // outputs, (channels.stop - 1) // outputs
    aligned = channels.start % outputs == 0 and channels.stop % outputs == 0
    if first != last and not aligned:
        return None
    return last - first + 1, Span(first * inputs, (last + 1) * inputs)
