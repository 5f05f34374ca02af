"""Resize and its predecessor Upsample."""

from __future__ import annotations

import math

import numpy as np

from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.layout import channels_first, channels_last, two
from trivet.frontends.onnx.ops.movement import listed_axes
from trivet.frontends.onnx.ops.resample import resampled
from trivet.ir.graph import Value
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest

ONNX = Converters()


@ONNX("Upsample")
def upsample(ctx: Context) -> Value:
    """Scales as an attribute (operator sets 7, 8) or operand 1; positions are index / scale, rounded down."""
    return _upsampled(ctx)


def _upsampled(ctx: Context) -> Value:
    scales = ctx.attr_floats("scales") if "scales" in ctx else _floats(ctx, 1)
    return _resized(ctx, _scaled_sizes(ctx, scales), scales, Coordinates.ASYMMETRIC, NearestRounding.FLOOR)


@ONNX("Resize")
def resize(ctx: Context) -> Value:
    """x, region (unused), scales, sizes; before operator set 11: x, scales, with Upsample's positions."""
    if ctx.opset < 11:
        return _upsampled(ctx)
    scales, sizes = _targets(ctx)
    mode, coordinates = ctx.attr_text("mode", "nearest"), ctx.attr_text("coordinate_transformation_mode", "half_pixel")
    by_sums = ctx.attr_flag("antialias") or coordinates == "half_pixel_symmetric"
    if mode == "cubic" or (mode == "linear" and by_sums):
        return resampled(ctx, sizes, scales)
    return _resized(ctx, sizes, scales, _coordinates(ctx), _rounding(ctx))


def _floats(ctx: Context, index: int) -> tuple[float, ...]:
    return tuple(float(v) for v in np.ravel(ctx.known(index, "the scales")))


def _targets(ctx: Context) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """(scales, sizes) for every axis; where sizes were given the scales are their exact ratios to the operand's."""
    x = ctx.operand(0)
    axes = listed_axes(ctx, x.type.rank, operand=len(ctx) + 1) or tuple(range(x.type.rank))
    given = _floats(ctx, 2) if ctx.has(2) else ()
    if given:
        scales = [1.0] * x.type.rank
        for axis, scale in zip(axes, _matching(ctx, given, axes), strict=True):
            scales[axis] = scale
        return tuple(scales), _scaled_sizes(ctx, tuple(scales))
    if not ctx.has(3):
        ctx.invalid("it has neither scales nor sizes")
    sizes = list(x.type.shape)
    for axis, size in zip(axes, _matching(ctx, ctx.known_ints(3, "the sizes"), axes), strict=True):
        sizes[axis] = int(size)
    policy = ctx.attr_text("keep_aspect_ratio_policy", "stretch")
    if policy in ("not_larger", "not_smaller"):
        choose = min if policy == "not_larger" else max
        scale = choose(sizes[axis] / max(x.type.shape[axis], 1) for axis in axes)
        chosen = tuple(scale if axis in axes else 1.0 for axis in range(x.type.rank))
        return chosen, tuple(math.floor(size * s + 0.5) for size, s in zip(x.type.shape, chosen, strict=True))
    return tuple(new / max(old, 1) for new, old in zip(sizes, x.type.shape, strict=True)), tuple(sizes)


def _matching(ctx: Context, values: tuple[float, ...], axes: tuple[int, ...]) -> tuple[float, ...]:
    if len(values) != len(axes):
        ctx.invalid(f"{len(values)} scales or sizes for {len(axes)} axes")
    return values


def _scaled_sizes(ctx: Context, scales: tuple[float, ...]) -> tuple[int, ...]:
    shape = ctx.operand(0).type.shape
    if len(scales) != len(shape) or not all(0 < scale < 1e6 for scale in scales):
        ctx.invalid(f"scales {scales} do not suit {ctx.operand(0).type}")
    return tuple(math.floor(size * scale) for size, scale in zip(shape, scales, strict=True))


def _coordinates(ctx: Context) -> Coordinates:
    mode = ctx.attr_text("coordinate_transformation_mode", "half_pixel")
    if mode not in {member.value for member in Coordinates}:
        ctx.refuse(
            f"coordinate_transformation_mode '{mode}'", hint="export with half_pixel, asymmetric or align_corners"
        )
    return Coordinates(mode)


def _rounding(ctx: Context) -> NearestRounding:
    mode = ctx.attr_text("nearest_mode", "round_prefer_floor")
    if mode not in {member.value for member in NearestRounding}:
        ctx.invalid(f"nearest_mode '{mode}' is unknown")
    return NearestRounding(mode)


def _resized(
    ctx: Context,
    sizes: tuple[int, ...],
    scales: tuple[float, ...],
    coordinates: Coordinates,
    rounding: NearestRounding,
) -> Value:
    """x resampled on its one or two spatial axes; an image may also be stored channels last."""
    x = ctx.operand(0)
    shape = x.type.shape
    if x.type.rank not in (3, 4):
        ctx.refuse(f"its operand {x.type} has no one or two spatial axes", hint="reshape to [N, C, H, W]")
    moving = [axis for axis in range(x.type.rank) if sizes[axis] != shape[axis] or scales[axis] != 1.0]
    nhwc = x.type.rank == 4 and set(moving) <= {1, 2} and 1 in moving
    if not nhwc and not set(moving) <= set(range(2, x.type.rank)):
        ctx.refuse(f"a resize of axes {moving} of {x.type}", hint="resize spatial axes only")
    spatial = (1, 2) if nhwc else tuple(range(2, x.type.rank))
    size = two(tuple(sizes[axis] for axis in spatial), 1)
    factors = (scales[spatial[0]], scales[spatial[1]] if len(spatial) == 2 else 1.0)
    image = x if nhwc else channels_last(ctx, x)
    if x.type.rank == 3:
        n, length, channels = image.type.shape
        image = ctx.reshape(image, (n, length, 1, channels))
    y = _sampled(ctx, image, size, factors, coordinates, rounding)
    if x.type.rank == 3:
        y = ctx.reshape(y, (y.type.shape[0], y.type.shape[1], y.type.shape[3]))
    return y if nhwc else channels_first(ctx, y)


def _sampled(
    ctx: Context,
    image: Value,
    size: tuple[int, int],
    scales: tuple[float, float],
    coordinates: Coordinates,
    rounding: NearestRounding,
) -> Value:
    mode = ctx.attr_text("mode", "nearest")
    if mode == "nearest":
        return ctx.emit(ResizeNearest(size, coordinates, rounding, scales), image)
    if mode in ("linear", "bilinear"):
        return ctx.emit(ResizeBilinear(size, coordinates, scales), image)
    return ctx.refuse(f"interpolation mode '{mode}'", hint="export with mode='linear' or mode='nearest'")
