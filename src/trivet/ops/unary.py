"""What operators of one operand share: functions of a real number, in float32 and on stored values."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from trivet.core.dtype import F32
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, require
from trivet.ir.types import TensorType, Types
from trivet.ops import tflite_activation as tflite
from trivet.ops.pointwise import Pointwise
from trivet.ops.quantized import check_numerics, result
from trivet.ops.stored import Float32s, by_value, from_real, saturated, to_real


def one_operand(name: str, types: Types) -> TensorType:
    """Raises: TypeMismatch."""
    require(len(types) == 1, f"{name} takes one operand, got {len(types)}")
    return types[0]


def float_operand(name: str, types: Types) -> TensorType:
    """The only operand, which must be f32.

    Raises: TypeMismatch.
    """
    x = one_operand(name, types)
    require(x.dtype is F32, f"{name} takes f32, got {x}")
    return x


class Function(Pointwise):
    """A function of one real number; quantized where it has `out` and `numerics`."""

    __slots__ = ()

    out: Quant | None
    numerics: Numerics | None

    def infer(self, types: Types) -> Types:
        x = one_operand(self.name, types)
        check_numerics(self.name, x, self.out, self.numerics)
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (type_,) = arrays, types
        if self.out is not None:
            return (by_value(lambda stored: self._on_stored(stored, type_), x),)
        with np.errstate(all="ignore"):
            return (np.asarray(self._real(x), np.float32),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        if self.out is None:
            return intervals
        (x,), (type_,) = intervals, types
        values = self._on_stored(np.arange(x.lo, x.hi + 1).astype(type_.dtype.numpy), type_)
        return (Interval(int(values.min()), int(values.max())),)

    def _on_stored(self, x: Array, type_: TensorType) -> Array:
        assert self.out is not None and self.numerics is not None
        if self.numerics is Numerics.ONNX:
            with np.errstate(all="ignore"):
                real = np.asarray(self._real(to_real(x, type_)), np.float32)
            return from_real(real, self.out, type_.dtype, self.numerics)
        return saturated(self._tflite(x, type_, self.out, self.numerics), type_.dtype)

    @abstractmethod
    def _real(self, x: Float32s) -> Float32s:
        """The function in float32."""

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        """The function on stored values under a TensorFlow Lite contract: a table of float32 values by default."""
        return tflite.through_float32(self._real, x, type_, out)


@dataclass(frozen=True, slots=True)
class Unary(Function):
    """One operand, same shape; f32, or quantized with `out` and `numerics`."""

    out: Quant | None = None
    numerics: Numerics | None = None


@dataclass(frozen=True, slots=True)
class FloatUnary(Pointwise):
    """A function of f32 only."""

    def infer(self, types: Types) -> Types:
        return (float_operand(self.name, types),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        with np.errstate(all="ignore"):
            return (np.asarray(self._real(arrays[0]), np.float32),)

    @abstractmethod
    def _real(self, x: Float32s) -> Float32s:
        """The function in float32."""
