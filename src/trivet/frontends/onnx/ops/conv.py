"""Conv and ConvTranspose."""

from __future__ import annotations

from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.layout import from_image, image, two
from trivet.frontends.onnx.ops.movement import joined, sliced
from trivet.frontends.onnx.ops.volume import Transposed, convolution3d, transposed_convolution3d
from trivet.frontends.onnx.windows import Pads, explicit_pads, pads2d, window
from trivet.ir.graph import Value
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D

ONNX = Converters()

MAX_IMAGES = 64
"""A batch with computed weights is written out; more would make too long a plan."""


@ONNX("Conv")
def conv(ctx: Context) -> Value:
    """x: [N, C, ...], w: [O, C/group, ...], bias: [O] (optional) -> [N, O, ...]."""
    bias = ctx.optional(2)
    return convolution(ctx, ctx.operand(0), ctx.operand(1), bias)


def convolution(ctx: Context, x: Value, w: Value, bias: Value | None) -> Value:
    """The convolution that the attributes describe: depthwise when every channel is its own group."""
    rank, groups = x.type.rank, ctx.attr_int("group", 1)
    check_operands(ctx, x, w, groups, highest=5)
    channels = x.type.shape[1]
    if w.type.shape[1] * groups != channels or w.type.shape[0] % groups:
        ctx.invalid(f"{groups} groups of {w.type.shape[1]} channels do not suit the operand {x.type}")
    if rank == 5:
        return convolution3d(ctx, x, w, bias)
    if 1 < x.type.shape[0] <= MAX_IMAGES and ctx.constant_data(w) is None:
        return joined(ctx, [convolution(ctx, one, w, bias) for one in _images(ctx, x)], 0)
    shape = window(ctx, x.type.shape[2:], _kernel(ctx, w))
    storage = image(ctx, x)
    bias_operands = () if bias is None else (bias,)
    stride, dilation, pads = two(shape.stride, 1), two(shape.dilation, 1), pads2d(shape.pads)
    w = _rank4(ctx, w)
    if groups == channels and w.type.shape[1] == 1 and groups > 1 and ctx.constant_data(w) is not None:
        weights = _without_axis(ctx, ctx.stored_as(w, (1, 2, 3, 0)))
        y = ctx.emit(DepthwiseConv2D(stride, dilation, pads), storage, weights, *bias_operands)
    else:
        weights = ctx.stored_as(w, (0, 2, 3, 1))
        y = ctx.emit(Conv2D(stride, dilation, pads, groups), storage, weights, *bias_operands)
    return from_image(ctx, y, rank)


def _images(ctx: Context, x: Value) -> list[Value]:
    """One by one: a kernel whose weights are an operand takes one image."""
    return [sliced(ctx, x, 0, index, 1) for index in range(x.type.shape[0])]


@ONNX("ConvTranspose")
def conv_transpose(ctx: Context) -> Value:
    """x: [N, C, ...], w: [C, O/group, ...], bias: [O] (optional) -> [N, O, ...]."""
    x, w = ctx.operand(0), ctx.operand(1)
    if x.type.rank in (3, 4) and 1 < x.type.shape[0] <= MAX_IMAGES and ctx.constant_data(w) is None:
        return joined(ctx, [_transposed(ctx, one, w) for one in _images(ctx, x)], 0)
    return _transposed(ctx, x, w)


def _transposed(ctx: Context, x: Value, w: Value) -> Value:
    groups = ctx.attr_int("group", 1)
    check_operands(ctx, x, w, groups, highest=5)
    channels, per_group = w.type.shape[:2]
    if channels != x.type.shape[1] or channels % groups:
        ctx.invalid(f"{groups} groups do not suit weights {w.type} and the operand {x.type}")
    pads, extra = _transposed_pads(ctx, x.type.shape[2:], _kernel(ctx, w))
    ones = (1,) * (x.type.rank - 2)
    stride, dilation = ctx.attr_ints("strides", ones), ctx.attr_ints("dilations", ones)
    if x.type.rank == 5:
        return transposed_convolution3d(ctx, x, w, ctx.optional(2), Transposed(stride, dilation, pads, extra, groups))
    weights = _transposed_weights(ctx, _rank4(ctx, w), groups, per_group)
    operands = [image(ctx, x), weights]
    if (bias := ctx.optional(2)) is not None:
        operands.append(bias)
    op = ConvTranspose2D(two(stride, 1), two(dilation, 1), pads2d(pads), two(extra, 0), groups)
    return from_image(ctx, ctx.emit(op, *operands), x.type.rank)


def check_operands(ctx: Context, x: Value, w: Value, groups: int, highest: int = 4) -> None:
    """The ranks (at most `highest`) and the group count, before anything is computed from them."""
    if not 3 <= x.type.rank <= highest:
        image(ctx, x)
    if w.type.rank != x.type.rank or groups < 1:
        ctx.invalid(f"weights {w.type} in {groups} groups do not suit the operand {x.type}")


def _kernel(ctx: Context, w: Value) -> tuple[int, ...]:
    kernel = w.type.shape[2:]
    if ctx.attr_ints("kernel_shape", kernel) != kernel:
        ctx.invalid(f"kernel_shape {ctx.attr_ints('kernel_shape')} contradicts the weights {w.type}")
    return kernel


def _rank4(ctx: Context, w: Value) -> Value:
    """Weights of a 1-D kernel as those of a [K, 1] kernel."""
    return w if w.type.rank == 4 else ctx.stored_in_shape(w, (*w.type.shape, 1))


def _without_axis(ctx: Context, w: Value) -> Value:
    """w: [1, KH, KW, O] -> [KH, KW, O]."""
    return ctx.stored_in_shape(w, w.type.shape[1:])


def _transposed_pads(ctx: Context, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[Pads, tuple[int, ...]]:
    """Pads and output padding; `output_shape` and SAME choose the pads that lead to a wanted result."""
    rank = len(sizes)
    stride, dilation = ctx.attr_ints("strides", (1,) * rank), ctx.attr_ints("dilations", (1,) * rank)
    extra = ctx.attr_ints("output_padding", (0,) * rank)
    if not len(stride) == len(dilation) == len(extra) == rank:
        ctx.invalid(f"strides {stride}, dilations {dilation}, output_padding {extra} do not suit {rank} spatial axes")
    mode = ctx.attr_text("auto_pad", "NOTSET") or "NOTSET"
    full = tuple(
        (n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in zip(sizes, stride, kernel, dilation, extra, strict=True)
    )
    if "output_shape" in ctx:
        wanted = ctx.attr_ints("output_shape")[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(n * s for n, s in zip(sizes, stride, strict=True))
    else:
        return (((0, 0),) * rank if mode == "VALID" else explicit_pads(ctx, rank)), extra
    pads: list[tuple[int, int]] = []
    grown: list[int] = []
    for size, want, more in zip(full, wanted, extra, strict=True):
        total = max(size - want, 0)
        half = total // 2
        pads.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
        grown.append(more + max(want - size, 0))
    return tuple(pads), tuple(grown)


def _transposed_weights(ctx: Context, w: Value, groups: int, per_group: int) -> Value:
    """w: [C, O/g, KH, KW] -> [O, KH, KW, C/g]."""
    if groups == 1:
        return ctx.stored_as(w, (1, 2, 3, 0))
    channels, _, *kernel = w.type.shape
    split = ctx.stored_in_shape(w, (groups, channels // groups, per_group, *kernel))
    moved = ctx.stored_as(split, (0, 2, 3, 4, 1))
    return ctx.stored_in_shape(moved, (groups * per_group, *kernel, channels // groups))
