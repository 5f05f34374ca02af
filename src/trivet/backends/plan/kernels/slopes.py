"""Multipliers of functions with one slope above zero and another below."""

from __future__ import annotations

from trivet.backends.plan.kernels.broadcast import Params
from trivet.backends.plan.kernels.limits import SHIFTS
from trivet.backends.records import I32, Field
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier
from trivet.ops.stored import scale_ratio

SLOPES = (
    Field("mantissa", I32, "Q0.31, for operands that are not negative"),
    Field("shift", I32, "left if positive", limits=SHIFTS),
    Field("slope_mantissa", I32, "Q0.31, for the others"),
    Field("slope_shift", I32, "left if positive", limits=SHIFTS),
)


def slopes(numerics: Numerics, scale: float, slope: float, out: float) -> Params:
    """The fields of SLOPES for an operand's scale, a slope (or its scale) and the result's scale; 0 under ONNX, which
    computes in float32."""
    above = below = Multiplier(0, 0)
    if numerics is not Numerics.ONNX:
        above = scale_ratio(numerics, (scale,), (out,))
        below = scale_ratio(numerics, (scale, slope), (out,))
    return {
        "mantissa": above.mantissa, "shift": above.shift,
        "slope_mantissa": below.mantissa, "slope_shift": below.shift,
    }  # fmt: skip
