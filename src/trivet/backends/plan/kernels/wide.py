"""Arithmetic of int16 and int64: quantized int16 in every contract, plain int64 modulo 2^64."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.arithmetic import Arithmetic
from trivet.backends.plan.kernels.broadcast import BROADCAST, Params, broadcast
from trivet.backends.plan.kernels.limits import SCALES, SHIFTS
from trivet.backends.plan.kernels.slopes import SLOPES, slopes
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.bounds import UNBOUNDED
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, quantize_multiplier
from trivet.ir.graph import Node
from trivet.ir.op import Op
from trivet.ops import elementwise as e
from trivet.ops.activation import LeakyRelu
from trivet.ops.stored import limits, scale_ratio

_LIMITS = (Field("lo", I32, "least result"), Field("hi", I32, "largest result"))

ARITHMETIC_I16 = CKernel(
    162,
    "arithmetic_i16",
    Record(
        "arithmetic_i16",
        (
            *BROADCAST,
            Field("mode", U32, "0 a+b, 1 a-b, 2 a*b, 3 a/b, 4 (a-b)^2, 5 larger, 6 smaller"),
            Field("left", U32, "bits that operands are shifted left before they are scaled"),
            Field("a_mantissa", I32, "Q0.31"),
            Field("a_shift", I32, "left if positive", limits=SHIFTS),
            Field("b_mantissa", I32),
            Field("b_shift", I32, limits=SHIFTS),
            Field("mantissa", I32, "of the result"),
            Field("shift", I32, limits=SHIFTS),
            Field("a_zero", I32),
            Field("b_zero", I32),
            Field("zero", I32, "zero point of the result"),
            Field("a_scale", F32, "0: Q0.31 is meant, else float32 and halves to even", limits=SCALES),
            Field("b_scale", F32, limits=SCALES),
            Field("out_scale", F32, limits=SCALES),
            *_LIMITS,
        ),
    ),
)
LEAKY_RELU_I16 = CKernel(
    163,
    "leaky_relu_i16",
    Record(
        "leaky_relu_i16",
        (
            *SLOPES,
            Field("falls", U32, "1: the slope is negative, its magnitude is meant"),
            Field("in_zero", I32),
            Field("out_zero", I32),
        ),
    ),
)
ARITHMETIC_I64 = CKernel(
    164,
    "arithmetic_i64",
    Record(
        "arithmetic_i64",
        (
            Field("limits", BLOB, "i64 [2]: least and largest result"),
            Field("mode", U32, "0 a+b, 1 a-b, 2 a*b, 3 a/b toward zero, 4 (a-b)^2, 5 larger, 6 smaller"),
            *BROADCAST,
        ),
    ),
)
FAMILY = (ARITHMETIC_I16, LEAKY_RELU_I16, ARITHMETIC_I64)

_MODES: dict[type[Op], int] = {
    e.Add: 0, e.Sub: 1, e.Mul: 2, e.Div: 3, e.SquaredDifference: 4, e.Maximum: 5, e.Minimum: 6,
}  # fmt: skip
_ONE = Multiplier(1 << 30, 1)


@KERNELS.kernel(*_MODES)
def arithmetic_i16(node: Node) -> Call | None:
    """Everything but a quotient under TensorFlow Lite, which has none of int16."""
    op, met = node.op, broadcast(node)
    a, b = (v.type.quant for v in node.inputs)
    if met is None or node.output.type.dtype is not d.I16 or a is None or b is None:
        return None
    params: Params = {"mode": _MODES[type(op)], "left": 0, "a_scale": 0.0, "b_scale": 0.0, "out_scale": 1.0}
    first = second = last = _ONE
    out, clamp = node.output.type.quant, UNBOUNDED
    assert out is not None
    if isinstance(op, Arithmetic):
        assert op.numerics is not None
        clamp = op.clamp
        if op.numerics is Numerics.ONNX:
            params |= {"a_scale": a.scale, "b_scale": b.scale, "out_scale": out.scale}
        elif isinstance(op, e.Div):
            return None
        else:
            params["left"] = 15 if isinstance(op, e.Add | e.Sub) else 0
            first, second, last = _multipliers(op, op.numerics, (a.scale, b.scale, out.scale))
    lo, hi = limits(d.I16, clamp)
    params |= {
        "a_mantissa": first.mantissa, "a_shift": first.shift, "b_mantissa": second.mantissa,
        "b_shift": second.shift, "mantissa": last.mantissa, "shift": last.shift, "a_zero": a.zero_point,
        "b_zero": b.zero_point, "zero": out.zero_point, "lo": lo, "hi": hi,
    }  # fmt: skip
    return Call(ARITHMETIC_I16, met.operands, params | met.params)


def _multipliers(
    op: Arithmetic, numerics: Numerics, scales: tuple[float, float, float]
) -> tuple[Multiplier, Multiplier, Multiplier]:
    """For operand a, operand b and the result (ops/tflite_elementwise.py)."""
    a, b, out = scales
    if isinstance(op, e.Mul):
        return _ONE, _ONE, scale_ratio(numerics, (a, b), (out,))
    twice = 2 * max(a, b)
    last = twice * twice / out if isinstance(op, e.SquaredDifference) else twice / (2.0**15 * out)
    return quantize_multiplier(a / twice), quantize_multiplier(b / twice), quantize_multiplier(last)


@KERNELS.kernel(LeakyRelu)
def leaky_relu_i16(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, LeakyRelu)
    if x.dtype is not d.I16 or op.numerics in (None, Numerics.ONNX) or x.elements == 0:
        return None
    assert x.quant is not None and op.out is not None and op.numerics is not None
    params: Params = slopes(op.numerics, x.quant.scale, abs(op.alpha), op.out.scale)
    params |= {"falls": int(op.alpha < 0), "in_zero": x.quant.zero_point, "out_zero": op.out.zero_point}
    return Call(LEAKY_RELU_I16, node.inputs, params)


@KERNELS.kernel(*_MODES)
def arithmetic_i64(node: Node) -> Call | None:
    op, met = node.op, broadcast(node)
    if met is None or node.output.type.dtype is not d.I64:
        return None
    lo, hi = limits(d.I64, op.clamp if isinstance(op, Arithmetic) else UNBOUNDED)
    params: Params = {"limits": np.array([lo, hi], "<i8"), "mode": _MODES[type(op)]}
    return Call(ARITHMETIC_I64, met.operands, params | met.params)
