"""Pools over windows and over whole spatial axes."""

from __future__ import annotations

from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.layout import channels_first, channels_last, from_image, image, two
from trivet.frontends.onnx.ops.volume import average_pool3d, max_pool3d
from trivet.frontends.onnx.ops.window_sums import dilated_means, window_sums
from trivet.frontends.onnx.windows import pads2d, pooling_pads, window
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops.elementwise import Add, Mul, Pow
from trivet.ops.mathematics import Abs
from trivet.ops.movement import Pad
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.reduce import Mean, ReduceMax

ONNX = Converters()


@ONNX("MaxPool")
def max_pool(ctx: Context) -> Value:
    """x: [N, C, ...] -> [N, C, ...]; the optional indices are refused."""
    x = ctx.operand(0)
    if x.type.rank == 5:
        return max_pool3d(ctx, x)
    storage = image(ctx, x)
    shape = window(ctx, x.type.shape[2:], ctx.attr_ints("kernel_shape"))
    pads = pads2d(pooling_pads(ctx, shape, x.type.shape[2:]))
    op = MaxPool2D(two(shape.kernel, 1), two(shape.stride, 1), two(shape.dilation, 1), pads)
    return from_image(ctx, ctx.emit(op, storage), x.type.rank)


@ONNX("AveragePool")
def average_pool(ctx: Context) -> Value:
    """x: [N, C, ...] -> [N, C, ...]."""
    return pooled(ctx, ctx.operand(0))


def pooled(ctx: Context, x: Value) -> Value:
    """The average pool that the attributes describe."""
    sizes = x.type.shape[2:]
    shape = window(ctx, sizes, ctx.attr_ints("kernel_shape"))
    if any(d != 1 and k != 1 for d, k in zip(shape.dilation, shape.kernel, strict=True)):
        return dilated_means(ctx, x, shape)
    if x.type.rank == 5:
        return average_pool3d(ctx, x)
    storage = image(ctx, x)
    pads = pooling_pads(ctx, shape, sizes)
    kernel, stride = two(shape.kernel, 1), two(shape.stride, 1)
    include = ctx.attr_flag("count_include_pad")
    if not include or pads == shape.pads:
        return from_image(ctx, ctx.emit(AveragePool2D(kernel, stride, pads2d(pads), include), storage), x.type.rank)
    # Padding that the file states counts; what ceil_mode adds after it does not. So the former becomes an operator.
    (top, bottom), (left, right) = pads2d(shape.pads)
    padded = ctx.emit(Pad((0, top, left, 0), (0, bottom, right, 0)), storage)
    rest = tuple((0, grown - stated) for (_, grown), (_, stated) in zip(pads, shape.pads, strict=True))
    return from_image(ctx, ctx.emit(AveragePool2D(kernel, stride, pads2d(rest)), padded), x.type.rank)


@ONNX("LpPool")
def lp_pool(ctx: Context) -> Value:
    """The p-norm of a window: x: [N, C, ...] -> [N, C, ...]."""
    x, p = ctx.operand(0), ctx.attr_int("p", 2)
    shape = window(ctx, x.type.shape[2:], ctx.attr_ints("kernel_shape"))
    if p < 1:
        ctx.invalid(f"the norm of order {p}")
    power = ctx.emit(Pow(), ctx.emit(Abs(), x), ctx.constant(float(p)))
    sums = window_sums(ctx, power, shape, pooling_pads(ctx, shape, x.type.shape[2:]))
    return ctx.emit(Pow(), sums, ctx.constant(1.0 / p))


@ONNX("GlobalAveragePool")
def global_average_pool(ctx: Context) -> Value:
    """x: [N, C, ...] -> [N, C, 1, ...]."""
    return globally_pooled(ctx, ctx.operand(0))


def globally_pooled(ctx: Context, x: Value) -> Value:
    """The mean over all spatial axes of a channels-first value."""
    return _over_space(ctx, x, Mean(tuple(range(1, x.type.rank - 1)), keep_dims=True))


@ONNX("GlobalMaxPool")
def global_max_pool(ctx: Context) -> Value:
    """x: [N, C, ...] -> [N, C, 1, ...]."""
    x = ctx.operand(0)
    return _over_space(ctx, x, ReduceMax(tuple(range(1, x.type.rank - 1)), keep_dims=True))


def _over_space(ctx: Context, x: Value, op: Op) -> Value:
    if x.type.rank < 3:
        ctx.invalid(f"its operand {x.type} has no spatial axes")
    return channels_first(ctx, ctx.emit(op, channels_last(ctx, x)))


@ONNX("LRN")
def local_response(ctx: Context) -> Value:
    """x / (bias + alpha * mean of x^2 over `size` neighbouring channels)^beta, the mean always over `size` terms."""
    x, size = ctx.operand(0), ctx.attr_int("size")
    last = channels_last(ctx, x)
    rows = last.type.elements // max(last.type.shape[-1], 1)
    squares = ctx.reshape(ctx.emit(Mul(), last, last), (rows, last.type.shape[-1], 1, 1))
    pads = (((size - 1) // 2, size // 2), (0, 0))
    mean = ctx.emit(AveragePool2D((size, 1), (1, 1), pads, count_include_pad=True), squares)
    return channels_first(ctx, _scaled_by_power(ctx, last, ctx.reshape(mean, last.type.shape)))


def _scaled_by_power(ctx: Context, x: Value, mean: Value) -> Value:
    scaled = ctx.emit(Mul(), mean, ctx.constant(ctx.attr_float("alpha", 1e-4)))
    base = ctx.emit(Add(), scaled, ctx.constant(ctx.attr_float("bias", 1.0)))
    return ctx.emit(Mul(), x, ctx.emit(Pow(), base, ctx.constant(-ctx.attr_float("beta", 0.75))))
