"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from trivet.core.dtype import F32, I8, I16, DType
from trivet.core.fixedpoint import Ints
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, require
from trivet.ir.types import TensorType, Types
from trivet.ops import tflite_softmax as tflite
from trivet.ops.pointwise import AlongAxis
from trivet.ops.quantized import check_numerics, is_quantized, result
from trivet.ops.stored import Float32s, from_real, saturated, to_real
from trivet.ops.unary import one_operand


@dataclass(frozen=True, slots=True)
class Softmax(AlongAxis):
    """e^(beta x) / sum of e^(beta x) along an axis.

    x: [...] -> y: [...]; quantized results may be of another type (`dtype`, i8 -> i16).
    """

    axis: int
    beta: float = 1.0
    out: Quant | None = None
    dtype: DType = F32
    numerics: Numerics | None = None
    name: ClassVar[str] = "softmax"

    def infer(self, types: Types) -> Types:
        x = one_operand(self.name, types)
        require(0 <= self.axis < max(x.rank, 1), f"{self.name} axis {self.axis} is outside rank {x.rank}")
        check_numerics(self.name, x, self.out, self.numerics)
        require(
            self.dtype is x.dtype or (is_quantized(x) and self.dtype is I16),
            f"{self.name} of {x} does not give {self.dtype.name}",
        )
        return (result(x, x.shape, self.out, self.dtype),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (type_,) = arrays, types
        last = np.moveaxis(x, self.axis, -1) if x.ndim else x.reshape(1)
        y = self._on_last_axis(last, type_)
        return (np.ascontiguousarray(np.moveaxis(y, -1, self.axis) if x.ndim else y.reshape(())),)

    def _on_last_axis(self, x: Array, type_: TensorType) -> Array:
        if self.out is None:
            return _softmax(x, self.beta)
        assert type_.quant is not None and self.numerics is not None
        if self.numerics is Numerics.ONNX and type_.dtype is I8:
            return _stored(_softmax8(x, type_.quant.scale, self.beta), self.out, self.dtype)
        if self.numerics is Numerics.ONNX:
            return from_real(_softmax(to_real(x, type_), self.beta), self.out, self.dtype, self.numerics)
        if type_.dtype is I8:
            return tflite.softmax8(x, type_.quant.scale, self.beta, self.dtype).astype(self.dtype.numpy)
        return tflite.softmax16(x, type_.quant.scale, self.beta, self.numerics).astype(np.int16)


def _softmax(x: Float32s, beta: float) -> Float32s:
    """Over the last axis, in float32."""
    power = np.exp((x - x.max(-1, keepdims=True)) * np.float32(beta))
    quotient: Float32s = power / power.sum(-1, keepdims=True)
    return quotient


def powers8(scale: float, beta: float) -> Ints:
    """e^(beta * scale * d) in Q1.30 for d from -255 to 0: [256].

    Integers, so that sums of them are the same in every order and on every machine.
    """
    exponents = float(np.float32(beta)) * scale * np.arange(-255, 1)
    powers: Ints = np.rint(np.exp(exponents) * (1 << 30)).astype(np.int64)
    return powers


def _softmax8(x: Array, scale: float, beta: float) -> npt.NDArray[np.float64]:
    """Over the last axis of stored int8 values, in float64."""
    powers = powers8(scale, beta)[x.astype(np.int64) - x.max(-1, keepdims=True) + 255]
    quotient: npt.NDArray[np.float64] = powers / powers.sum(-1, keepdims=True)
    return quotient


def _log_softmax8(x: Array, scale: float) -> npt.NDArray[np.float64]:
    """Over the last axis of stored int8 values, in float64."""
    differences = x.astype(np.int64) - x.max(-1, keepdims=True)
    total = powers8(scale, 1.0)[differences + 255].sum(-1, keepdims=True)
    result: npt.NDArray[np.float64] = scale * differences - np.log(total / (1 << 30))
    return result


def _stored(real: npt.NDArray[np.float64], out: Quant, dtype: DType) -> Array:
    """The nearest stored values, halves to even."""
    return saturated(np.rint(real / out.scale) + out.zero_point, dtype)


@dataclass(frozen=True, slots=True)
class LogSoftmax(AlongAxis):
    """x - log(sum of e^x) along an axis.

    x: [...] -> y: [...]
    """

    axis: int
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "log_softmax"

    def infer(self, types: Types) -> Types:
        x = one_operand("log_softmax", types)
        require(0 <= self.axis < max(x.rank, 1), f"log_softmax axis {self.axis} is outside rank {x.rank}")
        check_numerics("log_softmax", x, self.out, self.numerics)
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (type_,) = arrays, types
        last = np.moveaxis(x, self.axis, -1) if x.ndim else x.reshape(1)
        y = self._on_last_axis(last, type_)
        return (np.ascontiguousarray(np.moveaxis(y, -1, self.axis) if x.ndim else y.reshape(())),)

    def _on_last_axis(self, x: Array, type_: TensorType) -> Array:
        if self.out is None:
            return _log_softmax(x)
        assert type_.quant is not None and self.numerics is not None
        if self.numerics is Numerics.ONNX and type_.dtype is I8:
            return _stored(_log_softmax8(x, type_.quant.scale), self.out, type_.dtype)
        if self.numerics is Numerics.ONNX or type_.dtype is I16:
            return from_real(_log_softmax(to_real(x, type_)), self.out, type_.dtype, self.numerics)
        return tflite.log_softmax8(x, type_.quant.scale).astype(np.int8)


def _log_softmax(x: Float32s) -> Float32s:
    """Over the last axis, in float32."""
    shifted = x - x.max(-1, keepdims=True)
    difference: Float32s = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return difference
