"""Activations, functions of one operand, softmax."""

from __future__ import annotations

import math

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32
from trivet.frontends.onnx.context import MICROSOFT, Context, Converter, Converters
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops import activation as ops
from trivet.ops import mathematics as m
from trivet.ops.elementwise import Add, Div, Greater, Less, Maximum, Minimum, Mul, Sub, Where
from trivet.ops.softmax import LogSoftmax, Softmax

ONNX = Converters()


def _unary(op: Op) -> Converter:
    def convert(ctx: Context) -> Value:
        return ctx.emit(op, ctx.plain(0))

    return convert


for _kind, _op in {
    "Sigmoid": ops.Logistic(),
    "Tanh": ops.Tanh(),
    "HardSwish": ops.HardSwish(),
    "Exp": m.Exp(),
    "Log": m.Log(),
    "Sqrt": m.Sqrt(),
    "Reciprocal": m.Reciprocal(),
    "Erf": m.Erf(),
    "Floor": m.Floor(),
    "Ceil": m.Ceil(),
    "Round": m.Round(),
    "Sin": m.Sin(),
    "Atan": m.Atan(),
    "Cos": m.Cos(),
    "Softplus": ops.Softplus(),
    "Relu": ops.Clamp(Bounds(0.0, math.inf)),
}.items():
    ONNX(_kind)(_unary(_op))


@ONNX("Neg")
def negate(ctx: Context) -> Value:
    x = ctx.plain(0)
    return ctx.emit(m.Neg(), x) if x.type.dtype is F32 else ctx.emit(Sub(), ctx.like(x, 0), x)


@ONNX("Abs")
def absolute(ctx: Context) -> Value:
    x = ctx.plain(0)
    return ctx.emit(m.Abs(), x) if x.type.dtype is F32 else ctx.emit(Maximum(), x, ctx.emit(Sub(), ctx.like(x, 0), x))


@ONNX("LeakyRelu")
def leaky_relu(ctx: Context) -> Value:
    return ctx.emit(ops.LeakyRelu(ctx.attr_float("alpha", 0.01)), ctx.operand(0))


@ONNX("Elu")
def elu(ctx: Context) -> Value:
    return ctx.emit(ops.Elu(ctx.attr_float("alpha", 1.0)), ctx.operand(0))


@ONNX("Selu")
def selu(ctx: Context) -> Value:
    """gamma * elu(x, alpha)."""
    elu_ = ctx.emit(ops.Elu(ctx.attr_float("alpha", 1.67326319217681884765625)), ctx.operand(0))
    return ctx.emit(Mul(), elu_, ctx.constant(ctx.attr_float("gamma", 1.05070102214813232421875)))


@ONNX("Celu")
def celu(ctx: Context) -> Value:
    """alpha * elu(x / alpha)."""
    alpha = ctx.constant(ctx.attr_float("alpha", 1.0))
    return ctx.emit(Mul(), ctx.emit(ops.Elu(), ctx.emit(Div(), ctx.operand(0), alpha)), alpha)


@ONNX("ThresholdedRelu")
def thresholded_relu(ctx: Context) -> Value:
    """x where x > alpha, else 0."""
    x = ctx.operand(0)
    above = ctx.emit(Greater(), x, ctx.constant(ctx.attr_float("alpha", 1.0)))
    return ctx.emit(Where(), above, x, ctx.constant(0.0))


@ONNX("Shrink")
def shrink(ctx: Context) -> Value:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x, bias, lambd = ctx.operand(0), ctx.attr_float("bias", 0.0), ctx.attr_float("lambd", 0.5)
    high = ctx.emit(Sub(), x, ctx.constant(bias))
    low = ctx.emit(Add(), x, ctx.constant(bias))
    upper = ctx.emit(Where(), ctx.emit(Greater(), x, ctx.constant(lambd)), high, ctx.constant(0.0))
    return ctx.emit(Where(), ctx.emit(Less(), x, ctx.constant(-lambd)), low, upper)


@ONNX("Softsign")
def softsign(ctx: Context) -> Value:
    """x / (1 + |x|)."""
    x = ctx.operand(0)
    return ctx.emit(Div(), x, ctx.emit(Add(), ctx.emit(m.Abs(), x), ctx.constant(1.0)))


@ONNX("Mish")
def mish(ctx: Context) -> Value:
    """x * tanh(softplus(x))."""
    x = ctx.operand(0)
    return ctx.emit(Mul(), x, ctx.emit(ops.Tanh(), ctx.emit(ops.Softplus(), x)))


@ONNX("Swish")
@ONNX("QuickGelu", domain=MICROSOFT)
def swish(ctx: Context) -> Value:
    """x * sigmoid(alpha * x)."""
    x, alpha = ctx.operand(0), ctx.attr_float("alpha", 1.0 if ctx.node.kind == "Swish" else 1.702)
    scaled = x if alpha == 1.0 else ctx.emit(Mul(), x, ctx.constant(alpha))
    return ctx.emit(Mul(), x, ctx.emit(ops.Logistic(), scaled))


@ONNX("Gelu")
def gelu(ctx: Context) -> Value:
    mode = ctx.attr_text("approximate", "none")
    if mode not in ("none", "tanh"):
        ctx.invalid(f"approximate '{mode}' is neither none nor tanh")
    return ctx.emit(ops.Gelu(mode == "tanh"), ctx.operand(0))


@ONNX("Gelu", "BiasGelu", domain=MICROSOFT)
def microsoft_gelu(ctx: Context) -> Value:
    return ctx.emit(ops.Gelu(), _biased(ctx))


@ONNX("FastGelu", domain=MICROSOFT)
def fast_gelu(ctx: Context) -> Value:
    return ctx.emit(ops.Gelu(approximate=True), _biased(ctx))


def _biased(ctx: Context) -> Value:
    bias = ctx.optional(1)
    return ctx.operand(0) if bias is None else ctx.emit(Add(), ctx.operand(0), bias)


@ONNX("HardSigmoid")
def hard_sigmoid(ctx: Context) -> Value:
    return ctx.emit(ops.HardSigmoid(ctx.attr_float("alpha", 0.2), ctx.attr_float("beta", 0.5)), ctx.operand(0))


@ONNX("PRelu")
def prelu(ctx: Context) -> Value:
    """x where x >= 0, else slope * x; the slope broadcasts to x."""
    return ctx.emit(ops.PRelu(), ctx.operand(0), ctx.operand(1))


@ONNX("Clip")
def clip(ctx: Context) -> Value:
    """Bounds as attributes (before operator set 11) or operands; those computed at run time become min and max."""
    x = ctx.plain(0)
    if ctx.opset < 11:
        return _clamped(ctx, x, ctx.attr_float("min", -math.inf), ctx.attr_float("max", math.inf))
    low, high = ctx.optional(1), ctx.optional(2)
    bounds = [None if v is None else ctx.constant_data(v) for v in (low, high)]
    if (low is None or bounds[0] is not None) and (high is None or bounds[1] is not None):
        lo, hi = (ctx.known_scalar(i, "a bound") if ctx.has(i) else d for i, d in ((1, -math.inf), (2, math.inf)))
        return _clamped(ctx, x, lo, hi)
    if low is not None:
        x = ctx.emit(Maximum(), x, ctx.unquantized(low))
    return x if high is None else ctx.emit(Minimum(), x, ctx.unquantized(high))


def _clamped(ctx: Context, x: Value, lo: float, hi: float) -> Value:
    """Where the bounds cross, every element becomes the upper one."""
    return ctx.emit(ops.Clamp(Bounds(min(lo, hi), hi)), x)


@ONNX("Softmax", "LogSoftmax")
def softmax(ctx: Context) -> Value:
    """Along one axis; before operator set 13 along all axes from `axis` on, taken together."""
    x = ctx.operand(0)
    rank = x.type.rank
    axis = ctx.axis(ctx.attr_int("axis", -1 if ctx.opset >= 13 else 1), rank)
    make = Softmax if ctx.node.kind == "Softmax" else LogSoftmax
    if ctx.opset >= 13 or axis == rank - 1:
        return ctx.emit(make(axis), x)
    shape = x.type.shape
    flat = ctx.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    return ctx.reshape(ctx.emit(make(1), flat), shape)


@ONNX("Sinh", "Cosh")
def hyperbolic(ctx: Context) -> Value:
    """(e^x -+ e^-x) / 2."""
    x = ctx.operand(0)
    up, down = ctx.emit(m.Exp(), x), ctx.emit(m.Exp(), ctx.emit(m.Neg(), x))
    both = ctx.emit(Sub() if ctx.node.kind == "Sinh" else Add(), up, down)
    return ctx.emit(Mul(), both, ctx.constant(0.5))


@ONNX("Tan")
def tangent(ctx: Context) -> Value:
    x = ctx.operand(0)
    return ctx.emit(Div(), ctx.emit(m.Sin(), x), ctx.emit(m.Cos(), x))


@ONNX("Asin", "Acos")
def inverse_sine(ctx: Context) -> Value:
    """asin x = 2 atan(x / (1 + sqrt(1 - x^2))), acos x = pi/2 - asin x."""
    x = ctx.operand(0)
    root = _root(ctx, ctx.emit(Sub(), ctx.constant(1.0), ctx.emit(Mul(), x, x)))
    half = ctx.emit(m.Atan(), ctx.emit(Div(), x, ctx.emit(Add(), ctx.constant(1.0), root)))
    sine = ctx.emit(Mul(), ctx.constant(2.0), half)
    return sine if ctx.node.kind == "Asin" else ctx.emit(Sub(), ctx.constant(math.pi / 2), sine)


@ONNX("Asinh", "Acosh", "Atanh")
def inverse_hyperbolic(ctx: Context) -> Value:
    """sign(x) log(|x| + sqrt(x^2 + 1)), log(x + sqrt(x^2 - 1)), log((1 + x) / (1 - x)) / 2."""
    x, one = ctx.operand(0), ctx.constant(1.0)
    square = ctx.emit(Mul(), x, x)
    match ctx.node.kind:
        case "Acosh":
            return ctx.emit(m.Log(), ctx.emit(Add(), x, _root(ctx, ctx.emit(Sub(), square, one))))
        case "Atanh":
            ratio = ctx.emit(Div(), ctx.emit(Add(), one, x), ctx.emit(Sub(), one, x))
            return ctx.emit(Mul(), ctx.emit(m.Log(), ratio), ctx.constant(0.5))
        case _:
            size = ctx.emit(m.Abs(), x)
            up = ctx.emit(m.Log(), ctx.emit(Add(), size, _root(ctx, ctx.emit(Add(), square, one))))
            below = ctx.emit(Less(), x, ctx.constant(0.0))
            return ctx.emit(Where(), below, ctx.emit(m.Neg(), up), up)


def _root(ctx: Context, x: Value) -> Value:
    return ctx.emit(m.Sqrt(), x)
