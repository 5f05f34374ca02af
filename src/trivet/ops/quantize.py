"""Between real numbers and their stored integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core.access import Access, Whole
from trivet.core.dtype import F16, F32, I8, I16, I32, U8, U16, DType
from trivet.core.fixedpoint import multiply_by_quantized_multiplier
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multipliers
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, Region, Tile, full_range, require
from trivet.ir.types import TensorType, Types
from trivet.ops.pointwise import Pointwise, covers
from trivet.ops.stored import along_axis, by_value, centered, from_real, saturated, to_real

STORED = (I8, U8, I16, U16, I32)
"""Element types that quantized tensors have at borders and in constants."""


class _ElementwiseQuantized(Pointwise):
    """Elementwise, but along the axis of a per-axis quantization only as a whole."""

    __slots__ = ()

    def access(self, types: Types) -> tuple[Access, ...]:
        axes = self._quantized_axes(types)
        (rules,) = Pointwise.access(self, types)
        return (tuple(Whole(types[0].shape[i]) if i in axes else rule for i, rule in enumerate(rules)),)

    def tile(self, types: Types, out: Region) -> Tile | None:
        if not all(covers(out, types[0].shape, axis) for axis in self._quantized_axes(types)):
            return None
        return Pointwise.tile(self, types, out)

    def _quantized_axes(self, types: Types) -> set[int]:
        quants = (types[0].quant, self.infer(types)[0].quant)
        return {quant.axis for quant in quants if quant is not None and quant.axis is not None}


@dataclass(frozen=True, slots=True)
class Quantize(_ElementwiseQuantized):
    """stored = saturate(round(x / scale) + zero point); the contract decides how halves round.

    x: f32 [...] -> y: `dtype` [...] with the quantization `out` (per tensor or per axis)
    """

    out: Quant
    dtype: DType = I8
    numerics: Numerics = Numerics.TFLM
    name: ClassVar[str] = "quantize"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is F32, "quantize takes one f32 operand")
        require(self.dtype in STORED, f"quantize does not give {self.dtype.name}")
        return (TensorType(self.dtype, types[0].shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (from_real(arrays[0], self.out, self.dtype, self.numerics),)


@dataclass(frozen=True, slots=True)
class Dequantize(_ElementwiseQuantized):
    """x = scale * (stored - zero point) in float32; f16 widens.

    x: quantized or f16 [...] -> y: f32 [...]
    """

    name: ClassVar[str] = "dequantize"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "dequantize takes one operand")
        (x,) = types
        require(x.dtype is F16 or (x.dtype.is_integer and x.quant is not None), f"dequantize does not take {x}")
        return (TensorType(F32, x.shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (type_,) = arrays, types
        return (x.astype(np.float32) if type_.dtype is F16 else to_real(x, type_),)


@dataclass(frozen=True, slots=True)
class Requantize(_ElementwiseQuantized):
    """The same real numbers under another scale, zero point or element type.

    x: quantized [...] -> y: `dtype` [...] with the quantization `out`
    Between u8 and i8 with zero points 128 apart it only flips the top bit.
    """

    out: Quant
    dtype: DType = I8
    numerics: Numerics = Numerics.TFLM
    name: ClassVar[str] = "requantize"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "requantize takes one operand")
        (x,) = types
        require(x.dtype in STORED and x.quant is not None, f"requantize takes a quantized operand, got {x}")
        require(self.dtype in STORED, f"requantize does not give {self.dtype.name}")
        return (TensorType(self.dtype, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (type_,) = arrays, types
        assert type_.quant is not None
        if type_.quant.is_per_tensor and self.out.is_per_tensor:
            return (by_value(lambda stored: self._restated(stored, type_), x),)
        return (self._restated(x, type_),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        (x,), (type_,) = intervals, types
        assert type_.quant is not None
        if not (type_.quant.is_per_tensor and self.out.is_per_tensor):
            return (full_range(self.infer(types)[0]),)
        ends = self._restated(np.array([x.lo, x.hi]).astype(type_.dtype.numpy), type_)
        return (Interval(int(ends[0]), int(ends[1])),)

    def _restated(self, x: Array, type_: TensorType) -> Array:
        if self.numerics is Numerics.ONNX:
            return from_real(to_real(x, type_), self.out, self.dtype, self.numerics)
        assert type_.quant is not None
        rank = x.ndim
        reals = along_axis(type_.quant.scales, type_.quant, rank, np.float64) / along_axis(
            self.out.scales, self.out, rank, np.float64
        )
        mantissas, shifts = quantize_multipliers(reals.ravel())
        zero_points = along_axis(self.out.zero_points, self.out, rank, np.int64)
        scaled = multiply_by_quantized_multiplier(
            centered(x, type_), mantissas.reshape(reals.shape), shifts.reshape(reals.shape)
        )
        return saturated(scaled + zero_points, self.dtype)
