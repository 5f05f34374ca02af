"""Functions of one operand: activations, float mathematics, tables, softmax."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from trivet.core import libm
from trivet.core.access import Access, whole
from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I32
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


def one_operand(name: str, types: Types) -> TensorType:
    """Raises: TypeMismatch."""
    require(len(types) == 1, f"{name} takes one operand, got {len(types)}")
    return types[0]


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


class _Function(Pointwise):
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
class _Unary(_Function):
    """One operand, same shape; f32, or quantized with `out` and `numerics`."""

    out: Quant | None = None
    numerics: Numerics | None = None


@dataclass(frozen=True, slots=True)
class Logistic(_Unary):
    """1 / (1 + e^-x)."""

    name: ClassVar[str] = "logistic"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.float32(1) / (np.float32(1) + np.exp(-x))

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.logistic(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class Tanh(_Unary):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.tanh(x)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.tanh(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class HardSwish(_Unary):
    """x * min(max(x + 3, 0), 6) / 6."""

    name: ClassVar[str] = "hard_swish"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        product: Float32s = x * np.clip(x + np.float32(3), 0, 6)
        return product / np.float32(6)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.hard_swish(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class Abs(_Unary):
    """|x|."""

    name: ClassVar[str] = "abs"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.abs(x)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.magnitude(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class LeakyRelu(_Function):
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
class Elu(_Function):
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
class Gelu(_Function):
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


def float_operand(name: str, types: Types) -> TensorType:
    """The only operand, which must be f32.

    Raises: TypeMismatch.
    """
    x = one_operand(name, types)
    require(x.dtype is F32, f"{name} takes f32, got {x}")
    return x


@dataclass(frozen=True, slots=True)
class _FloatUnary(Pointwise):
    """A function of f32 only."""

    def infer(self, types: Types) -> Types:
        return (float_operand(self.name, types),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        with np.errstate(all="ignore"):
            return (np.asarray(self._real(arrays[0]), np.float32),)

    @abstractmethod
    def _real(self, x: Float32s) -> Float32s:
        """The function in float32."""


@dataclass(frozen=True, slots=True)
class Exp(_Unary):
    """e^x."""

    name: ClassVar[str] = "exp"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return libm.expf(x)


@dataclass(frozen=True, slots=True)
class Log(_FloatUnary):
    """Natural logarithm."""

    name: ClassVar[str] = "log"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.log(x)


@dataclass(frozen=True, slots=True)
class Sqrt(_FloatUnary):
    """Square root."""

    name: ClassVar[str] = "sqrt"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.sqrt(x)


@dataclass(frozen=True, slots=True)
class Rsqrt(_Unary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "rsqrt"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.reciprocal(np.sqrt(x))

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.rsqrt(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class Neg(_FloatUnary):
    """-x."""

    name: ClassVar[str] = "neg"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return -x


@dataclass(frozen=True, slots=True)
class Reciprocal(_FloatUnary):
    """1 / x."""

    name: ClassVar[str] = "reciprocal"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.float32(1) / x


@dataclass(frozen=True, slots=True)
class Erf(_FloatUnary):
    """Gauss error function."""

    name: ClassVar[str] = "erf"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.float32(1) - libm.erfcf(x)


@dataclass(frozen=True, slots=True)
class Floor(_FloatUnary):
    """Largest integer not above x."""

    name: ClassVar[str] = "floor"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.floor(x)


@dataclass(frozen=True, slots=True)
class Ceil(_FloatUnary):
    """Smallest integer not below x."""

    name: ClassVar[str] = "ceil"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.ceil(x)


@dataclass(frozen=True, slots=True)
class Round(_FloatUnary):
    """Nearest integer, halves to even."""

    name: ClassVar[str] = "round"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.rint(x)


@dataclass(frozen=True, slots=True)
class Sin(_FloatUnary):
    """Sine of radians."""

    name: ClassVar[str] = "sin"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.sin(x)


@dataclass(frozen=True, slots=True)
class Atan(_FloatUnary):
    """Inverse tangent, in radians."""

    name: ClassVar[str] = "atan"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.arctan(x)


@dataclass(frozen=True, slots=True)
class Cos(_FloatUnary):
    """Cosine of radians."""

    name: ClassVar[str] = "cos"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.cos(x)


@dataclass(frozen=True, slots=True)
class Softplus(_FloatUnary):
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
