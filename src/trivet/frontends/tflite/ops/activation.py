"""Functions of one operand."""

from __future__ import annotations

import math
from functools import partial

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32
from trivet.core.numerics import Numerics
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.activations import bounds_of, stored
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ir.op import Op
from trivet.ops.activation import Clamp, Elu, Gelu, HardSwish, LeakyRelu, Logistic, PRelu, Tanh
from trivet.ops.elementwise import Div, Maximum, Mul
from trivet.ops.mathematics import Abs, Ceil, Cos, Exp, Floor, Log, Neg, Round, Rsqrt, Sin, Sqrt
from trivet.ops.reduce import Sum
from trivet.ops.softmax import LogSoftmax, Softmax

_Unary = type[Logistic | Tanh | HardSwish | Abs | Exp | Rsqrt]
_L2_FLOOR = 1e-6


def unary(kind: _Unary, op: Conversion) -> None:
    op.result(op.emit(kind(op.out, op.numerics), op.operand(0)))


def float_unary(kind: type[Op], op: Conversion) -> None:
    """Raises: Unsupported, for quantized operands."""
    x = op.operand(0)
    if x.type.dtype is not F32:
        raise Unsupported(f"{op.record.kind} on {x.type.dtype.name}; accepted is float32", hint="keep it in float32")
    op.result(op.emit(kind(), x))


def relu(lo: float, hi: float, op: Conversion) -> None:
    """Rescaled to the result's quantization, then clamped; TFLM's RELU6 clamps the stored values as they are."""
    x, y = op.operand(0), op.declared()
    if y.quant is None:
        op.result(op.emit(Clamp(Bounds(lo, hi)), x))
        return
    if op.record.kind == "RELU6" and op.numerics is Numerics.TFLM and x.type.quant is not None:
        bounds = Bounds(x.type.quant.zero_point, min(x.type.dtype.max, stored(hi, x.type)))
        op.result(op.emit(Clamp(bounds, False, y.quant, op.numerics), x))
        return
    op.result(op.emit(Clamp(bounds_of(lo, hi, y), True, y.quant, op.numerics), x))


def leaky_relu(op: Conversion) -> None:
    op.result(op.emit(LeakyRelu(op.real("alpha"), op.out, op.numerics), op.operand(0)))


def prelu(op: Conversion) -> None:
    op.result(op.emit(PRelu(op.out, op.numerics), op.operand(0), op.operand(1)))


def elu(op: Conversion) -> None:
    op.result(op.emit(Elu(1.0, op.out, op.numerics), op.operand(0)))


def gelu(op: Conversion) -> None:
    op.result(op.emit(Gelu(op.flag("approximate"), op.out, op.numerics), op.operand(0)))


def softmax(op: Conversion) -> None:
    """Along the last axis; the element type of the result may be wider."""
    x, y = op.operand(0), op.declared()
    if x.type.rank == 0:
        raise InvalidModel("SOFTMAX of a scalar")
    op.result(op.emit(Softmax(x.type.rank - 1, op.real("beta"), y.quant, y.dtype, op.numerics), x))


def log_softmax(op: Conversion) -> None:
    x = op.operand(0)
    if x.type.rank == 0:
        raise InvalidModel("LOG_SOFTMAX of a scalar")
    op.result(op.emit(LogSoftmax(x.type.rank - 1, op.out, op.numerics), x))


def l2_normalization(op: Conversion) -> None:
    """x / max(|x|, 1e-6) along the last axis, floats only.

    Raises: Unsupported.
    """
    x = op.operand(0)
    if x.type.dtype is not F32 or x.type.rank == 0 or op.integer("activation"):
        raise Unsupported("L2_NORMALIZATION is accepted on float32, without an activation")
    squares = op.emit(Sum((x.type.rank - 1,), keep_dims=True), op.emit(Mul(), x, x))
    floor = op.number(_L2_FLOOR)
    op.result(op.emit(Div(), x, op.emit(Maximum(), op.emit(Sqrt(), squares), floor)))


CONVERTERS: dict[str, Converter] = {
    "LOGISTIC": partial(unary, Logistic),
    "TANH": partial(unary, Tanh),
    "HARD_SWISH": partial(unary, HardSwish),
    "ABS": partial(unary, Abs),
    "EXP": partial(unary, Exp),
    "RSQRT": partial(unary, Rsqrt),
    "RELU": partial(relu, 0.0, math.inf),
    "RELU6": partial(relu, 0.0, 6.0),
    "RELU_N1_TO_1": partial(relu, -1.0, 1.0),
    "RELU_0_TO_1": partial(relu, 0.0, 1.0),
    "LEAKY_RELU": leaky_relu,
    "PRELU": prelu,
    "ELU": elu,
    "GELU": gelu,
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": log_softmax,
    "L2_NORMALIZATION": l2_normalization,
    **{kind.name.upper(): partial(float_unary, kind) for kind in (Log, Sqrt, Neg, Floor, Ceil, Round, Sin, Cos)},
}
