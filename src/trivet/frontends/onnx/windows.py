"""Kernel, stride, dilation and padding of windowed operators."""

from __future__ import annotations

from trivet.core.record import dataclass
from trivet.frontends.onnx.context import Context
from trivet.ops.conv import Pads2D

Pads = tuple[tuple[int, int], ...]
"""(before, after) for each spatial axis."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window over one or two spatial axes."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: Pads


def pads2d(pads: Pads) -> Pads2D:
    """Pads of one or two axes as those of two: sequences run along rows."""
    return pads[0], (pads[1] if len(pads) == 2 else (0, 0))


def window(ctx: Context, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """The window of an operator on spatial extents `sizes`, with `auto_pad` and `ceil_mode` resolved into pads."""
    rank = len(sizes)
    stride = _per_axis(ctx, "strides", rank, 1)
    dilation = _per_axis(ctx, "dilations", rank, 1)
    if len(kernel) != rank or min((*kernel, *stride, *dilation), default=1) < 1:
        ctx.invalid(f"kernel {kernel}, strides {stride} and dilations {dilation} do not suit {rank} spatial axes")
    extents = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    match ctx.attr_text("auto_pad", "NOTSET"):
        case "NOTSET" | "":
            pads = explicit_pads(ctx, rank)
        case "VALID":
            pads = ((0, 0),) * rank
        case ("SAME_UPPER" | "SAME_LOWER") as mode:
            pads = tuple(
                _same(size, extent, step, lower=mode == "SAME_LOWER")
                for size, extent, step in zip(sizes, extents, stride, strict=True)
            )
        case other:
            ctx.invalid(f"auto_pad '{other}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    return Window(kernel, stride, dilation, pads)


def explicit_pads(ctx: Context, rank: int) -> Pads:
    """The attribute `pads`: all begins, then all ends."""
    pads = ctx.attr_ints("pads", (0,) * (2 * rank))
    if len(pads) != 2 * rank:
        ctx.invalid(f"pads {pads} do not suit {rank} spatial axes")
    if min(pads, default=0) < 0:
        ctx.refuse(f"negative pads {pads}", hint="cut with Slice before the operator")
    return tuple((pads[i], pads[rank + i]) for i in range(rank))


def pooling_pads(ctx: Context, window: Window, sizes: tuple[int, ...]) -> Pads:
    """Pads that make `window_count` find as many windows as a pool has.

    With `ceil_mode` the last window may reach past the end, but not start there. Without it ONNX Runtime still divides
    toward zero, so that an operand a little smaller than the kernel has one window.
    """
    grown: list[tuple[int, int]] = []
    for axis, (before, after) in enumerate(window.pads):
        step, extent = window.stride[axis], (window.kernel[axis] - 1) * window.dilation[axis] + 1
        free = sizes[axis] + before + after - extent
        count = -(-free // step) + 1 if ctx.attr_flag("ceil_mode") else int(free / step) + 1
        if (count - 1) * step >= sizes[axis] + before:
            count -= 1
        grown.append((before, max(after, after + (count - 1) * step - free)))
    return tuple(grown)


def _per_axis(ctx: Context, name: str, rank: int, default: int) -> tuple[int, ...]:
    values = ctx.attr_ints(name, (default,) * rank)
    if len(values) != rank:
        ctx.invalid(f"{name} {values} do not suit {rank} spatial axes")
    return values


def _same(size: int, extent: int, step: int, lower: bool) -> tuple[int, int]:
    """Padding for ceil(size / step) windows, the odd element after (or before: SAME_LOWER)."""
    total = max((-(-size // step) - 1) * step + extent - size, 0)
    half = total // 2
    return (total - half, half) if lower else (half, total - half)
