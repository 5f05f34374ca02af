"""Quantization whose parameters are computed from the data when the network runs, and the integer sums behind it."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, pointwise, whole
from trivet.core.dtype import F32, I8, I32, U8, DType
from trivet.core.fixedpoint import round_half_away, wrap32
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, Region, Tile, require
from trivet.ir.types import TensorType, Types
from trivet.ops.conv import Conv2D, window_sums
from trivet.ops.stored import saturated
from trivet.ops.windows import NO_PADS, Pads2D, Windows, check_window


class DynamicRange(Enum):
    """How the range of the data becomes a scale and a zero point.

    AFFINE: ONNX's uint8. SYMMETRIC, ASYMMETRIC: LiteRT's int8 (a range of nothing has the scale 1 in all of them).
    """

    AFFINE = "affine"
    SYMMETRIC = "symmetric"
    ASYMMETRIC = "asymmetric"


@dataclass(frozen=True, slots=True)
class DynamicQuantize(Op):
    """Stored integers with the scale and the zero point that suit the data.

    x: f32 [...] -> stored: u8 (AFFINE) or i8 [...], scale: f32, zero point: i32
    Each index of the first `kept` axes has parameters of its own: scale and zero point have these axes, and 1 for every
    other one; without any they are [].
    """

    range: DynamicRange = DynamicRange.AFFINE
    kept: int = 0
    name: ClassVar[str] = "dynamic_quantize"

    @property
    def dtype(self) -> DType:
        return U8 if self.range is DynamicRange.AFFINE else I8

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is F32, "dynamic_quantize takes one f32 operand")
        (x,) = types
        require(0 <= self.kept < max(x.rank, 1), f"dynamic_quantize cannot keep {self.kept} axes of {x}")
        require(x.elements > 0, f"dynamic_quantize of nothing, {x}")
        shape = (*x.shape[: self.kept], *(1 for _ in x.shape[self.kept :])) if self.kept else ()
        return TensorType(self.dtype, x.shape), TensorType(F32, shape), TensorType(I32, shape)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (_, scale, _) = types, self.infer(types)
        rows = arrays[0].reshape(scale.elements, -1)
        with np.errstate(all="ignore"):
            match self.range:
                case DynamicRange.AFFINE:
                    stored, scales, zeros = _affine(rows)
                case DynamicRange.SYMMETRIC:
                    stored, scales, zeros = _symmetric(rows)
                case DynamicRange.ASYMMETRIC:
                    stored, scales, zeros = _asymmetric(rows)
        return (
            saturated(stored, self.dtype).reshape(x.shape),
            scales.astype(np.float32).reshape(scale.shape),
            zeros.astype(np.int32).reshape(scale.shape),
        )


def _affine(x: Array) -> Arrays:
    """s = (max - min) / 255 with 0 in the range, z = -min / s, x / s + z, all in float32, halves to even."""
    low, high = np.minimum(x.min(1), np.float32(0)), np.maximum(x.max(1), np.float32(0))
    scales = np.where(low == high, np.float32(1), (high - low) / np.float32(255))
    zeros = saturated(np.rint(np.clip(-low / scales, 0, 255)), U8).astype(np.int64)
    return np.rint(x / scales[:, None]).astype(np.float64) + zeros[:, None], scales, zeros


def _symmetric(x: Array) -> Arrays:
    """s = max |x| / 127, x * (127 / max |x|), halves away from zero."""
    largest = np.abs(x).max(1)
    safe = np.where(largest == 0, np.float32(1), largest)
    scales = np.where(largest == 0, np.float32(1), safe / np.float32(127))
    stored = round_half_away(x * (np.float32(127) / safe)[:, None]).astype(np.float64)
    return np.fmin(np.fmax(stored, -127), 127), scales, np.zeros(len(x))


def _asymmetric(x: Array) -> Arrays:
    """255 steps from min to max; the zero point is made from the end whose error is smaller."""
    low, high = np.minimum(x.min(1), np.float32(0)), np.maximum(x.max(1), np.float32(0))
    flat = low == high
    steps = np.where(flat, 1.0, (high - low).astype(np.float64) / 255.0)
    first, last = low / steps, high / steps
    near = np.where(128 + np.abs(first) < 127 + np.abs(last), -128 - first, 127 - last)
    zeros = np.where(flat, 0, saturated(round_half_away(near), I8).astype(np.int64))
    scales = steps.astype(np.float32)
    stored = round_half_away(x * (np.float32(1) / scales)[:, None]).astype(np.float64)
    return stored + zeros[:, None], scales, zeros


@dataclass(frozen=True, slots=True)
class IntegerConv2D(Op):
    """Exact sums of stored integers, with the operand's zero point known at run time only; padding adds nothing.

    x: i8 or u8 [N, H, W, C], w: i8 [O, KH, KW, C/groups], zero point of x: i32 [], those of w: i32 [O] (optional)
    -> y: i32 [N, window_count(H), window_count(W), O], modulo 2^32
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    groups: int = 1
    name: ClassVar[str] = "integer_conv2d"

    def infer(self, types: Types) -> Types:
        require(len(types) in (3, 4), f"integer_conv2d takes 3 or 4 operands, got {len(types)}")
        x, w, zero = types[:3]
        require(
            x.rank == 4 and w.rank == 4, f"integer_conv2d takes [N, H, W, C] and [O, KH, KW, C/groups], got {x}, {w}"
        )
        require(x.dtype in (I8, U8) and w.dtype is I8, f"integer_conv2d takes i8 or u8 and i8 weights, got {x} and {w}")
        require(x.quant is None and w.quant is None, "integer_conv2d takes plain integers")
        require(
            self.groups > 0 and w.shape[3] * self.groups == x.shape[3] and w.shape[0] % self.groups == 0,
            f"integer_conv2d with {self.groups} groups does not take {x.shape[3]} channels with weights {w}",
        )
        require(zero.dtype is I32 and zero.shape == (), f"integer_conv2d takes one i32 zero point, got {zero}")
        if len(types) == 4:
            require(types[3] == TensorType(I32, (w.shape[0],)), f"zero points of {w} must be i32 [{w.shape[0]}]")
        check_window("integer_conv2d", self.stride, self.dilation, self.pads)
        rows, columns = self._windows(w).counts(*x.shape[1:3])
        require(rows > 0 and columns > 0, f"integer_conv2d window {w.shape[1:3]} does not fit {x}")
        return (TensorType(I32, (x.shape[0], rows, columns, w.shape[0])),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x = arrays[0].astype(np.int64) - int(arrays[2])
        w = arrays[1].astype(np.int64)
        if len(arrays) == 4:
            w = w - arrays[3].astype(np.int64)[:, None, None, None]
        return (np.asarray(wrap32(window_sums(self._windows(types[1]), x, w, self.groups)), np.int32),)

    def access(self, types: Types) -> tuple[Access, ...]:
        zeros: tuple[Access, ...] = ((pointwise(3, types[1].shape[0]),),)
        return (*self._like().access(types[:2]), whole(()), *zeros)[: len(types)]

    def tile(self, types: Types, out: Region) -> Tile | None:
        tile = self._like().tile(types[:2], out)
        if tile is None:
            return None
        assert isinstance(tile.op, Conv2D)
        op = replace(self, pads=tile.op.pads, groups=tile.op.groups)
        regions: tuple[Region, ...] = (*tile.regions, (), (out[3],))
        return Tile(op, regions[: len(types)])

    def macs(self, types: Types) -> int:
        w = types[1]
        return self.infer(types)[0].elements * w.elements // w.shape[0]

    def _like(self) -> Conv2D:
        """The convolution that reads the same elements."""
        return Conv2D(self.stride, self.dilation, self.pads, self.groups)

    def _windows(self, w: TensorType) -> Windows:
        return Windows((w.shape[1], w.shape[2]), self.stride, self.dilation, self.pads)
