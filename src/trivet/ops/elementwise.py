"""Operators on corresponding elements of two or three operands, which broadcast."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import BOOL, F32, I8, I32, DType
from trivet.core.fixedpoint import Ints
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics, Overflow
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, broadcast_shapes, full_range, require
from trivet.ir.types import TensorType, Types
from trivet.ops import tflite_elementwise as tflite
from trivet.ops.pointwise import Pointwise
from trivet.ops.quantized import QUANTIZED, check_numerics, is_quantized, result
from trivet.ops.stored import by_pair, from_real, saturated, to_real


def check_pair(name: str, types: Types) -> tuple[TensorType, TensorType]:
    """Two operands of one element type.

    Raises: TypeMismatch.
    """
    require(len(types) == 2, f"{name} takes 2 operands, got {len(types)}")
    a, b = types
    require(a.dtype is b.dtype, f"{name} takes operands of one element type, got {a} and {b}")
    return a, b


@dataclass(frozen=True, slots=True)
class _Arithmetic(Pointwise):
    """What arithmetic operators share: three meanings (floats, plain integers, quantized integers), then a clamp."""

    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    overflow: Overflow = Overflow.WRAPS

    def infer(self, types: Types) -> Types:
        a, b = check_pair(self.name, types)
        shape = broadcast_shapes(a.shape, b.shape)
        if self.out is None and a.dtype.is_integer:
            require(a.quant is None and b.quant is None, f"{self.name} of quantized operands needs `out`")
            return (TensorType(a.dtype, shape),)
        check_numerics(self.name, a, self.out, self.numerics)
        check_numerics(self.name, b, self.out, self.numerics)
        return (result(a, shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (y,) = self.infer(types)
        if self.out is not None:
            return (by_pair(lambda a, b: self._on_stored(a, b, types, y.dtype), *arrays),)
        if y.dtype.is_float:
            with np.errstate(all="ignore"):
                return (np.asarray(_clipped(self._exact(*arrays), self.clamp)),)
        with np.errstate(all="ignore"):
            wrapped = np.asarray(self._exact(*(a.astype(y.dtype.numpy) for a in arrays)))
        return (wrapped if self.clamp == UNBOUNDED else saturated(wrapped, y.dtype, self.clamp),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        (y,) = self.infer(types)
        whole = full_range(y)
        if self.out is None and y.dtype.is_integer:
            exact = self._interval(*intervals)
            if exact is not None and (self.overflow is Overflow.EXACT or exact.within(whole)):
                whole = exact
        return (_clipped_interval(whole, self.clamp) if y.dtype.is_integer else whole,)

    def _on_stored(self, a: Array, b: Array, types: Types, dtype: DType) -> Array:
        """The quantized meaning, on stored values."""
        assert self.out is not None and self.numerics is not None
        if self.numerics is Numerics.ONNX:
            with np.errstate(all="ignore"):
                real = self._exact(to_real(a, types[0]), to_real(b, types[1]))
            return saturated(from_real(real, self.out, dtype, self.numerics), dtype, self.clamp)
        return saturated(self._rescaled(a, b, types), dtype, self.clamp)

    @abstractmethod
    def _exact(self, a: Array, b: Array) -> Array:
        """The operation on floats, or on integers of the result's type, where it wraps."""

    @abstractmethod
    def _rescaled(self, a: Array, b: Array, types: Types) -> Ints:
        """The operation on stored values under a TensorFlow Lite contract, zero point included, not yet clamped."""

    def _interval(self, a: Interval, b: Interval) -> Interval | None:
        """What the exact operation gives on plain integers, if it can be said."""
        return None


def _clipped(values: Array, clamp: Bounds) -> Array:
    """Floats kept within the clamp."""
    if clamp == UNBOUNDED:
        return values
    return np.clip(values, np.float32(clamp.lo), np.float32(clamp.hi))


def _clipped_interval(values: Interval, clamp: Bounds) -> Interval:
    """The integers of an interval after a clamp."""
    allowed = Bounds(values.lo, values.hi).intersect(clamp)
    return Interval(math.ceil(allowed.lo), math.floor(allowed.hi))


@dataclass(frozen=True, slots=True)
class Add(_Arithmetic):
    """Sum, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    Plain i8 and i32 operands under `overflow=exact` (from `.tiny`) mix and widen to i32.
    """

    name: ClassVar[str] = "add"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        if self.overflow is Overflow.EXACT:
            require(len(types) == 2, f"add takes 2 operands, got {len(types)}")
            for operand in types:
                require(
                    operand.dtype in (I8, I32) and operand.quant is None, f"exact add takes i8 or i32, got {operand}"
                )
            return (TensorType(I32, broadcast_shapes(types[0].shape, types[1].shape)),)
        return _Arithmetic.infer(self, types)

    def overflows(self, arrays: Arrays, types: Types) -> bool:
        if self.overflow is not Overflow.EXACT:
            return False
        total = arrays[0].astype(np.int64) + arrays[1].astype(np.int64)
        return bool((total > I32.max).any() or (total < I32.min).any())

    def _exact(self, a: Array, b: Array) -> Array:
        return np.add(a, b)

    def _rescaled(self, a: Array, b: Array, types: Types) -> Ints:
        assert self.out is not None
        return tflite.signed_sum(1, a, b, types, self.out)

    def _interval(self, a: Interval, b: Interval) -> Interval:
        return a + b


@dataclass(frozen=True, slots=True)
class Sub(_Arithmetic):
    """Difference a - b, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "sub"
    reuses_input: ClassVar[bool] = True

    def _exact(self, a: Array, b: Array) -> Array:
        return np.subtract(a, b)

    def _rescaled(self, a: Array, b: Array, types: Types) -> Ints:
        assert self.out is not None
        return tflite.signed_sum(-1, a, b, types, self.out)

    def _interval(self, a: Interval, b: Interval) -> Interval:
        return a - b


@dataclass(frozen=True, slots=True)
class Mul(_Arithmetic):
    """Product, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "mul"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def _exact(self, a: Array, b: Array) -> Array:
        return np.multiply(a, b)

    def _rescaled(self, a: Array, b: Array, types: Types) -> Ints:
        assert self.out is not None and self.numerics is not None
        return tflite.product(a, b, types, self.out, self.numerics)

    def _interval(self, a: Interval, b: Interval) -> Interval:
        return a * b


@dataclass(frozen=True, slots=True)
class Div(_Arithmetic):
    """Quotient a / b, then clamp; plain integers divide toward zero.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "div"
    reuses_input: ClassVar[bool] = True

    def _exact(self, a: Array, b: Array) -> Array:
        return np.divide(a, b) if a.dtype.kind == "f" else _truncated_quotient(a, b)

    def _rescaled(self, a: Array, b: Array, types: Types) -> Ints:
        assert self.out is not None and self.numerics is not None
        return tflite.quotient(a, b, types, self.out, self.numerics)


def _truncated_quotient(a: Array, b: Array) -> Array:
    """a / b toward zero on plain integers; 0 where b is 0, and the smallest integer over -1 stays itself."""
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return np.where(b == 0, 0, quotient + inexact).astype(a.dtype)


@dataclass(frozen=True, slots=True)
class SquaredDifference(_Arithmetic):
    """(a - b)^2, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "squared_difference"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def _exact(self, a: Array, b: Array) -> Array:
        difference = np.subtract(a, b)
        return np.multiply(difference, difference)

    def _rescaled(self, a: Array, b: Array, types: Types) -> Ints:
        assert self.out is not None
        return tflite.squared_difference(a, b, types, self.out)


@dataclass(frozen=True, slots=True)
class _Extremum(Pointwise):
    """Compares stored values, whatever the operands' scales; the result takes `out`."""

    out: Quant | None = None

    def infer(self, types: Types) -> Types:
        a, b = check_pair(self.name, types)
        require((self.out is not None) == is_quantized(a), f"{self.name} takes `out` iff its operands are quantized")
        return (result(a, broadcast_shapes(a.shape, b.shape), self.out),)


@dataclass(frozen=True, slots=True)
class Maximum(_Extremum):
    """The larger element.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "maximum"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (np.asarray(np.maximum(*arrays)),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        a, b = intervals
        return (Interval(max(a.lo, b.lo), max(a.hi, b.hi)),)


@dataclass(frozen=True, slots=True)
class Minimum(_Extremum):
    """The smaller element.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "minimum"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (np.asarray(np.minimum(*arrays)),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        a, b = intervals
        return (Interval(min(a.lo, b.lo), min(a.hi, b.hi)),)


@dataclass(frozen=True, slots=True)
class Pow(Pointwise):
    """a raised to b, floats.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "pow"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        a, b = check_pair("pow", types)
        require(a.dtype is F32, f"pow takes f32, got {a}")
        return (TensorType(F32, broadcast_shapes(a.shape, b.shape)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        with np.errstate(all="ignore"):
            return (np.asarray(np.power(*arrays), np.float32),)


@dataclass(frozen=True, slots=True)
class Comparison(Pointwise):
    """Compares real numbers: quantized operands are rescaled as the contract says."""

    numerics: Numerics | None = None

    def infer(self, types: Types) -> Types:
        a, b = check_pair(self.name, types)
        quantized = a.dtype in QUANTIZED and a.quant is not None
        require(
            (self.numerics is not None) == quantized, f"{self.name} takes `numerics` iff its operands are quantized"
        )
        return (TensorType(BOOL, broadcast_shapes(a.shape, b.shape)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        if self.numerics is None:
            return (np.asarray(self._holds(*arrays)),)
        to_number = to_real if self.numerics is Numerics.ONNX else tflite.comparable
        return (by_pair(lambda a, b: np.asarray(self._holds(to_number(a, types[0]), to_number(b, types[1]))), *arrays),)

    @abstractmethod
    def _holds(self, a: Array, b: Array) -> Array:
        """The comparison of numbers."""


@dataclass(frozen=True, slots=True)
class Equal(Comparison):
    """a == b."""

    name: ClassVar[str] = "equal"
    commutative: ClassVar[bool] = True

    def _holds(self, a: Array, b: Array) -> Array:
        return np.equal(a, b)


@dataclass(frozen=True, slots=True)
class NotEqual(Comparison):
    """a != b."""

    name: ClassVar[str] = "not_equal"
    commutative: ClassVar[bool] = True

    def _holds(self, a: Array, b: Array) -> Array:
        return np.not_equal(a, b)


@dataclass(frozen=True, slots=True)
class Less(Comparison):
    """a < b."""

    name: ClassVar[str] = "less"

    def _holds(self, a: Array, b: Array) -> Array:
        return np.less(a, b)


@dataclass(frozen=True, slots=True)
class LessEqual(Comparison):
    """a <= b."""

    name: ClassVar[str] = "less_equal"

    def _holds(self, a: Array, b: Array) -> Array:
        return np.less_equal(a, b)


@dataclass(frozen=True, slots=True)
class Greater(Comparison):
    """a > b."""

    name: ClassVar[str] = "greater"

    def _holds(self, a: Array, b: Array) -> Array:
        return np.greater(a, b)


@dataclass(frozen=True, slots=True)
class GreaterEqual(Comparison):
    """a >= b."""

    name: ClassVar[str] = "greater_equal"

    def _holds(self, a: Array, b: Array) -> Array:
        return np.greater_equal(a, b)


@dataclass(frozen=True, slots=True)
class Where(Pointwise):
    """a where the condition holds, else b.

    condition: bool, a, b: shapes that broadcast, same type and quantization -> y: their broadcast shape
    """

    name: ClassVar[str] = "where"

    def infer(self, types: Types) -> Types:
        require(len(types) == 3, f"where takes 3 operands, got {len(types)}")
        condition, a, b = types
        require(condition.dtype is BOOL, f"where takes a bool condition, got {condition}")
        require(a.dtype is b.dtype and a.quant == b.quant, f"where takes two operands of one type, got {a} and {b}")
        return (a.with_shape(broadcast_shapes(condition.shape, a.shape, b.shape)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (np.where(*arrays),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return (Interval.hull(intervals[1:]),)


@dataclass(frozen=True, slots=True)
class Cast(Pointwise):
    """Another element type: floats truncate toward zero to integers and saturate, integers wrap, nonzero is true."""

    dtype: DType
    name: ClassVar[str] = "cast"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].quant is None, "cast takes one operand without quantization")
        return (TensorType(self.dtype, types[0].shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        if self.dtype is BOOL:
            return (np.asarray(np.not_equal(x, 0)),)
        if x.dtype.kind == "f" and self.dtype.is_integer:
            return (saturated(np.trunc(x).astype(np.float64), self.dtype),)
        with np.errstate(all="ignore"):
            return (x.astype(self.dtype.numpy),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        (y,) = self.infer(types)
        fits = types[0].dtype.is_integer and intervals[0].within(full_range(y))
        return (intervals[0] if fits else full_range(y),)
