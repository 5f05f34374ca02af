"""The bias of an integer product: int32 at the scale of the products, kept as stored wherever that is its scale."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.dtype import I8, I32, I64
from trivet.ir.graph import Value
from trivet.ir.types import TensorType
from trivet.ops.quantize import Dequantize
from trivet.passes.patterns import made_by
from trivet.passes.qdq_site import Site

Reals: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.int64]"

MAX_ROUNDING = 0.5
"""How far, in output steps, rounding a bias to the scale of the products may move the result."""

SAME_SCALE = 1e-6
"""A converter multiplies the two scales in float32: relative difference that is no difference."""


def integer_bias(site: Site, bias: Value, x: TensorType, weights: Value, axis: int) -> Value | None:
    """`bias` as integers, or None where the products' scale cannot say it; `axis` is the weights' output axis.

    A dequantized int32 bias whose scale is sx * sw keeps its integers. Any other is rounded to that scale, which moves
    the result by at most half a product step; where that is more than MAX_ROUNDING output steps, the operator has to
    stay float.
    """
    assert x.quant is not None and weights.type.quant is not None
    channels = weights.type.shape[axis]
    scales = x.quant.scale * weights.type.quant.scales_for(channels)
    integers = _as_stored(bias, scales)
    if integers is None:
        real = _real(bias, channels)
        if real is None or np.any(scales <= 0):
            return None
        integers = np.rint(real / scales)
        moved = np.abs(integers * scales - real) / site.out.scale
        if np.any(moved > MAX_ROUNDING) or np.any(np.abs(integers) >= 2.0**31):
            return None
    dtype = I32 if x.dtype is I8 else I64
    data = np.ascontiguousarray(integers, dtype.numpy)
    return site.rw.constant(data, TensorType(dtype, (channels,)), bias.name)


def sums_fit(x: TensorType, weights: Value, bias: Value | None, axis: int) -> bool:
    """True iff no sum of products of 8-bit operands, in any order, leaves int32."""
    assert x.quant is not None and weights.data is not None and weights.type.quant is not None
    if x.dtype is not I8:
        return True
    quant = weights.type.quant
    zeros = np.asarray(quant.zero_points, np.int64)
    if quant.axis is not None:
        zeros = zeros.reshape([-1 if i == quant.axis else 1 for i in range(weights.type.rank)])
    rest = tuple(i for i in range(weights.type.rank) if i != axis)
    total = np.abs(weights.data.astype(np.int64) - zeros).sum(axis=rest)
    reach = max(x.dtype.max - x.quant.zero_point, x.quant.zero_point - x.dtype.min)
    offset = 0 if bias is None or bias.data is None else np.abs(bias.data.astype(np.int64))
    return bool(np.all(total * reach + offset < 1 << 31))


def _as_stored(bias: Value, scales: Reals) -> Ints | None:
    """The integers of a dequantized constant that already has the products' scale."""
    source = made_by(bias, Dequantize)
    if source is None or source.inputs[0].data is None:
        return None
    constant = source.inputs[0]
    quant, data = constant.type.quant, source.inputs[0].data
    if quant is None or not constant.type.dtype.is_integer:
        return None
    own = quant.scales_for(len(scales))
    if np.any(np.abs(own - scales) > SAME_SCALE * scales):
        return None
    return data.astype(np.int64) - np.asarray(quant.zero_points, np.int64)


def _real(bias: Value, channels: int) -> Reals | None:
    """The real numbers of a constant, dequantized or float: [channels]."""
    source = made_by(bias, Dequantize)
    if bias.data is not None:
        data = bias.data
    elif source is not None and source.inputs[0].data is not None:
        data = source.op.evaluate((source.inputs[0].data,), source.input_types)[0]
    else:
        return None
    real = data.astype(np.float64)
    return real if real.shape == (channels,) and bool(np.all(np.isfinite(real))) else None
