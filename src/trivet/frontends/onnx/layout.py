"""Channels-first values seen as channels-last ones, through explicit transposes that passes cancel later."""

from __future__ import annotations

from trivet.frontends.onnx.context import Context
from trivet.ir.graph import Value


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation [N, C, ...] -> [N, ..., C]."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation [N, ..., C] -> [N, C, ...]."""
    return (0, rank - 1, *range(1, rank - 1))


def channels_last(ctx: Context, x: Value) -> Value:
    """x: [N, C, ...] -> [N, ..., C]."""
    return ctx.transpose(x, to_last(x.type.rank))


def channels_first(ctx: Context, y: Value) -> Value:
    """y: [N, ..., C] -> [N, C, ...]."""
    return ctx.transpose(y, to_first(y.type.rank))


def image(ctx: Context, x: Value) -> Value:
    """x: [N, C, H, W] -> [N, H, W, C]; a sequence [N, C, L] becomes [N, L, 1, C]."""
    last = channels_last(ctx, x)
    if x.type.rank == 4:
        return last
    if x.type.rank == 3:
        n, length, channels = last.type.shape
        return ctx.reshape(last, (n, length, 1, channels))
    return ctx.refuse(
        f"its operand {x.type} has {x.type.rank - 2} spatial axes, 1 or 2 are supported",
        hint="merge an axis of extent one away with Reshape, or split the volume into slices",
    )


def from_image(ctx: Context, y: Value, rank: int) -> Value:
    """The way back to a channels-first value of `rank` axes."""
    if rank == 3:
        n, length, _, channels = y.type.shape
        y = ctx.reshape(y, (n, length, channels))
    return channels_first(ctx, y)


def two(values: tuple[int, ...], fill: int) -> tuple[int, int]:
    """A spatial attribute of one or two axes as one of two axes: sequences run along rows."""
    return (values[0], values[1]) if len(values) == 2 else (values[0], fill)
