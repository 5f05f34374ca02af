"""Activations: clamps, and functions that networks have between their products; any function of int8 as a table."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from trivet.core import libm
from trivet.core.access import Access, whole
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8, I32
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, require
from trivet.ir.types import TensorType, Types
from trivet.ops import tflite_activation as tflite
from trivet.ops.pointwise import Pointwise, broadcast_access
from trivet.ops.quantized import check_numerics, result
from trivet.ops.stored import Float32s, by_pair, by_value, from_real, limits, saturated, to_real
from trivet.ops.unary import FloatUnary, Function, Unary, float_operand, one_operand


@dataclass(frozen=True, slots=True)
class Relu(Pointwise):
    """max(x, 0) on plain integers, which keeps the type (from `.tiny`). Networks use `clamp`."""

    name: ClassVar[str] = "relu"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        x = one_operand("relu", types)
        require(x.dtype in (I8, I32) and x.quant is None, f"relu takes plain i8 or i32, got {x}")
        return (x,)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (np.asarray(np.maximum(x, 0), x.dtype),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        (x,) = intervals
        return (Interval(max(x.lo, 0), max(x.hi, 0)),)


@dataclass(frozen=True, slots=True)
class Clamp(Pointwise):
    """min(max(x, lo), hi): every form of ReLU and Clip.

    Quantized: rescaled to `out` first where the contract does (TFLM's RELU6 never does), then clamped to `bounds`,
    which are stored integers of the result.
    """

    bounds: Bounds
    rescale: bool = False
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "clamp"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        x = one_operand("clamp", types)
        if x.dtype.is_integer and self.out is None:
            require(x.quant is None, "clamp of a quantized operand needs `out`")
            return (x,)
        check_numerics("clamp", x, self.out, self.numerics)
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,), (type_,) = arrays, types
        if type_.dtype.is_float:
            return (np.asarray(np.clip(x, np.float32(self.bounds.lo), np.float32(self.bounds.hi))),)
        if self.rescale and self.out is not None:
            return (by_value(lambda stored: self._rescaled(stored, type_), x),)
        return (saturated(x, type_.dtype, self.bounds),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        dtype = types[0].dtype
        if dtype.is_float:
            return intervals
        lo, hi = limits(dtype, self.bounds)
        return (Interval(lo, hi) if self.rescale else intervals[0].clamp(lo, hi),)

    def _rescaled(self, x: Array, type_: TensorType) -> Array:
        assert self.out is not None and self.numerics is not None
        if self.numerics is Numerics.ONNX:
            values = from_real(to_real(x, type_), self.out, type_.dtype, self.numerics)
        else:
            values = tflite.rescaled(x, type_, self.out, self.numerics)
        return saturated(values, type_.dtype, self.bounds)


@dataclass(frozen=True, slots=True)
class Logistic(Unary):
    """1 / (1 + e^-x)."""

    name: ClassVar[str] = "logistic"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.float32(1) / (np.float32(1) + np.exp(-x))

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.logistic(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class Tanh(Unary):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.tanh(x)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.tanh(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class HardSwish(Unary):
    """x * min(max(x + 3, 0), 6) / 6."""

    name: ClassVar[str] = "hard_swish"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        product: Float32s = x * np.clip(x + np.float32(3), 0, 6)
        return product / np.float32(6)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.hard_swish(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class LeakyRelu(Function):
    """x where x >= 0, else alpha * x."""

    alpha: float
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "leaky_relu"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.where(x >= 0, x, np.float32(self.alpha) * x)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.leaky_relu(x, type_, self.alpha, out, numerics)


@dataclass(frozen=True, slots=True)
class PRelu(Pointwise):
    """x where x >= 0, else alpha * x with a tensor alpha that broadcasts to x.

    x: [...], alpha: broadcasts to x -> y: [...]
    """

    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "prelu"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"prelu takes 2 operands, got {len(types)}")
        x, alpha = types
        check_numerics("prelu", x, self.out, self.numerics)
        require(x.dtype is alpha.dtype, f"prelu takes operands of one element type, got {x} and {alpha}")
        try:
            fits = np.broadcast_shapes(x.shape, alpha.shape) == x.shape
        except ValueError:
            fits = False
        require(fits, f"prelu: alpha {alpha} does not broadcast to {x}")
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        if self.out is not None:
            return (by_pair(lambda x, alpha: self._on_stored(x, alpha, types), *arrays),)
        return (_prelu(*arrays),)

    def _on_stored(self, x: Array, alpha: Array, types: Types) -> Array:
        assert self.out is not None and self.numerics is not None
        if self.numerics is Numerics.ONNX:
            real = _prelu(to_real(x, types[0]), to_real(alpha, types[1]))
            return from_real(real, self.out, types[0].dtype, self.numerics)
        return saturated(tflite.prelu(x, alpha, types, self.out, self.numerics), types[0].dtype)


def _prelu(x: Float32s, alpha: Float32s) -> Float32s:
    with np.errstate(all="ignore"):
        return np.where(x >= 0, x, alpha * x)


@dataclass(frozen=True, slots=True)
class Elu(Function):
    """x where x >= 0, else alpha * (e^x - 1)."""

    alpha: float = 1.0
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "elu"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        below: Float32s = libm.expf(np.minimum(x, np.float32(0))) - np.float32(1)
        return np.where(x < 0, np.float32(self.alpha) * below, x).astype(np.float32)


@dataclass(frozen=True, slots=True)
class HardSigmoid(Pointwise):
    """min(max(alpha * x + beta, 0), 1), floats."""

    alpha: float
    beta: float
    name: ClassVar[str] = "hard_sigmoid"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        return (float_operand("hard_sigmoid", types),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        scaled = np.float32(self.alpha) * x + np.float32(self.beta)
        return (np.asarray(np.clip(scaled, 0, 1), np.float32),)


@dataclass(frozen=True, slots=True)
class Gelu(Function):
    """0.5 x (1 + erf(x / sqrt 2)), or its tanh form (`approximate`)."""

    approximate: bool = False
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "gelu"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        if not self.approximate:
            return np.float32(0.5) * x * libm.erfcf(x * np.float32(-math.sqrt(0.5)))
        cubic = x + np.float32(0.044715) * x * x * x
        return np.float32(0.5) * x * (np.float32(1) + libm.tanhf(np.float32(math.sqrt(2 / math.pi)) * cubic))


@dataclass(frozen=True, slots=True)
class Softplus(FloatUnary):
    """log(1 + e^x)."""

    name: ClassVar[str] = "softplus"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.logaddexp(np.float32(0), x)


@dataclass(frozen=True, slots=True)
class Lookup(Pointwise):
    """Any function of one i8 value, as a table: y = table[x + 128].

    x: i8 [...], table: i8 [256] -> y: i8 [...] with the quantization `out`
    """

    out: Quant
    name: ClassVar[str] = "lookup"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"lookup takes 2 operands, got {len(types)}")
        x, table = types
        require(x.dtype is I8, f"lookup takes i8, got {x}")
        require(table.dtype is I8 and table.shape == (256,), f"lookup takes a table i8[256], got {table}")
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, table = arrays
        return (np.asarray(table[x.astype(np.int64) + 128]),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return (intervals[1],)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, table = types
        return broadcast_access(x.shape, x.shape), whole(table.shape)
