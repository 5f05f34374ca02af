"""Resize by matrices: along each axis every result is a weighted sum of elements, with weights known now."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trivet.frontends.onnx.context import Context
from trivet.ir.graph import Value
from trivet.ops.matmul import BatchMatMul

Reals = npt.NDArray[np.float64]


def resampled(ctx: Context, sizes: tuple[int, ...], scales: tuple[float, ...]) -> Value:
    """Operand 0 with other extents, cubic or linear, one axis after the other."""
    y = ctx.operand(0)
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        if size != y.type.shape[axis] or scale != 1.0:
            y = _along(ctx, y, axis, _matrix(ctx, y.type.shape[axis], size, scale))
    return y


def _along(ctx: Context, x: Value, axis: int, matrix: Reals) -> Value:
    """Every vector along an axis times a matrix [new, old]."""
    perm = (*(i for i in range(x.type.rank) if i != axis), axis)
    moved = ctx.transpose(x, perm)
    rows = ctx.reshape(moved, (math.prod(moved.type.shape[:-1]), moved.type.shape[-1]))
    y = ctx.emit(BatchMatMul(), rows, ctx.constant(np.ascontiguousarray(matrix.T)))
    back = [int(i) for i in np.argsort(perm)]
    return ctx.transpose(ctx.reshape(y, (*moved.type.shape[:-1], len(matrix))), back)


def _matrix(ctx: Context, old: int, new: int, scale: float) -> Reals:
    """The weights of the old elements for each new one: [new, old]."""
    antialias, outside = ctx.attr_flag("antialias"), ctx.attr_flag("exclude_outside")
    cubic = ctx.attr_text("mode", "nearest") == "cubic"
    slope = ctx.attr_float("cubic_coeff_a", -0.75)
    squeeze = min(scale, 1.0) if antialias else 1.0
    reach = (2 if cubic else 1) / squeeze
    matrix = np.zeros((new, old))
    for index in range(new):
        place = _position(ctx, index, old, new, scale)
        taps = np.arange(math.floor(place - reach) + 1, math.ceil(place + reach))
        distances = np.abs(taps - place) * squeeze
        weights = _cubic(distances, slope) if cubic else np.maximum(0.0, 1.0 - distances)
        if outside:
            weights = np.where((taps >= 0) & (taps < old), weights, 0.0)
        if antialias or outside:
            weights = weights / weights.sum()
        np.add.at(matrix[index], np.clip(taps, 0, old - 1), weights)
    return matrix


def _position(ctx: Context, index: int, old: int, new: int, scale: float) -> float:
    """Where a new element stands among the old ones."""
    match ctx.attr_text("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            return (index + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (index + 0.5) / scale - 0.5 if new > 1 else -0.5
        case "align_corners":
            return index * (old - 1) / (new - 1) if new > 1 else 0.0
        case "asymmetric":
            return index / scale
        case "half_pixel_symmetric":
            adjusted = new / (scale * old)
            return old / 2 * (1 - adjusted) + (index + 0.5) / scale - 0.5
        case mode:
            return ctx.refuse(f"coordinate_transformation_mode '{mode}'", hint="export with half_pixel or asymmetric")


def _cubic(distance: Reals, a: float) -> Reals:
    """The cubic convolution kernel, whose slope at 1 is a."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
