"""Arithmetic, comparison, logic, selection and casts on corresponding elements."""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, U8, U16, U32, DType
from trivet.frontends.onnx.context import Context, Converter, Converters
from trivet.frontends.onnx.tensors import DTYPES, dtype_name
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops.bits import BitKind, Bitwise
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
from trivet.ops.mathematics import Floor, Neg

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
    """a - b * floor(a / b), with `fmod` truncated; the remainder of integers is made from a quotient that truncates."""
    a, b, truncated = ctx.operand(0), ctx.operand(1), ctx.attr_flag("fmod")
    if a.data is not None and b.data is not None:
        if a.type.dtype.is_integer and not np.all(b.data):
            ctx.invalid("division by zero")
        remainder = np.fmod if truncated else np.mod
        return ctx.constant(remainder(a.data, b.data), a.type.dtype)
    dtype = a.type.dtype
    if dtype not in (F32, I32, I64):
        wider = {I8: I32, I16: I32, U8: I32, U16: I32, U32: I64}.get(dtype)
        if wider is None:
            ctx.refuse(f"a remainder of {dtype.name} values", hint="cast to float or int64 before it")
        rest = _remainder(ctx, cast_to(ctx, a, wider), cast_to(ctx, b, wider), truncated)
        return cast_to(ctx, rest, dtype)
    return _remainder(ctx, a, b, truncated)


def _remainder(ctx: Context, a: Value, b: Value, truncated: bool) -> Value:
    """Of i32 and i64, whose quotient is truncated, and of f32."""
    quotient = ctx.emit(Div(), a, b)
    if a.type.dtype is F32:
        whole = ctx.emit(Floor(), quotient)
        if truncated:
            up = ctx.emit(Neg(), ctx.emit(Floor(), ctx.emit(Neg(), quotient)))
            whole = ctx.emit(Where(), ctx.emit(Less(), quotient, ctx.constant(0.0)), up, whole)
        return ctx.emit(Sub(), a, ctx.emit(Mul(), b, whole))
    rest = ctx.emit(Sub(), a, ctx.emit(Mul(), b, quotient))
    if truncated:
        return rest
    zero = ctx.like(a, 0)
    other_side = ctx.emit(NotEqual(), ctx.emit(Less(), rest, zero), ctx.emit(Less(), b, zero))
    wrong = ctx.emit(Minimum(), other_side, ctx.emit(NotEqual(), rest, zero))
    return ctx.emit(Where(), wrong, ctx.emit(Add(), rest, b), rest)


@ONNX("IsInf")
def is_inf(ctx: Context) -> Value:
    """Equal to an infinity of a sign that counts."""
    x = ctx.operand(0)
    signs = [s for s, name in ((np.inf, "detect_positive"), (-np.inf, "detect_negative")) if ctx.attr_flag(name, True)]
    if not signs:
        return ctx.emit(Less(), x, ctx.like(x, -np.inf))
    found = [ctx.emit(Equal(), x, ctx.like(x, sign)) for sign in signs]
    return found[0] if len(found) == 1 else ctx.emit(Maximum(), *found)


_BITS = {"BitwiseAnd": BitKind.AND, "BitwiseOr": BitKind.OR, "BitwiseXor": BitKind.XOR}


@ONNX(*_BITS)
def bitwise(ctx: Context) -> Value:
    return ctx.emit(Bitwise(_BITS[ctx.node.kind]), ctx.plain(0), ctx.plain(1))


@ONNX("BitwiseNot")
def bitwise_not(ctx: Context) -> Value:
    x = ctx.plain(0)
    ones = np.asarray(-1 if x.type.dtype.min < 0 else x.type.dtype.max, x.type.dtype.numpy)
    return ctx.emit(Bitwise(BitKind.XOR), x, ctx.constant(ones, x.type.dtype))


@ONNX("BitShift")
def bit_shift(ctx: Context) -> Value:
    kind = BitKind.LEFT if ctx.attr_text("direction") == "LEFT" else BitKind.RIGHT
    return ctx.emit(Bitwise(kind), ctx.plain(0), ctx.plain(1))


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
