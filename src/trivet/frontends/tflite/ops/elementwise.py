"""Operators on corresponding elements."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from trivet.core.dtype import I16
from trivet.core.numerics import Numerics
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.activations import fused_bounds
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ir.graph import Value
from trivet.ir.op import Array
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
    SquaredDifference,
    Sub,
    Where,
)
from trivet.ops.movement import Reshape

_Arithmetic = type[Add] | type[Sub] | type[Mul] | type[Div]
_Comparison = type[Equal] | type[NotEqual] | type[Less] | type[LessEqual] | type[Greater] | type[GreaterEqual]


def arithmetic(kind: _Arithmetic, op: Conversion) -> None:
    a, b = op.operand(0), op.operand(1)
    if kind in (Add, Sub):
        _check_power_of_two_path(op, a, b)
    op.result(op.emit(kind(fused_bounds(op), op.out, op.numerics), a, b))


def _check_power_of_two_path(op: Conversion, a: Value, b: Value) -> None:
    """LiteRT adds int16 tensors whose scales are powers of two by shifts alone, which rounds in another way.

    Raises: Unsupported.
    """
    if op.scope.numerics is not Numerics.LITERT or a.type.dtype is not I16 or not op.flag("pot_scale_int16"):
        return
    scales = [q.scale for q in (a.type.quant, b.type.quant, op.out) if q is not None and q.is_per_tensor and q.scale]
    if all(abs(math.log2(scale) - round(math.log2(scale))) < 1e-3 for scale in scales):
        raise Unsupported("int16 addition with power-of-two scales in LiteRT's arithmetic", hint="--numerics tflm")


def squared_difference(op: Conversion) -> None:
    op.result(op.emit(SquaredDifference(out=op.out, numerics=op.numerics), op.operand(0), op.operand(1)))


def extremum(kind: type[Maximum] | type[Minimum], op: Conversion) -> None:
    """Stored values compare, whatever the operands' scales."""
    op.result(op.emit(kind(op.out), op.operand(0), op.operand(1)))


def comparison(kind: _Comparison, op: Conversion) -> None:
    a, b = op.operand(0), op.operand(1)
    op.result(op.emit(kind(op.contract if a.type.quant is not None else None), a, b))


def power(op: Conversion) -> None:
    op.result(op.emit(Pow(), op.operand(0), op.operand(1)))


def square(op: Conversion) -> None:
    x = op.operand(0)
    op.result(op.emit(Mul(out=op.out, numerics=op.numerics), x, x))


def add_n(op: Conversion) -> None:
    """A chain of additions from the left; floats only, since integer kernels scale all operands at once.

    Raises: Unsupported.
    """
    if op.numerics is not None:
        raise Unsupported("ADD_N on quantized operands", hint="write it as several ADD")
    total, *rest = op.operands() or [op.operand(0)]
    for operand in rest:
        total = op.emit(Add(), total, operand)
    op.result(total)


def select(op: Conversion) -> None:
    """Elements of a or b; in the first version a condition vector chooses whole slices along axis 0."""
    condition, a, b = op.operand(0), op.operand(1), op.operand(2)
    if op.record.kind == "SELECT" and condition.type.rank == 1 and a.type.rank > 1:
        shape = (condition.type.elements, *(1,) * (a.type.rank - 1))
        condition = op.emit(Reshape(shape), condition)
    op.result(op.emit(Where(), condition, a, b))


def cast(op: Conversion) -> None:
    """Stored values change their element type; a quantization plays no part."""
    x, dtype = op.plain_operand(0), op.source(0).dtype or op.declared().dtype
    op.plain_result(x if x.type.dtype is dtype else op.emit(Cast(dtype), x))


def fill(op: Conversion) -> None:
    """A constant of a shape that is known now: dims [R], value [] -> [dims]."""
    _constant_fill(op, op.integers(0), op.operand(1), op.constant(1))


def zeros_like(op: Conversion) -> None:
    x = op.operand(0)
    _constant_fill(op, x.type.shape, x, np.zeros((), x.type.dtype.numpy))


def _constant_fill(op: Conversion, shape: tuple[int, ...], like: Value, data: Array) -> None:
    if data.size != 1 or any(d < 0 for d in shape) or math.prod(shape) > 1 << 22:
        raise InvalidModel(f"cannot fill {list(shape)} with {data.size} values")
    op.result(op.plain(np.full(shape, data.ravel()[0]), like.type.with_shape(shape)))


def value_range(op: Conversion) -> None:
    """start, limit, delta -> start + i*delta below the limit."""
    start, limit, delta = (op.constant(i).ravel() for i in (0, 1, 2))
    if min(len(start), len(limit), len(delta)) < 1 or delta[0] == 0 or abs((limit[0] - start[0]) / delta[0]) > 1 << 20:
        raise InvalidModel("RANGE needs a start, a limit, and a step that reaches it")
    data = np.arange(start[0], limit[0], delta[0]).astype(start.dtype)
    op.result(op.plain(data, op.operand(0).type.with_shape(data.shape)))


CONVERTERS: dict[str, Converter] = {
    "ADD": partial(arithmetic, Add),
    "SUB": partial(arithmetic, Sub),
    "MUL": partial(arithmetic, Mul),
    "DIV": partial(arithmetic, Div),
    "SQUARED_DIFFERENCE": squared_difference,
    "MAXIMUM": partial(extremum, Maximum),
    "MINIMUM": partial(extremum, Minimum),
    "EQUAL": partial(comparison, Equal),
    "NOT_EQUAL": partial(comparison, NotEqual),
    "LESS": partial(comparison, Less),
    "LESS_EQUAL": partial(comparison, LessEqual),
    "GREATER": partial(comparison, Greater),
    "GREATER_EQUAL": partial(comparison, GreaterEqual),
    "POW": power,
    "SQUARE": square,
    "ADD_N": add_n,
    "SELECT": select,
    "SELECT_V2": select,
    "CAST": cast,
    "FILL": fill,
    "ZEROS_LIKE": zeros_like,
    "RANGE": value_range,
}
