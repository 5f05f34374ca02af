"""Functions of one operand: activations, float mathematics, tables, softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I16, I32, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, require
from trivet.ir.types import TensorType, Types
from trivet.ops.quantized import check_numerics, is_quantized, result


def one_operand(name: str, types: Types) -> TensorType:
    """Raises: TypeMismatch."""
    require(len(types) == 1, f"{name} takes one operand, got {len(types)}")
    return types[0]


@dataclass(frozen=True, slots=True)
class Relu(Op):
    """max(x, 0) on plain integers, which keeps the type (from `.tiny`). Networks use `clamp`."""

    name: ClassVar[str] = "relu"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        x = one_operand("relu", types)
        require(x.dtype in (I8, I32) and x.quant is None, f"relu takes plain i8 or i32, got {x}")
        return (x,)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        return (np.maximum(x, 0).astype(x.dtype),)


@dataclass(frozen=True, slots=True)
class Clamp(Op):
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
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Unary(Op):
    """One operand, same shape; f32, or quantized with `out` and `numerics`."""

    out: Quant | None = None
    numerics: Numerics | None = None

    def infer(self, types: Types) -> Types:
        x = one_operand(self.name, types)
        check_numerics(self.name, x, self.out, self.numerics)
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Logistic(_Unary):
    """1 / (1 + e^-x)."""

    name: ClassVar[str] = "logistic"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Tanh(_Unary):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class HardSwish(_Unary):
    """x * min(max(x + 3, 0), 6) / 6."""

    name: ClassVar[str] = "hard_swish"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Abs(_Unary):
    """|x|."""

    name: ClassVar[str] = "abs"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class LeakyRelu(Op):
    """x where x >= 0, else alpha * x."""

    alpha: float
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "leaky_relu"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        x = one_operand("leaky_relu", types)
        check_numerics("leaky_relu", x, self.out, self.numerics)
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PRelu(Op):
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
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Elu(Op):
    """x where x >= 0, else alpha * (e^x - 1)."""

    alpha: float = 1.0
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "elu"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        x = one_operand("elu", types)
        check_numerics("elu", x, self.out, self.numerics)
        return (result(x, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class HardSigmoid(Op):
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
        return (np.clip(scaled, 0, 1).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class Gelu(Op):
    """0.5 x (1 + erf(x / sqrt 2)), or its tanh form (`approximate`), floats."""

    approximate: bool = False
    name: ClassVar[str] = "gelu"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        return (float_operand("gelu", types),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


def float_operand(name: str, types: Types) -> TensorType:
    """The only operand, which must be f32.

    Raises: TypeMismatch.
    """
    x = one_operand(name, types)
    require(x.dtype is F32, f"{name} takes f32, got {x}")
    return x


@dataclass(frozen=True, slots=True)
class _FloatUnary(Op):
    def infer(self, types: Types) -> Types:
        return (float_operand(self.name, types),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Exp(_FloatUnary):
    """e^x."""

    name: ClassVar[str] = "exp"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Log(_FloatUnary):
    """Natural logarithm."""

    name: ClassVar[str] = "log"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Sqrt(_FloatUnary):
    """Square root."""

    name: ClassVar[str] = "sqrt"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Rsqrt(_FloatUnary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "rsqrt"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Neg(_FloatUnary):
    """-x."""

    name: ClassVar[str] = "neg"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Reciprocal(_FloatUnary):
    """1 / x."""

    name: ClassVar[str] = "reciprocal"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Erf(_FloatUnary):
    """Gauss error function."""

    name: ClassVar[str] = "erf"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Floor(_FloatUnary):
    """Largest integer not above x."""

    name: ClassVar[str] = "floor"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Ceil(_FloatUnary):
    """Smallest integer not below x."""

    name: ClassVar[str] = "ceil"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Round(_FloatUnary):
    """Nearest integer, halves to even."""

    name: ClassVar[str] = "round"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Sin(_FloatUnary):
    """Sine of radians."""

    name: ClassVar[str] = "sin"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Cos(_FloatUnary):
    """Cosine of radians."""

    name: ClassVar[str] = "cos"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Softplus(_FloatUnary):
    """log(1 + e^x)."""

    name: ClassVar[str] = "softplus"
    reuses_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Lookup(Op):
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
        return (table[x.astype(np.int64) + 128],)


@dataclass(frozen=True, slots=True)
class Softmax(Op):
    """e^(beta x) / sum of e^(beta x) along an axis.

    x: [...] -> y: [...]; quantized results may be of another type (`dtype`, i8 -> i16).
    """

    axis: int
    beta: float = 1.0
    out: Quant | None = None
    dtype: DType = F32
    numerics: Numerics | None = None
    name: ClassVar[str] = "softmax"
    reuses_input: ClassVar[bool] = True

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
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LogSoftmax(Op):
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
        raise NotImplementedError
