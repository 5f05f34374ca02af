"""Reductions over axes."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, AxisRule, Reduced, Span, Whole, pointwise
from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import I32, I64, DType
from trivet.core.fixedpoint import multiply_by_quantized_multiplier, wrap32
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, Quant, quantize_multiplier
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, Op, Region, Tile, full_range, require
from trivet.ir.types import Shape, TensorType, Types
from trivet.ops.products import rescaled, stored
from trivet.ops.quantized import check_numerics, is_quantized, result

Axes = tuple[int, ...]
"""Distinct axes in increasing order, counted from 0."""


def reduced_shape(name: str, shape: Shape, axes: Axes, keep_dims: bool) -> Shape:
    """Raises: TypeMismatch."""
    require(tuple(sorted(set(axes))) == axes, f"{name} axes must be distinct and increasing, got {axes}")
    require(all(0 <= a < len(shape) for a in axes), f"{name} axes {axes} are outside rank {len(shape)}")
    if keep_dims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduction_access(x: TensorType, axes: Axes, keep_dims: bool, reduced: type[Reduced] | type[Whole]) -> Access:
    """Kept axes are read index by index, the others by the rule `reduced`."""
    rules: list[AxisRule] = []
    for axis, size in enumerate(x.shape):
        before = 0 if keep_dims else sum(a < axis for a in axes)
        rules.append(reduced(size) if axis in axes else pointwise(axis - before, size))
    return tuple(rules)


def reduction_region(x: TensorType, axes: Axes, keep_dims: bool, out: Region) -> Region:
    """The part of the operand that the output region `out` is reduced from."""
    kept = iter(span for axis, span in enumerate(out) if not keep_dims or axis not in axes)
    return tuple(Span(0, size) if axis in axes else next(kept) for axis, size in enumerate(x.shape))


@dataclass(frozen=True, slots=True)
class _QuantizedReduce(Op):
    axes: Axes
    keep_dims: bool = False
    out: Quant | None = None
    numerics: Numerics | None = None

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, f"{self.name} takes one operand, got {len(types)}")
        (x,) = types
        shape = reduced_shape(self.name, x.shape, self.axes, self.keep_dims)
        if x.dtype in (I32, I64) and self.out is None:
            return (TensorType(x.dtype, shape),)
        check_numerics(self.name, x, self.out, self.numerics)
        return (result(x, shape, self.out),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (reduction_access(types[0], self.axes, self.keep_dims, Reduced),)

    def tile(self, types: Types, out: Region) -> Tile:
        return Tile(self, (reduction_region(types[0], self.axes, self.keep_dims, out),))

    def count(self, x: TensorType) -> int:
        """How many elements one result is made of."""
        return math.prod(x.shape[axis] for axis in self.axes)

    def _sums(self, x: Array, type_: TensorType) -> Array:
        """Exact sums of stored - zero point (float64 for floats)."""
        wide = np.float64 if type_.dtype.is_float else np.int64
        sums: Array = np.asarray(np.sum(x, axis=self.axes, keepdims=self.keep_dims, dtype=wide))
        return sums if type_.quant is None else sums - type_.quant.zero_point * self.count(type_)


@dataclass(frozen=True, slots=True)
class Mean(_QuantizedReduce):
    """Arithmetic mean over axes; over the spatial axes it is the global average pool.

    x: [...] -> y: [...] without `axes` (or with extent 1 there, `keep_dims`)
    TensorFlow Lite divides the multiplier by the count; ONNX rounds the exact mean; plain integers truncate.
    """

    name: ClassVar[str] = "mean"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = types
        sums, count = self._sums(arrays[0], x), self.count(x)
        if x.dtype.is_float:
            return (np.asarray(sums / count, np.float32),)
        if self.out is None or self.numerics is None:
            return (np.asarray(np.sign(sums) * (np.abs(sums) // count), x.dtype.numpy),)
        assert x.quant is not None
        if self.numerics is Numerics.ONNX:
            values = rescaled(sums / count, x.quant.scale / self.out.scale, self.numerics)
        else:
            multiplier = self.multiplier(x)
            values = multiply_by_quantized_multiplier(wrap32(sums), multiplier.mantissa, multiplier.shift)
        return (stored(values, self.out.zero_point, x.dtype, UNBOUNDED),)

    def multiplier(self, x: TensorType) -> Multiplier:
        """sx / sy / count in Q0.31 as TensorFlow Lite makes it: the mantissa is shifted left, divided and truncated."""
        assert x.quant is not None and self.out is not None
        whole, count = quantize_multiplier(x.quant.scale / self.out.scale), self.count(x)
        shift = min(count.bit_length() - 1, 32, 31 + whole.shift)
        return Multiplier((whole.mantissa << shift) // count, whole.shift - shift)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals if self.out is None else (full_range(types[0]),)


@dataclass(frozen=True, slots=True)
class Sum(_QuantizedReduce):
    """Sum over axes.

    x: [...] -> y: [...] without `axes` (or with extent 1 there, `keep_dims`)
    """

    name: ClassVar[str] = "sum"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = types
        sums = self._sums(arrays[0], x)
        if self.out is None or self.numerics is None:
            return (sums.astype(x.dtype.numpy),)
        assert x.quant is not None
        values = rescaled(sums, x.quant.scale / self.out.scale, self.numerics)
        return (stored(values, self.out.zero_point, x.dtype, UNBOUNDED),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        (x,) = types
        if self.out is not None:
            return (full_range(x),)
        count = self.count(x)
        total = Interval(count, count) * intervals[0]
        return (total if total.within(full_range(x)) else full_range(x),)


@dataclass(frozen=True, slots=True)
class _PlainReduce(Op):
    axes: Axes
    keep_dims: bool = False

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, f"{self.name} takes one operand, got {len(types)}")
        (x,) = types
        require(x.quant is None or x.quant.is_per_tensor, f"{self.name} takes one scale, got {x}")
        return (x.with_shape(reduced_shape(self.name, x.shape, self.axes, self.keep_dims)),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (reduction_access(types[0], self.axes, self.keep_dims, Reduced),)

    def tile(self, types: Types, out: Region) -> Tile:
        return Tile(self, (reduction_region(types[0], self.axes, self.keep_dims, out),))


@dataclass(frozen=True, slots=True)
class ReduceMax(_PlainReduce):
    """Largest element over axes; stored values compare, so the quantization stays."""

    name: ClassVar[str] = "reduce_max"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (np.asarray(x.max(axis=self.axes, keepdims=self.keep_dims)),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals


@dataclass(frozen=True, slots=True)
class ReduceMin(_PlainReduce):
    """Smallest element over axes; stored values compare, so the quantization stays."""

    name: ClassVar[str] = "reduce_min"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (np.asarray(x.min(axis=self.axes, keepdims=self.keep_dims)),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals


@dataclass(frozen=True, slots=True)
class ReduceProd(_PlainReduce):
    """Product over axes, of floats or plain integers (which wrap)."""

    name: ClassVar[str] = "reduce_prod"

    def infer(self, types: Types) -> Types:
        require(not is_quantized(types[0]), "reduce_prod takes no quantized operand")
        return _PlainReduce.infer(self, types)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.asarray(x.prod(axis=self.axes, keepdims=self.keep_dims, dtype=x.dtype)),)


@dataclass(frozen=True, slots=True)
class _ArgReduce(Op):
    axis: int
    keep_dims: bool = False
    dtype: DType = I64

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, f"{self.name} takes one operand, got {len(types)}")
        require(self.dtype in (I32, I64), f"{self.name} gives i32 or i64, not {self.dtype.name}")
        shape = reduced_shape(self.name, types[0].shape, (self.axis,), self.keep_dims)
        return (TensorType(self.dtype, shape),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return (Interval(0, types[0].shape[self.axis] - 1),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (reduction_access(types[0], (self.axis,), self.keep_dims, Whole),)

    def tile(self, types: Types, out: Region) -> Tile:
        return Tile(self, (reduction_region(types[0], (self.axis,), self.keep_dims, out),))


@dataclass(frozen=True, slots=True)
class ArgMax(_ArgReduce):
    """Index of the largest element along an axis, the first on ties."""

    name: ClassVar[str] = "arg_max"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (np.asarray(x.argmax(axis=self.axis, keepdims=self.keep_dims), self.dtype.numpy),)


@dataclass(frozen=True, slots=True)
class ArgMin(_ArgReduce):
    """Index of the smallest element along an axis, the first on ties."""

    name: ClassVar[str] = "arg_min"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (np.asarray(x.argmin(axis=self.axis, keepdims=self.keep_dims), self.dtype.numpy),)
