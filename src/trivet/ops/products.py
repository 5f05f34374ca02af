"""Sums of products: exact accumulators, and how each contract brings them to the output scale.

The real multipliers of quantized operators are stated here and nowhere else; `core.quant` turns them into Q0.31.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.bounds import Bounds
from trivet.core.dtype import I16, I32, DType
from trivet.core.fixedpoint import (
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    round_half_away,
    wrap32,
)
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multipliers
from trivet.ir.op import Array, Arrays, Intervals, full_range
from trivet.ir.types import TensorType, Types

_BEYOND = 2.0**62
"""Beyond every stored integer, and within int64."""

Ints: TypeAlias = "npt.NDArray[np.int64]"
Reals: TypeAlias = "npt.NDArray[np.float64]"


def centered(array: Array, type_: TensorType) -> Array:
    """What a sum of products works on: stored - zero point as int32, floats widened to float64."""
    if type_.dtype.is_float:
        return array.astype(np.float64)
    wide = array.astype(np.int32)
    quant = type_.quant
    if quant is None or not any(quant.zero_points):
        return wide
    zeros = np.asarray(quant.zero_points, np.int32)
    if quant.axis is not None:
        shape = [1] * array.ndim
        shape[quant.axis] = zeros.size
        zeros = zeros.reshape(shape)
    centred: Array = wide - zeros
    return centred


def magnitude(array: Array) -> int:
    """The largest absolute value of an integer array."""
    return max(int(array.max(initial=0)), -int(array.min(initial=0)))


def matmul(a: Array, b: Array) -> Array:
    """a @ b: float64 for floats; exact int64 for integers, through the narrowest float type that holds every sum.

    A float type with p bits of significand adds integers exactly in any order while all partial sums stay below 2^p.
    """
    carrier: type[np.generic] = np.float64
    if a.dtype.kind == "i":
        largest = a.shape[-1] * magnitude(a) * magnitude(b)
        carrier = np.float32 if largest < 1 << 24 else np.float64 if largest < 1 << 53 else np.int64
    product: Array = np.matmul(a.astype(carrier, copy=False), b.astype(carrier, copy=False))
    return product if a.dtype.kind == "f" else product.astype(np.int64, copy=False)


def product_scales(x: Quant, w: Quant, out: Quant, channels: int) -> Reals:
    """sx * sw / sy per output channel in float64; the product of two float32 scales is exact: [channels]."""
    scales: Reals = x.scale * w.scales_for(channels) / out.scale
    return scales


def convolution_scales(x: Quant, w: Quant, out: Quant, channels: int, numerics: Numerics) -> Reals:
    """The same for convolutions; LiteRT's uint8 kernels round sx * sw to float32: [channels]."""
    if numerics is not Numerics.LITERT_U8:
        return product_scales(x, w, out, channels)
    products = np.float32(x.scale) * w.scales_for(channels).astype(np.float32)
    scales: Reals = products.astype(np.float64) / out.scale
    return scales


def rescaled(acc: Array, scales: Reals | float, numerics: Numerics, wide: bool = False) -> Ints:
    """acc * scales as integers; `scales` broadcast: one, or one along the last axis.

    TensorFlow Lite: Q0.31 multipliers on 32-bit sums, or on 64-bit sums where `wide`. ONNX: float64, half to even.
    """
    if numerics is Numerics.ONNX:
        return np.rint(np.clip(acc * scales, -_BEYOND, _BEYOND)).astype(np.int64)
    shape = np.shape(scales)
    mantissas, shifts = (v.reshape(shape) for v in quantize_multipliers(np.ravel(scales)))
    if wide:
        return multiply_by_quantized_multiplier_64(acc, mantissas, shifts)
    return multiply_by_quantized_multiplier(wrap32(acc), mantissas, shifts)


def rescaled_as_double(acc: Array, scales: Reals, wide: bool = False) -> Ints:
    """acc * scales in float64, half away from zero: LiteRT's fully connected kernels."""
    exact = acc if wide else wrap32(acc)
    return round_half_away(np.clip(exact.astype(np.float64) * scales, -_BEYOND, _BEYOND)).astype(np.int64)


def sums_are_wide(x: TensorType, bias: TensorType | None) -> bool:
    """True iff the contract sums in 64 bits: int16 activations without an int32 bias."""
    return x.dtype is I16 and (bias is None or bias.dtype is not I32)


def stored(values: Array, zero_point: int, dtype: DType, clamp: Bounds) -> Array:
    """values + zero point, clipped to the element type and to `clamp`."""
    limits = clamp_limits(dtype, clamp)
    return np.asarray(np.clip(values + zero_point, limits.lo, limits.hi), dtype.numpy)


def clamp_limits(dtype: DType, clamp: Bounds) -> Interval:
    """The stored integers that `clamp` leaves of an element type."""
    lo, hi = max(dtype.min, clamp.lo), min(dtype.max, clamp.hi)
    return Interval(int(min(lo, dtype.max)), int(max(hi, dtype.min)))


def clipped_f32(values: Array, clamp: Bounds) -> Array:
    """A float result: rounded to float32 once, then clamped."""
    return np.clip(values.astype(np.float32), np.float32(clamp.lo), np.float32(clamp.hi))


class ProductOp(Protocol):
    """An operator that sums products of x and w and may add a bias: operands (x, w[, bias])."""

    @property
    def clamp(self) -> Bounds: ...

    @property
    def out(self) -> Quant | None: ...

    @property
    def numerics(self) -> Numerics | None: ...

    def scales(self, types: Types) -> Reals:
        """The real multiplier of each output channel (quantized forms only): [channels]."""
        ...


def products_to_output(op: ProductOp, acc: Array, arrays: Arrays, types: Types) -> Array:
    """The stored result of exact sums `acc`: bias, rescaling by the contract of `op`, zero point, clamp."""
    bias = types[2] if len(types) == 3 else None
    if op.out is None or op.numerics is None:
        return clipped_f32(acc if bias is None else acc + arrays[2].astype(np.float64), op.clamp)
    if bias is not None:
        acc = acc + arrays[2].astype(np.int64)
    values = rescaled(acc, op.scales(types), op.numerics, sums_are_wide(types[0], bias))
    return stored(values, op.out.zero_point, types[0].dtype, op.clamp)


def clamped_range(type_: TensorType, clamp: Bounds) -> Intervals:
    """What `clamp` leaves of a result's element type; floats have no integer range."""
    return (full_range(type_) if type_.dtype.is_float else clamp_limits(type_.dtype, clamp),)
