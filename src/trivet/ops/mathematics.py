"""Mathematical functions of one real number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core import libm
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops import tflite_activation as tflite
from trivet.ops.stored import Float32s
from trivet.ops.unary import FloatUnary, Unary


@dataclass(frozen=True, slots=True)
class Abs(Unary):
    """|x|."""

    name: ClassVar[str] = "abs"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.abs(x)

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.magnitude(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class Exp(Unary):
    """e^x."""

    name: ClassVar[str] = "exp"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return libm.expf(x)


@dataclass(frozen=True, slots=True)
class Log(FloatUnary):
    """Natural logarithm."""

    name: ClassVar[str] = "log"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.log(x)


@dataclass(frozen=True, slots=True)
class Sqrt(FloatUnary):
    """Square root."""

    name: ClassVar[str] = "sqrt"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.sqrt(x)


@dataclass(frozen=True, slots=True)
class Rsqrt(Unary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "rsqrt"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.reciprocal(np.sqrt(x))

    def _tflite(self, x: Array, type_: TensorType, out: Quant, numerics: Numerics) -> Array:
        return tflite.rsqrt(x, type_, out, numerics)


@dataclass(frozen=True, slots=True)
class Neg(FloatUnary):
    """-x."""

    name: ClassVar[str] = "neg"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return -x


@dataclass(frozen=True, slots=True)
class Reciprocal(FloatUnary):
    """1 / x."""

    name: ClassVar[str] = "reciprocal"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.float32(1) / x


@dataclass(frozen=True, slots=True)
class Erf(FloatUnary):
    """Gauss error function."""

    name: ClassVar[str] = "erf"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.float32(1) - libm.erfcf(x)


@dataclass(frozen=True, slots=True)
class Floor(FloatUnary):
    """Largest integer not above x."""

    name: ClassVar[str] = "floor"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.floor(x)


@dataclass(frozen=True, slots=True)
class Ceil(FloatUnary):
    """Smallest integer not below x."""

    name: ClassVar[str] = "ceil"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.ceil(x)


@dataclass(frozen=True, slots=True)
class Round(FloatUnary):
    """Nearest integer, halves to even."""

    name: ClassVar[str] = "round"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.rint(x)


@dataclass(frozen=True, slots=True)
class Sin(FloatUnary):
    """Sine of radians."""

    name: ClassVar[str] = "sin"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.sin(x)


@dataclass(frozen=True, slots=True)
class Cos(FloatUnary):
    """Cosine of radians."""

    name: ClassVar[str] = "cos"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.cos(x)


@dataclass(frozen=True, slots=True)
class Atan(FloatUnary):
    """Inverse tangent, in radians."""

    name: ClassVar[str] = "atan"
    reuses_input: ClassVar[bool] = True

    def _real(self, x: Float32s) -> Float32s:
        return np.arctan(x)
