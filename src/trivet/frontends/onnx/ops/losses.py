"""Losses, which inference graphs of some exporters keep: logarithms chosen by class, weighted and reduced."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import F32, I64
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.ir.graph import Value
from trivet.ops.elementwise import Add, Div, Equal, Mul, Where
from trivet.ops.mathematics import Neg
from trivet.ops.movement import Gather
from trivet.ops.reduce import Mean, Sum
from trivet.ops.softmax import LogSoftmax

ONNX = Converters()


@ONNX("NegativeLogLikelihoodLoss")
def negative_log_likelihood(ctx: Context) -> Value:
    """logarithms [N, C, ..], classes [N, ..], weights [C] (optional) -> the loss, reduced or [N, ..]."""
    return _loss(ctx, ctx.operand(0))


@ONNX("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(ctx: Context) -> tuple[Value, Value]:
    """scores [N, C, ..], classes [N, ..], weights [C] (optional) -> the loss, and the logarithms of the shares."""
    logarithms = ctx.emit(LogSoftmax(1), ctx.operand(0))
    return _loss(ctx, logarithms), logarithms


def _loss(ctx: Context, logarithms: Value) -> Value:
    classes = cast_to(ctx, ctx.operand(1), I64)
    batch, count, *rest = logarithms.type.shape
    size = math.prod(rest)
    if classes.type.shape != (batch, *rest) or logarithms.type.dtype is not F32:
        ctx.refuse(f"a loss of {logarithms.type} and {classes.type}", hint="convert the model to float32")
    ignored = None
    if "ignore_index" in ctx:
        ignored = ctx.emit(Equal(), classes, ctx.constant(ctx.attr_int("ignore_index"), I64))
        classes = ctx.emit(Where(), ignored, ctx.constant(0, I64), classes)
    first = np.arange(batch * size).reshape(batch, size)
    base = ((first // size) * count * size + first % size).reshape(classes.type.shape)
    places = ctx.emit(Add(), ctx.emit(Mul(), classes, ctx.constant(size, I64)), ctx.constant(base, I64))
    chosen = ctx.emit(Neg(), ctx.emit(Gather(0), ctx.reshape(logarithms, (logarithms.type.elements,)), places))
    weights = None
    if ctx.has(2):
        weights = ctx.emit(Gather(0), ctx.operand(2), classes)
    elif ignored is not None:
        weights = ctx.constant(np.ones(classes.type.shape))
    if weights is not None:
        if ignored is not None:
            weights = ctx.emit(Where(), ignored, ctx.constant(0.0), weights)
        chosen = ctx.emit(Mul(), chosen, weights)
    axes = tuple(range(classes.type.rank))
    match ctx.attr_text("reduction", "mean"):
        case "none":
            return chosen
        case "sum":
            return ctx.emit(Sum(axes), chosen)
        case _ if weights is None:
            return ctx.emit(Mean(axes), chosen)
        case _:
            return ctx.emit(Div(), ctx.emit(Sum(axes), chosen), ctx.emit(Sum(axes), weights))
