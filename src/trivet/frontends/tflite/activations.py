"""Fused activation functions, as the bounds of a clamp."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32
from trivet.errors import Unsupported
from trivet.frontends.tflite.conversion import Conversion
from trivet.ir.types import TensorType

NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3

_REAL_BOUNDS = {
    NONE: (-math.inf, math.inf),
    RELU: (0.0, math.inf),
    RELU_N1_TO_1: (-1.0, 1.0),
    RELU6: (0.0, 6.0),
}
_REFUSED = {4: "TANH", 5: "SIGN_BIT"}


def fused_bounds(op: Conversion) -> Bounds:
    """The clamp of an operator with the option `activation`, in stored integers where its result is quantized.

    Raises: Unsupported.
    """
    code = op.integer("activation")
    if code not in _REAL_BOUNDS:
        raise Unsupported(f"fused activation {_REFUSED.get(code, code)}; accepted are RELU, RELU6 and RELU_N1_TO_1")
    return bounds_of(*_REAL_BOUNDS[code], op.declared())


def bounds_of(lo: float, hi: float, y: TensorType) -> Bounds:
    """The bounds lo..hi of real numbers, in the stored numbers of `y`; the full range is unbounded."""
    if y.dtype is F32 or y.quant is None:
        return Bounds(lo, hi)
    low = y.dtype.min if lo == -math.inf else max(y.dtype.min, stored(lo, y))
    high = y.dtype.max if hi == math.inf else min(y.dtype.max, stored(hi, y))
    if (low, high) == (y.dtype.min, y.dtype.max):
        return UNBOUNDED
    return Bounds(min(low, y.dtype.max), max(min(low, y.dtype.max), high))


def stored(real: float, y: TensorType) -> int:
    """round(real / scale) + zero point with a division in float32, halves away from zero (CalculateActivationRange)."""
    assert y.quant is not None
    if not y.quant.is_per_tensor:
        raise Unsupported("an activation is quantized per channel")
    quotient = float(np.float32(real) / np.float32(y.quant.scale))
    return int(math.copysign(math.floor(min(abs(quotient), 2.0**31) + 0.5), quotient)) + y.quant.zero_point
