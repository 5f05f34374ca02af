"""Normalizations, as arithmetic: passes fold what is constant into the product before it."""

from __future__ import annotations

import numpy as np

from trivet.frontends.onnx.context import MICROSOFT, Context, Converters
from trivet.frontends.onnx.layout import channels_first, channels_last
from trivet.frontends.onnx.ops.movement import listed_axes
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ops.elementwise import Add, Div, Maximum, Mul, Sub
from trivet.ops.mathematics import Abs, Reciprocal, Sqrt
from trivet.ops.reduce import Mean, Sum

ONNX = Converters()


@ONNX("BatchNormalization")
def batch_norm(ctx: Context) -> Value:
    """x: [N, C, ...] -> x * factor + offset with constants [C], on channels last."""
    if ctx.attr_flag("training_mode") or any(ctx.node.outputs[1:]):
        ctx.refuse("training mode", hint="export the model for inference")
    if not ctx.attr_flag("spatial", True):
        ctx.refuse("statistics per pixel (spatial=0)", hint="write it as Mul and Add")
    x = ctx.operand(0)
    if any(ctx.constant_data(ctx.operand(i)) is None for i in range(1, 5)):
        return _computed_batch_norm(ctx, x)
    names = ("the scale", "the bias", "the mean", "the variance")
    scale, bias, mean, variance = (ctx.known(i + 1, name).astype(np.float64) for i, name in enumerate(names))
    channels = (x.type.shape[1],) if x.type.rank > 1 else (1,)
    if not scale.shape == bias.shape == mean.shape == variance.shape == channels:
        ctx.invalid(f"its parameters do not suit the channels of {x.type}")
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + ctx.attr_float("epsilon", 1e-5))
        offset = bias - mean * factor
    last = channels_last(ctx, x) if x.type.rank > 1 else x
    y = ctx.emit(Add(), ctx.emit(Mul(), last, ctx.constant(factor)), ctx.constant(offset))
    return channels_first(ctx, y) if x.type.rank > 1 else y


def _computed_batch_norm(ctx: Context, x: Value) -> Value:
    """The same with parameters that are computed when the network runs."""
    scale, bias, mean, variance = (ctx.operand(i) for i in range(1, 5))
    deviation = ctx.emit(Sqrt(), ctx.emit(Add(), variance, ctx.constant(ctx.attr_float("epsilon", 1e-5))))
    last = channels_last(ctx, x) if x.type.rank > 1 else x
    y = ctx.emit(Mul(), ctx.emit(Sub(), last, mean), ctx.emit(Div(), scale, deviation))
    y = ctx.emit(Add(), y, bias)
    return channels_first(ctx, y) if x.type.rank > 1 else y


def standardized(ctx: Context, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over axes."""
    return moments(ctx, x, axes, epsilon)[0]


def moments(ctx: Context, x: Value, axes: tuple[int, ...], epsilon: float) -> tuple[Value, Value, Value]:
    """The standardized x, its mean, and its deviation sqrt(variance + epsilon)."""
    mean = ctx.emit(Mean(axes, keep_dims=True), x)
    centred = ctx.emit(Sub(), x, mean)
    variance = ctx.emit(Mean(axes, keep_dims=True), ctx.emit(Mul(), centred, centred))
    deviation = ctx.emit(Sqrt(), ctx.emit(Add(), variance, ctx.constant(epsilon)))
    return ctx.emit(Div(), centred, deviation), mean, deviation


@ONNX("LayerNormalization")
def layer_norm(ctx: Context) -> tuple[Value, ...]:
    """Over all axes from `axis` on, then scale and bias (optional); also the mean and 1 / deviation."""
    x = ctx.operand(0)
    axes = tuple(range(ctx.axis(ctx.attr_int("axis", -1), x.type.rank), x.type.rank))
    y, mean, deviation = moments(ctx, x, axes, ctx.attr_float("epsilon", 1e-5))
    y = affine(ctx, y, ctx.optional(1), ctx.optional(2))
    return (y, mean, ctx.emit(Reciprocal(), deviation)) if any(ctx.node.outputs[1:]) else (y,)


def affine(ctx: Context, x: Value, scale: Value | None, bias: Value | None) -> Value:
    if scale is not None:
        x = ctx.emit(Mul(), x, scale)
    return x if bias is None else ctx.emit(Add(), x, bias)


@ONNX("RMSNormalization")
@ONNX("SimplifiedLayerNormalization")
@ONNX("SimplifiedLayerNormalization", domain=MICROSOFT)
def rms_norm(ctx: Context) -> Value:
    """x / sqrt(mean of x^2 + epsilon) over all axes from `axis` on, then scale."""
    x = ctx.operand(0)
    axes = tuple(range(ctx.axis(ctx.attr_int("axis", -1), x.type.rank), x.type.rank))
    mean = ctx.emit(Mean(axes, keep_dims=True), ctx.emit(Mul(), x, x))
    root = ctx.emit(Sqrt(), ctx.emit(Add(), mean, ctx.constant(ctx.attr_float("epsilon", 1e-5))))
    return affine(ctx, ctx.emit(Div(), x, root), ctx.optional(1), None)


@ONNX("InstanceNormalization")
def instance_norm(ctx: Context) -> Value:
    """x: [N, C, ...]: each channel of each image by itself, then scale [C] and bias [C]."""
    x = ctx.operand(0)
    if x.type.rank < 3:
        ctx.invalid(f"its operand {x.type} has no spatial axes")
    last = channels_last(ctx, x)
    y = standardized(ctx, last, tuple(range(1, x.type.rank - 1)), ctx.attr_float("epsilon", 1e-5))
    return channels_first(ctx, affine(ctx, y, ctx.operand(1), ctx.operand(2)))


@ONNX("GroupNormalization")
def group_norm(ctx: Context) -> Value:
    """x: [N, C, ...], scale and bias per channel, or per group before operator set 21."""
    x, groups = ctx.operand(0), ctx.attr_int("num_groups")
    channels = x.type.shape[1] if x.type.rank > 1 else 0
    if groups < 1 or channels == 0 or channels % groups:
        ctx.invalid(f"{groups} groups do not divide the channels of {x.type}")
    grouped = ctx.reshape(x, (x.type.shape[0], groups, x.type.elements // (x.type.shape[0] * groups)))
    y = ctx.reshape(standardized(ctx, grouped, (2,), ctx.attr_float("epsilon", 1e-5)), x.type.shape)
    last = channels_last(ctx, y)
    scale, bias = (_per_channel(ctx, ctx.operand(i), channels) for i in (1, 2))
    return channels_first(ctx, affine(ctx, last, scale, bias))


def _per_channel(ctx: Context, parameter: Value, channels: int) -> Value:
    size = parameter.type.elements
    if size == channels:
        return parameter
    array: Array = ctx.known(1, "the scale and bias") if parameter.data is None else parameter.data
    if size == 0 or channels % size:
        ctx.invalid(f"{parameter.type} does not suit {channels} channels")
    return ctx.constant(np.repeat(array, channels // size))


@ONNX("MeanVarianceNormalization")
def mean_variance_norm(ctx: Context) -> Value:
    x = ctx.operand(0)
    axes = listed_axes(ctx, x.type.rank) or tuple(ctx.axis(a, x.type.rank) for a in (0, 2, 3))
    return standardized(ctx, x, tuple(sorted(axes)), 1e-9)


@ONNX("LpNormalization")
def lp_norm(ctx: Context) -> Value:
    """x over its norm along an axis; zeros stay zeros."""
    x, p = ctx.operand(0), ctx.attr_int("p", 2)
    axes = (ctx.axis(ctx.attr_int("axis", -1), x.type.rank),)
    if p == 1:
        norm = ctx.emit(Sum(axes, keep_dims=True), ctx.emit(Abs(), x))
    elif p == 2:
        norm = ctx.emit(Sqrt(), ctx.emit(Sum(axes, keep_dims=True), ctx.emit(Mul(), x, x)))
    else:
        ctx.refuse(f"the norm of order {p}", hint="orders 1 and 2 are supported")
    tiny = ctx.constant(float(np.finfo(np.float32).tiny))
    return ctx.emit(Div(), x, ctx.emit(Maximum(), norm, tiny))
