"""Operators on corresponding elements of two or three operands, which broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import BOOL, F32, I8, I32, DType
from trivet.core.numerics import Numerics, Overflow
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, broadcast_shapes, require
from trivet.ir.types import TensorType, Types
from trivet.ops.quantized import QUANTIZED, check_numerics, is_quantized, result


def check_pair(name: str, types: Types) -> tuple[TensorType, TensorType]:
    """Two operands of one element type.

    Raises: TypeMismatch.
    """
    require(len(types) == 2, f"{name} takes 2 operands, got {len(types)}")
    a, b = types
    require(a.dtype is b.dtype, f"{name} takes operands of one element type, got {a} and {b}")
    return a, b


@dataclass(frozen=True, slots=True)
class _Arithmetic(Op):
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

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sub(_Arithmetic):
    """Difference a - b, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "sub"
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Mul(_Arithmetic):
    """Product, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "mul"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Div(_Arithmetic):
    """Quotient a / b, then clamp; plain integers divide toward zero.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "div"
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SquaredDifference(_Arithmetic):
    """(a - b)^2, then clamp.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "squared_difference"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Extremum(Op):
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
        return (np.maximum(*arrays),)


@dataclass(frozen=True, slots=True)
class Minimum(_Extremum):
    """The smaller element.

    a, b: shapes that broadcast -> y: their broadcast shape
    """

    name: ClassVar[str] = "minimum"
    commutative: ClassVar[bool] = True
    reuses_input: ClassVar[bool] = True

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (np.minimum(*arrays),)


@dataclass(frozen=True, slots=True)
class Pow(Op):
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
        return (np.power(*arrays).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class _Comparison(Op):
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
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Equal(_Comparison):
    """a == b."""

    name: ClassVar[str] = "equal"
    commutative: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class NotEqual(_Comparison):
    """a != b."""

    name: ClassVar[str] = "not_equal"
    commutative: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Less(_Comparison):
    """a < b."""

    name: ClassVar[str] = "less"


@dataclass(frozen=True, slots=True)
class LessEqual(_Comparison):
    """a <= b."""

    name: ClassVar[str] = "less_equal"


@dataclass(frozen=True, slots=True)
class Greater(_Comparison):
    """a > b."""

    name: ClassVar[str] = "greater"


@dataclass(frozen=True, slots=True)
class GreaterEqual(_Comparison):
    """a >= b."""

    name: ClassVar[str] = "greater_equal"


@dataclass(frozen=True, slots=True)
class Where(Op):
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


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """Another element type: floats truncate toward zero to integers, integers wrap, anything nonzero is true."""

    dtype: DType
    name: ClassVar[str] = "cast"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].quant is None, "cast takes one operand without quantization")
        return (TensorType(self.dtype, types[0].shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError
