"""Between stored integers and the real numbers they stand for; evaluation of 8-bit functions through tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import DType
from trivet.core.fixedpoint import Ints, round_half_away
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, Quant, quantize_multiplier
from trivet.ir.op import Array
from trivet.ir.types import TensorType

Float32s: TypeAlias = "npt.NDArray[np.float32]"


def along_axis(values: Sequence[float] | Sequence[int], quant: Quant, rank: int, dtype: npt.DTypeLike) -> Array:
    """Per-tensor or per-axis parameters of `quant`, shaped to broadcast against a tensor of `rank` axes."""
    array = np.asarray(values, dtype)
    if quant.axis is None:
        return array.reshape(())
    return array.reshape([-1 if axis == quant.axis else 1 for axis in range(rank)])


def centered(x: Array, type_: TensorType) -> Ints:
    """Stored value minus zero point."""
    assert type_.quant is not None
    zero_points = along_axis(type_.quant.zero_points, type_.quant, x.ndim, np.int64)
    return x.astype(np.int64) - zero_points


def to_real(x: Array, type_: TensorType) -> Float32s:
    """scale * (stored - zero point), rounded once to float32."""
    assert type_.quant is not None
    scales = along_axis(type_.quant.scales, type_.quant, x.ndim, np.float64)
    return np.asarray(scales * centered(x, type_), np.float32)


def from_real(x: Float32s, quant: Quant, dtype: DType, numerics: Numerics) -> Array:
    """saturate(round(x / scale) + zero point), the division in float32; not-a-number gives the smallest value.

    Halves go to even under ONNX and away from zero under the TensorFlow Lite contracts. Reals beyond int32 saturate.
    """
    scales = along_axis(quant.scales, quant, x.ndim, np.float32)
    zero_points = along_axis(quant.zero_points, quant, x.ndim, np.float64)
    with np.errstate(all="ignore"):
        steps = x / scales
    rounded = np.rint(steps) if numerics is Numerics.ONNX else round_half_away(steps)
    return saturated(rounded.astype(np.float64) + zero_points, dtype)


def saturated(values: Array, dtype: DType, clamp: Bounds = UNBOUNDED) -> Array:
    """`values` clipped to the type and to `clamp`, as arrays of the type; not-a-number becomes the smallest value."""
    lo, hi = limits(dtype, clamp)
    if values.dtype.kind != "f":
        return np.asarray(np.clip(values, lo, hi), dtype.numpy)
    inside = (values > lo) & (values < hi)
    ends = np.where(values >= hi, hi, lo)
    return np.where(inside, np.where(inside, values, 0).astype(np.int64), ends).astype(dtype.numpy)


def limits(dtype: DType, clamp: Bounds) -> tuple[int, int]:
    """The integers of `dtype` that `clamp` allows, both ends included."""
    allowed = Bounds(dtype.min, dtype.max).intersect(clamp)
    return math.ceil(allowed.lo), math.floor(allowed.hi)


def scale_ratio(numerics: Numerics, numerators: Sequence[float], denominators: Sequence[float]) -> Multiplier:
    """product(numerators) / product(denominators): in float64 under TFLM, every step in float32 under LiteRT."""
    real: type[Any] = np.float32 if numerics.is_litert else np.float64
    return quantize_multiplier(float(real(_product(numerators, real) / _product(denominators, real))))


def by_value(function: Callable[[Array], Array], x: Array) -> Array:
    """function(x), through a table of all stored values where that is less work."""
    if x.dtype.itemsize > 2 or x.dtype.kind not in "iu" or x.size <= 1 << (8 * x.dtype.itemsize):
        return function(x)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    table = function(np.arange(1 << (8 * x.dtype.itemsize), dtype=unsigned).view(x.dtype))
    return np.asarray(np.take(table, x.view(unsigned)))


def by_pair(function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """function(a, b), through a table of all pairs of 8-bit values where that is less work."""
    if a.dtype.itemsize > 1 or math.prod(np.broadcast_shapes(a.shape, b.shape)) <= 1 << 16:
        return function(a, b)
    every = np.arange(256, dtype=np.uint8)
    table = function(every.view(a.dtype)[:, None], every.view(b.dtype)[None, :]).ravel()
    return np.take(table, (a.view(np.uint8).astype(np.uint16) << 8) | b.view(np.uint8))


def _product(values: Sequence[float], real: type[Any]) -> Any:
    total = real(values[0])
    for value in values[1:]:
        total = real(total * real(value))
    return total
