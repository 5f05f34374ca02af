"""Arithmetic, comparison, logic, selection and casts on corresponding elements."""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import BOOL, F32, DType
from trivet.frontends.onnx.context import Context, Converter, Converters
from trivet.frontends.onnx.tensors import DTYPES, dtype_name
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops.activation import Floor
from trivet.ops.elementwise import (
    Add,
    Cast,
    Div,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Maximum,
    Minimum,
    Mul,
    NotEqual,
    Pow,
    Sub,
    Where,
)

ONNX = Converters()


def _binary(op: Op) -> Converter:
    def convert(ctx: Context) -> Value:
        return ctx.emit(op, ctx.plain(0), _aligned(ctx, ctx.plain(0), ctx.plain(1)))

    return convert


def _aligned(ctx: Context, a: Value, b: Value) -> Value:
    """Operator set 6 lines b up with the axes of a from `axis` on; later ones broadcast as numpy does."""
    if ctx.opset >= 7 or not ctx.attr_flag("broadcast") or "axis" not in ctx:
        return b
    axis = ctx.axis(ctx.attr_int("axis"), a.type.rank)
    return ctx.reshape(b, (*b.type.shape, *(1,) * max(0, a.type.rank - axis - b.type.rank)))


# Booleans are 0 and 1, so the logical operators are extrema and comparisons.
for _kind, _op in {
    "Add": Add(),
    "Sub": Sub(),
    "Mul": Mul(),
    "Div": Div(),
    "Equal": Equal(),
    "Less": Less(),
    "LessOrEqual": LessEqual(),
    "Greater": Greater(),
    "GreaterOrEqual": GreaterEqual(),
    "And": Minimum(),
    "Or": Maximum(),
    "Xor": NotEqual(),
}.items():
    ONNX(_kind)(_binary(_op))


def _variadic(op: Op) -> Converter:
    def convert(ctx: Context) -> Value:
        result = ctx.plain(0)
        for index in range(1, len(ctx)):
            result = ctx.emit(op, result, ctx.plain(index))
        return result

    return convert


ONNX("Sum")(_variadic(Add()))
ONNX("Max")(_variadic(Maximum()))
ONNX("Min")(_variadic(Minimum()))


@ONNX("Mean")
def mean(ctx: Context) -> Value:
    """The mean of the operands, element by element."""
    total = _variadic(Add())(ctx)
    assert isinstance(total, Value)
    return ctx.emit(Mul(), total, ctx.like(total, 1.0 / len(ctx)))


@ONNX("Not")
def logical_not(ctx: Context) -> Value:
    return ctx.emit(Equal(), ctx.operand(0), ctx.constant(False, BOOL))


@ONNX("IsNaN")
def is_nan(ctx: Context) -> Value:
    """Only NaN differs from itself."""
    return ctx.emit(NotEqual(), ctx.operand(0), ctx.operand(0))


@ONNX("Pow")
def power(ctx: Context) -> Value:
    """a to the b; the result has the type of a. Small constant exponents are products and roots elsewhere."""
    base, exponent = ctx.operand(0), ctx.operand(1)
    data = exponent.data
    if (
        data is not None
        and data.size == 1
        and float(data.reshape(-1)[0]) == 2.0
        and exponent.type.rank <= base.type.rank
    ):
        return ctx.emit(Mul(), base, base)
    if exponent.type.dtype is not F32:
        exponent = ctx.emit(Cast(F32), exponent)
    if base.type.dtype is F32:
        return ctx.emit(Pow(), base, exponent)
    return ctx.emit(Cast(base.type.dtype), ctx.emit(Pow(), ctx.emit(Cast(F32), base), exponent))


@ONNX("Mod")
def modulo(ctx: Context) -> Value:
    """a - b * floor(a / b) for floats (`fmod`: truncated), exact for constants only, so integers must be known."""
    a, b = ctx.operand(0), ctx.operand(1)
    if a.data is not None and b.data is not None:
        if a.type.dtype.is_integer and not np.all(b.data):
            ctx.invalid("division by zero")
        remainder = np.fmod if ctx.attr_flag("fmod") else np.mod
        return ctx.constant(remainder(a.data, b.data), a.type.dtype)
    if a.type.dtype is not F32 or ctx.attr_flag("fmod"):
        ctx.refuse(f"a remainder of {a.type.dtype.name} values", hint="a float Mod is a - b * Floor(a / b)")
    return ctx.emit(Sub(), a, ctx.emit(Mul(), b, ctx.emit(Floor(), ctx.emit(Div(), a, b))))


@ONNX("Where")
def where(ctx: Context) -> Value:
    return ctx.emit(Where(), ctx.operand(0), ctx.plain(1), ctx.plain(2))


@ONNX("Cast")
def cast(ctx: Context) -> Value:
    number = ctx.attr_int("to")
    dtype = DTYPES.get(number)
    if dtype is None:
        ctx.refuse(f"a cast to {dtype_name(number)}", hint="cast to float or an integer type")
    return cast_to(ctx, ctx.plain(0), dtype)


@ONNX("CastLike")
def cast_like(ctx: Context) -> Value:
    return cast_to(ctx, ctx.plain(0), ctx.operand(1).type.dtype)


def cast_to(ctx: Context, x: Value, dtype: DType) -> Value:
    """x with another element type; nothing is emitted for the same one."""
    if dtype.bits == 4 and x.type.dtype is not dtype:
        ctx.refuse(f"a cast to {dtype.name}", hint="4-bit elements are for constants: cast to int8")
    return x if x.type.dtype is dtype else ctx.emit(Cast(dtype), x)


@ONNX("Sign")
def sign(ctx: Context) -> Value:
    """(x > 0) - (x < 0)."""
    x = ctx.operand(0)
    zero = ctx.like(x, 0)
    positive = cast_to(ctx, ctx.emit(Greater(), x, zero), x.type.dtype)
    negative = cast_to(ctx, ctx.emit(Less(), x, zero), x.type.dtype)
    return ctx.emit(Sub(), positive, negative)
