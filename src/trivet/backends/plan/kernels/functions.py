"""Functions of one float32 number, and functions with a slope beside it."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.broadcast import BROADCAST, Params, broadcast
from trivet.backends.plan.kernels.limits import SCALES
from trivet.backends.plan.kernels.slopes import SLOPES, slopes
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import F32, I32, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ir.op import Op
from trivet.ops import activation as a
from trivet.ops import mathematics as m

FUNCTION_F32 = CKernel(
    130,
    "function_f32",
    Record(
        "function_f32",
        (
            Field("function", U32, "as numbered in runtime/src/kernels/function_f32.c"),
            Field("alpha", F32, "first parameter of the function: lower bound, slope"),
            Field("beta", F32, "second parameter of the function: upper bound, offset"),
        ),
    ),
)
PRELU_F32 = CKernel(131, "prelu_f32", Record("prelu_f32", BROADCAST))
PRELU_S8 = CKernel(
    132,
    "prelu_s8",
    Record(
        "prelu_s8",
        (
            Field("a_zero", I32, "zero point of the operand"),
            Field("b_zero", I32, "zero point of the slopes"),
            Field("zero", I32, "zero point of the result"),
            *SLOPES,
            Field("scale", F32, "of the operand, divided by the result's; 0: Q0.31 is meant", limits=SCALES),
            Field("b_scale", F32, "of the slopes", limits=SCALES),
            Field("out_scale", F32, "of the result", limits=(1e-30, 1e30)),
            *BROADCAST,
        ),
    ),
)
FAMILY = (FUNCTION_F32, PRELU_F32, PRELU_S8)

_PLAIN: dict[type[Op], int] = {
    a.Logistic: 1, a.Tanh: 2, a.HardSwish: 3, m.Abs: 4, m.Exp: 9, m.Log: 10, m.Sqrt: 11, m.Rsqrt: 12, m.Neg: 13,
    m.Reciprocal: 14, m.Erf: 15, m.Floor: 16, m.Ceil: 17, m.Round: 18, m.Sin: 19, m.Cos: 20, a.Softplus: 21,
    m.Atan: 23,
}  # fmt: skip
"""Functions without parameters."""


@KERNELS.kernel(*_PLAIN, a.Clamp, a.LeakyRelu, a.Elu, a.HardSigmoid, a.Gelu)
def function_f32(node: Node) -> Call | None:
    if node.inputs[0].type.dtype is not d.F32 or node.output.type.elements == 0:
        return None
    function, alpha, beta = _function(node.op)
    return Call(FUNCTION_F32, node.inputs, {"function": function, "alpha": alpha, "beta": beta})


def _function(op: Op) -> tuple[int, float, float]:
    """Number, first and second parameter."""
    match op:
        case a.Clamp():
            return 0, op.bounds.lo, op.bounds.hi
        case a.LeakyRelu():
            return 5, op.alpha, 0.0
        case a.Elu():
            return 6, op.alpha, 0.0
        case a.HardSigmoid():
            return 7, op.alpha, op.beta
        case a.Gelu():
            return 22 if op.approximate else 8, 0.0, 0.0
        case _:
            return _PLAIN[type(op)], 0.0, 0.0


@KERNELS.kernel(a.PRelu)
def prelu_f32(node: Node) -> Call | None:
    met = broadcast(node)
    if met is None or node.output.type.dtype is not d.F32:
        return None
    return Call(PRELU_F32, met.operands, met.params)


@KERNELS.kernel(a.PRelu)
def prelu_s8(node: Node) -> Call | None:
    op, met = node.op, broadcast(node)
    assert isinstance(op, a.PRelu)
    x, slope = (v.type.quant for v in node.inputs)
    if met is None or any(v.type.dtype is not d.I8 for v in node.inputs) or op.out is None or op.numerics is None:
        return None
    assert x is not None and slope is not None
    params: Params = {
        "a_zero": x.zero_point, "b_zero": slope.zero_point, "zero": op.out.zero_point,
        **slopes(op.numerics, x.scale, slope.scale, op.out.scale),
        "scale": x.scale if op.numerics is Numerics.ONNX else 0.0, "b_scale": slope.scale, "out_scale": op.out.scale,
    }  # fmt: skip
    return Call(PRELU_S8, met.operands, params | met.params)
