"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trivet.core.dtype import I64
from trivet.frontends.onnx.context import Context, Converter, Converters
from trivet.frontends.onnx.ops.movement import listed_axes, sliced
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops.elementwise import Add, Mul, Sub
from trivet.ops.mathematics import Abs, Exp, Log, Sqrt
from trivet.ops.reduce import ArgMax, ArgMin, Axes, Mean, ReduceMax, ReduceMin, ReduceProd, Sum

ONNX = Converters()

Reduction = Callable[[Axes, bool], Op]
"""An operator that reduces over axes and keeps them or not."""

_OPERAND_SINCE = {"ReduceSum": 13}
"""Operator sets from which on the axes are an operand; 18 for the others."""


def axes_of(ctx: Context, x: Value) -> Axes | None:
    """The axes to reduce, in increasing order; None where an empty list means to reduce nothing."""
    operand = 1 if ctx.opset >= _OPERAND_SINCE.get(ctx.node.kind, 18) else len(ctx) + 1
    axes = listed_axes(ctx, x.type.rank, operand)
    if axes:
        return tuple(sorted(set(axes)))
    return None if ctx.attr_flag("noop_with_empty_axes") else tuple(range(x.type.rank))


def _reduction(make: Reduction) -> Converter:
    def convert(ctx: Context) -> Value:
        x = ctx.plain(0)
        return reduced(ctx, make, x)

    return convert


def reduced(ctx: Context, make: Reduction, x: Value) -> Value:
    """x reduced over the axes that the operator names."""
    axes = axes_of(ctx, ctx.operand(0))
    if not axes:
        return x
    op = make(axes, ctx.attr_flag("keepdims", True))
    if x.type.elements:
        return ctx.emit(op, x)
    if not isinstance(op, Sum | ReduceProd):
        ctx.refuse(f"a reduction of the empty {x.type}")
    (result,) = op.infer((x.type,))
    return ctx.constant(np.full(result.shape, isinstance(op, ReduceProd)), result.dtype)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceMean": Mean,
    "ReduceSum": Sum,
    "ReduceMax": ReduceMax,
    "ReduceMin": ReduceMin,
    "ReduceProd": ReduceProd,
}
for _kind, _make in _REDUCTIONS.items():
    ONNX(_kind)(_reduction(_make))


@ONNX("ReduceL1")
def l1(ctx: Context) -> Value:
    """Sum of |x|."""
    return reduced(ctx, Sum, ctx.emit(Abs(), ctx.operand(0)))


@ONNX("ReduceL2")
def l2(ctx: Context) -> Value:
    """Root of the sum of x^2."""
    x = ctx.operand(0)
    return ctx.emit(Sqrt(), reduced(ctx, Sum, ctx.emit(Mul(), x, x)))


@ONNX("ReduceSumSquare")
def sum_square(ctx: Context) -> Value:
    x = ctx.operand(0)
    return reduced(ctx, Sum, ctx.emit(Mul(), x, x))


@ONNX("ReduceLogSum")
def log_sum(ctx: Context) -> Value:
    return ctx.emit(Log(), reduced(ctx, Sum, ctx.operand(0)))


@ONNX("ReduceLogSumExp")
def log_sum_exp(ctx: Context) -> Value:
    """m + log(sum of e^(x - m)) with the maximum m, so that nothing overflows."""
    x, axes = ctx.operand(0), axes_of(ctx, ctx.operand(0))
    if not axes:
        return x
    if x.type.elements == 0:
        ctx.refuse(f"a reduction of the empty {x.type}")
    top = ctx.emit(ReduceMax(axes, keep_dims=True), x)
    total = ctx.emit(Sum(axes, keep_dims=True), ctx.emit(Exp(), ctx.emit(Sub(), x, top)))
    y = ctx.emit(Add(), top, ctx.emit(Log(), total))
    if ctx.attr_flag("keepdims", True):
        return y
    return ctx.reshape(y, [d for i, d in enumerate(x.type.shape) if i not in axes])


@ONNX("ArgMax", "ArgMin")
def arg_extremum(ctx: Context) -> Value:
    """The last of equal elements is the first one of the reversed axis."""
    x = ctx.plain(0)
    axis = ctx.axis(ctx.attr_int("axis", 0), x.type.rank)
    keep = ctx.attr_flag("keepdims", True)
    if x.type.elements == 0:
        ctx.refuse(f"a reduction of the empty {x.type}")
    op: Op = ArgMax(axis, keep, I64) if ctx.node.kind == "ArgMax" else ArgMin(axis, keep, I64)
    if not ctx.attr_flag("select_last_index"):
        return ctx.emit(op, x)
    last = x.type.shape[axis] - 1
    found = ctx.emit(op, sliced(ctx, x, axis, last, last + 1, -1))
    return ctx.emit(Sub(), ctx.like(found, last), found)
