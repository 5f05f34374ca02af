"""Reductions over axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.dtype import I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, require
from trivet.ir.types import Shape, TensorType, Types
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


@dataclass(frozen=True, slots=True)
class Mean(_QuantizedReduce):
    """Arithmetic mean over axes; over the spatial axes it is the global average pool.

    x: [...] -> y: [...] without `axes` (or with extent 1 there, `keep_dims`)
    """

    name: ClassVar[str] = "mean"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sum(_QuantizedReduce):
    """Sum over axes.

    x: [...] -> y: [...] without `axes` (or with extent 1 there, `keep_dims`)
    """

    name: ClassVar[str] = "sum"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _PlainReduce(Op):
    axes: Axes
    keep_dims: bool = False

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, f"{self.name} takes one operand, got {len(types)}")
        (x,) = types
        return (x.with_shape(reduced_shape(self.name, x.shape, self.axes, self.keep_dims)),)


@dataclass(frozen=True, slots=True)
class ReduceMax(_PlainReduce):
    """Largest element over axes; stored values compare, so the quantization stays."""

    name: ClassVar[str] = "reduce_max"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (x.max(axis=self.axes, keepdims=self.keep_dims),)


@dataclass(frozen=True, slots=True)
class ReduceMin(_PlainReduce):
    """Smallest element over axes; stored values compare, so the quantization stays."""

    name: ClassVar[str] = "reduce_min"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (x.min(axis=self.axes, keepdims=self.keep_dims),)


@dataclass(frozen=True, slots=True)
class ReduceProd(_PlainReduce):
    """Product over axes, of floats or plain integers (which wrap)."""

    name: ClassVar[str] = "reduce_prod"

    def infer(self, types: Types) -> Types:
        require(not is_quantized(types[0]), "reduce_prod takes no quantized operand")
        return _PlainReduce.infer(self, types)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (x.prod(axis=self.axes, keepdims=self.keep_dims, dtype=x.dtype),)


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


@dataclass(frozen=True, slots=True)
class ArgMax(_ArgReduce):
    """Index of the largest element along an axis, the first on ties."""

    name: ClassVar[str] = "arg_max"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (x.argmax(axis=self.axis, keepdims=self.keep_dims).astype(self.dtype.numpy),)


@dataclass(frozen=True, slots=True)
class ArgMin(_ArgReduce):
    """Index of the smallest element along an axis, the first on ties."""

    name: ClassVar[str] = "arg_min"

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (x.argmin(axis=self.axis, keepdims=self.keep_dims).astype(self.dtype.numpy),)
