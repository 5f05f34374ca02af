"""Arithmetic of two operands: int8 in the cheapest exact form, float32, and plain int32."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.broadcast import BROADCAST, Broadcast, Params, broadcast
from trivet.backends.plan.kernels.limits import SHIFTS
from trivet.backends.plan.kernels.linear import find_linear, pair_table
from trivet.backends.plan.kernels.lookup import LOOKUP_S8
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.bounds import UNBOUNDED
from trivet.core.numerics import Numerics, Overflow
from trivet.ir.graph import Node
from trivet.ir.op import Op
from trivet.ops import elementwise as e
from trivet.ops import tflite_elementwise as tflite
from trivet.ops.stored import limits, scale_ratio

Arithmetic = e.Add | e.Sub | e.Mul | e.Div | e.SquaredDifference

_LIMITS = (Field("lo", I32, "least result"), Field("hi", I32, "largest result"))
_Q31 = (
    Field("mantissa", I32, "Q0.31"),
    Field("shift", I32, "left if positive", limits=SHIFTS),
    Field("zero", I32, "of the result"),
)

LINEAR_S8 = CKernel(
    80,
    "linear_s8",
    Record(
        "linear_s8",
        (
            Field("a_factor", I32),
            Field("b_factor", I32),
            Field("constant", I32),
            Field("right_shift", U32, "y = clamp((a*a_factor + b*b_factor + constant) >> right_shift)"),
            *_LIMITS,
            *BROADCAST,
        ),
    ),
)
SUM_S8 = CKernel(
    81,
    "sum_s8",
    Record(
        "sum_s8",
        (
            Field("a_terms", BLOB, "i32 [256]: what each stored value of a adds"),
            Field("b_terms", BLOB, "i32 [256]"),
            Field("square", U32, "1: sums are squared, modulo 2^32"),
            *_Q31,
            *_LIMITS,
            *BROADCAST,
        ),
    ),
)
PRODUCT_S8 = CKernel(
    82,
    "product_s8",
    Record(
        "product_s8",
        (Field("a_zero", I32, "zero point of a"), Field("b_zero", I32, "zero point of b"), *_Q31, *_LIMITS, *BROADCAST),
    ),
)
REAL_S8 = CKernel(
    83,
    "real_s8",
    Record(
        "real_s8",
        (
            Field("a_reals", BLOB, "f32 [256]: the real number of each stored value of a"),
            Field("b_reals", BLOB, "f32 [256]"),
            Field("mode", U32, "0 a+b, 1 a-b, 2 a*b, 3 a/b, 4 (a-b)^2"),
            Field("scale", F32, "of the result: reals are divided by it and rounded half to even"),
            Field("zero", I32, "of the result"),
            *_LIMITS,
            *BROADCAST,
        ),
    ),
)
PAIRS_S8 = CKernel(
    84, "pairs_s8", Record("pairs_s8", (Field("table", BLOB, "i8 [256, 256]: the result of each pair"), *BROADCAST))
)
EXTREMUM_S8 = CKernel(
    85, "extremum_s8", Record("extremum_s8", (Field("smaller", U32, "0: the larger, 1: the smaller"), *BROADCAST))
)
ARITHMETIC_F32 = CKernel(
    86,
    "arithmetic_f32",
    Record(
        "arithmetic_f32",
        (
            Field("mode", U32, "0 a+b, 1 a-b, 2 a*b, 3 a/b, 4 (a-b)^2, 5 larger, 6 smaller, 7 a^b"),
            Field("lo", F32, "least result"),
            Field("hi", F32, "largest result"),
            *BROADCAST,
        ),
    ),
)
ARITHMETIC_I32 = CKernel(
    87,
    "arithmetic_i32",
    Record(
        "arithmetic_i32",
        (
            Field("mode", U32, "0 a+b, 1 a-b, 2 a*b, 3 a/b toward zero, 4 (a-b)^2, 5 larger, 6 smaller; modulo 2^32"),
            Field("a_narrow", U32, "1: a is int8"),
            Field("b_narrow", U32, "1: b is int8"),
            *_LIMITS,
            *BROADCAST,
        ),
    ),
)
FAMILY = (LINEAR_S8, SUM_S8, PRODUCT_S8, REAL_S8, PAIRS_S8, EXTREMUM_S8, ARITHMETIC_F32, ARITHMETIC_I32)

_MODES: dict[type[Op], int] = {
    e.Add: 0, e.Sub: 1, e.Mul: 2, e.Div: 3, e.SquaredDifference: 4, e.Maximum: 5, e.Minimum: 6, e.Pow: 7,
}  # fmt: skip
_STORED = np.arange(-128, 128).astype(np.int8)


@KERNELS.kernel(e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference, e.Maximum, e.Minimum)
def with_one_constant(node: Node) -> Call | None:
    """An int8 operation with one constant number is a function of one stored value: a table."""
    if len(node.inputs) != 2 or any(v.type.dtype is not d.I8 or v.type.quant is None for v in node.inputs):
        return None
    index = next((i for i, v in enumerate(node.inputs) if v.is_constant and v.type.elements == 1), None)
    if index is None or node.inputs[1 - index].type.shape != node.output.type.shape:
        return None
    constant, x = node.inputs[index], node.inputs[1 - index]
    assert constant.data is not None
    single = constant.data.reshape((1,))
    operands = [(_STORED, x.type.with_shape((256,))), (single, constant.type.with_shape((1,)))]
    ordered = operands if index == 1 else operands[::-1]
    (table,) = node.op.evaluate((ordered[0][0], ordered[1][0]), (ordered[0][1], ordered[1][1]))
    return Call(LOOKUP_S8, (x,), {"table": table})


@KERNELS.kernel(e.Add, e.Sub)
def linear_s8(node: Node) -> Call | None:
    """Sums of two int8 operands whose linear form is proved."""
    op, met = node.op, _int8_operands(node)
    assert isinstance(op, e.Add | e.Sub)
    if met is None:
        return None
    a, b = (v.type for v in node.inputs)
    assert a.quant is not None and b.quant is not None and op.out is not None
    sign = 1 if isinstance(op, e.Add) else -1
    table = pair_table(op, a, b)
    found = find_linear(table, a.quant.scale / op.out.scale, sign * b.quant.scale / op.out.scale)
    if found is None:
        return None
    params: Params = {
        "a_factor": found.a,
        "b_factor": found.b,
        "constant": found.constant,
        "right_shift": found.shift,
        "lo": int(table.min()),
        "hi": int(table.max()),
    }
    return Call(LINEAR_S8, met.operands, params | met.params)


@KERNELS.kernel(e.Add, e.Sub, e.SquaredDifference)
def sum_s8(node: Node) -> Call | None:
    """Sums as TensorFlow Lite computes them: both terms from tables, one rescaling."""
    op, met = node.op, _int8_operands(node)
    assert isinstance(op, e.Add | e.Sub | e.SquaredDifference)
    if met is None or op.numerics is Numerics.ONNX:
        return None
    square = isinstance(op, e.SquaredDifference)
    types = tuple(v.type for v in node.inputs)
    assert op.out is not None
    terms, result = tflite.sum_terms(types, op.out, 7 if square else 20, square)
    negate = isinstance(op, e.Sub | e.SquaredDifference)
    lo, hi = limits(d.I8, op.clamp)
    params: Params = {
        "a_terms": terms[0].astype("<i4"),
        "b_terms": (-terms[1] if negate else terms[1]).astype("<i4"),
        "square": int(square),
        "mantissa": result.mantissa,
        "shift": result.shift,
        "zero": op.out.zero_point,
        "lo": lo,
        "hi": hi,
    }
    return Call(SUM_S8, met.operands, params | met.params)


@KERNELS.kernel(e.Mul)
def product_s8(node: Node) -> Call | None:
    op, met = node.op, _int8_operands(node)
    assert isinstance(op, e.Mul)
    if met is None or op.numerics in (None, Numerics.ONNX):
        return None
    a, b = (v.type.quant for v in node.inputs)
    assert a is not None and b is not None and op.out is not None and op.numerics is not None
    ratio = scale_ratio(op.numerics, (a.scale, b.scale), (op.out.scale,))
    lo, hi = limits(d.I8, op.clamp)
    params: Params = {
        "a_zero": a.zero_point,
        "b_zero": b.zero_point,
        "mantissa": ratio.mantissa,
        "shift": ratio.shift,
        "zero": op.out.zero_point,
        "lo": lo,
        "hi": hi,
    }
    return Call(PRODUCT_S8, met.operands, params | met.params)


@KERNELS.kernel(e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference)
def real_s8(node: Node) -> Call | None:
    """ONNX's operations on dequantized values, quantized again."""
    op, met = node.op, _int8_operands(node)
    assert isinstance(op, Arithmetic)
    if met is None or op.numerics is not Numerics.ONNX:
        return None
    a, b = (v.type.quant for v in node.inputs)
    assert a is not None and b is not None and op.out is not None
    lo, hi = limits(d.I8, op.clamp)
    params: Params = {
        "a_reals": (a.scale * (_STORED.astype(np.float64) - a.zero_point)).astype("<f4"),
        "b_reals": (b.scale * (_STORED.astype(np.float64) - b.zero_point)).astype("<f4"),
        "mode": _MODES[type(op)],
        "scale": op.out.scale,
        "zero": op.out.zero_point,
        "lo": lo,
        "hi": hi,
    }
    return Call(REAL_S8, met.operands, params | met.params)


@KERNELS.kernel(e.Div)
def pairs_s8(node: Node) -> Call | None:
    """Quotients of two int8 operands: 65,536 results in flash."""
    met = _int8_operands(node)
    if met is None:
        return None
    return Call(PAIRS_S8, met.operands, {"table": pair_table(node.op, *node.input_types)} | met.params)


@KERNELS.kernel(e.Maximum, e.Minimum)
def extremum_s8(node: Node) -> Call | None:
    met = broadcast(node)
    if met is None or node.output.type.dtype not in (d.I8, d.BOOL):
        return None
    return Call(EXTREMUM_S8, met.operands, {"smaller": int(isinstance(node.op, e.Minimum))} | met.params)


@KERNELS.kernel(e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference, e.Maximum, e.Minimum, e.Pow)
def arithmetic_f32(node: Node) -> Call | None:
    met = broadcast(node)
    if met is None or node.output.type.dtype is not d.F32:
        return None
    clamp = node.op.clamp if isinstance(node.op, Arithmetic) else UNBOUNDED
    params: Params = {"mode": _MODES[type(node.op)], "lo": clamp.lo, "hi": clamp.hi}
    return Call(ARITHMETIC_F32, met.operands, params | met.params)


@KERNELS.kernel(e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference, e.Maximum, e.Minimum)
def arithmetic_i32(node: Node) -> Call | None:
    """Plain int32, and the exact sums of `.tiny`, whose operands may be int8."""
    op, met = node.op, broadcast(node)
    if met is None or node.output.type.dtype is not d.I32 or node.output.type.quant is not None:
        return None
    narrow = [v.type.dtype is d.I8 for v in node.inputs]
    exact = isinstance(op, e.Add) and op.overflow is Overflow.EXACT
    if any(narrow) and not exact:
        return None
    clamp = op.clamp if isinstance(op, Arithmetic) else UNBOUNDED
    lo, hi = limits(d.I32, clamp)
    params: Params = {
        "mode": _MODES[type(op)],
        "a_narrow": int(narrow[0]),
        "b_narrow": int(narrow[1]),
        "lo": lo,
        "hi": hi,
    }
    return Call(ARITHMETIC_I32, met.operands, params | met.params)


def _int8_operands(node: Node) -> Broadcast | None:
    """The operands of a quantized int8 operation of two operands."""
    if any(v.type.dtype is not d.I8 or v.type.quant is None for v in node.inputs):
        return None
    return broadcast(node)
