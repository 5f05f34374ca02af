"""What the int8 kernels with sums of products share: requantization fields, folded bias, packed weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Blob
from trivet.backends.plan.kernels.limits import SCALES, SHIFTS
from trivet.backends.records import BLOB, F32, I32, U32, Field, FieldValue
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multipliers
from trivet.ops.products import Reals, clamp_limits

LANES = 16
"""Output channels of a full block of packed weights."""
STEP = 4
"""Products of one channel that lie together in packed weights."""

ROUND_Q31, ROUND_AWAY, ROUND_EVEN = range(3)
"""`trivet_rounding` of core_s8.h."""

REAL_BOUNDS = (Field("lo", F32, "least result"), Field("hi", F32, "largest result"))

REQUANT_BLOBS = (
    Field("bias", BLOB, "i32, one for each output channel: the bias, with the operand's zero point folded in"),
    Field("multipliers", BLOB, "one for each output channel: i32 Q0.31 mantissas, or f64 scales", limits=SCALES),
    Field("shifts", BLOB, "i8, one for each output channel: with Q0.31 mantissas; positive means left", limits=SHIFTS),
)
REQUANT_FIELDS = (
    Field("rounding", U32, "0: Q0.31; 1: f64, half away from zero; 2: f64, half to even"),
    Field("shift_range", U32, "0: all shifts lie in -31..-1; 1: in -31..30"),
    Field("out_zero", I32, "zero point of the result"),
    Field("lo", I32, "least stored result"),
    Field("hi", I32, "largest stored result"),
)


def requant_params(
    scales: Reals, out: Quant, clamp: Bounds, numerics: Numerics, as_double: bool = False
) -> dict[str, FieldValue | Blob | None]:
    """The fields above except `bias`; `as_double` asks for LiteRT's float64 products."""
    limits = clamp_limits(I8, clamp)
    params: dict[str, FieldValue | Blob | None] = {"out_zero": out.zero_point, "lo": limits.lo, "hi": limits.hi}
    if numerics is Numerics.ONNX or as_double:
        rounding = ROUND_EVEN if numerics is Numerics.ONNX else ROUND_AWAY
        return params | {
            "rounding": rounding, "shift_range": 0, "multipliers": scales.astype("<f8"), "shifts": None,
        }  # fmt: skip
    mantissas, shifts = quantize_multipliers(scales)
    shifts = np.where(mantissas == 0, -1, shifts)  # any shift of zero will do: one that is usual
    return params | {
        "rounding": ROUND_Q31,
        "shift_range": int(bool((shifts >= 0).any())),
        "multipliers": mantissas.astype("<i4"),
        "shifts": shifts.astype(np.int8),
    }


def folded_bias(
    bias: npt.NDArray[np.generic] | None, weights: npt.NDArray[np.int64], x_zero: int, w_zero: int
) -> npt.NDArray[np.int32]:
    """bias - zx * sum(w - zw) modulo 2^32, so that a kernel sums x * (w - zw): weights [O, K] -> [O]."""
    folded = -x_zero * (weights - w_zero).sum(axis=1)
    if bias is not None:
        folded = folded + bias.astype(np.int64)
    wrapped: npt.NDArray[np.int32] = (folded & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return wrapped


def grouped_channels(count: int, group: int) -> npt.NDArray[np.int64]:
    """Channels in whole groups; where they do not go up, the last group is the last channels, some of them again."""
    whole = count - count % group
    again = np.arange(count - group, count) if count % group else np.arange(0)
    return np.concatenate([np.arange(whole), again])


def pack_weights(weights: npt.NDArray[np.int64], groups: int, fill: int) -> npt.NDArray[np.int8]:
    """[O, K] -> for each group [ceil(O/groups / 16)][ceil(K/4)][lanes][4], as core_s8.h describes it.

    The tail of K and the channels beyond the last hold `fill`, the weights' zero point.
    """
    outputs, size = weights.shape
    steps = -(-size // STEP)
    blocks = []
    for group in np.split(weights, groups, axis=0):
        for start in range(0, outputs // groups, LANES):
            part = group[start : start + LANES]
            lanes = -(-len(part) // STEP) * STEP
            padded = np.full((lanes, steps * STEP), fill, np.int8)
            padded[: len(part), :size] = part
            blocks.append(padded.reshape(lanes, steps, STEP).transpose(1, 0, 2).ravel())
    return np.concatenate(blocks)


def pack_floats(weights: npt.NDArray[np.float32], groups: int) -> npt.NDArray[np.float32]:
    """[O, K] -> for each group [ceil(O/groups / 16)][K][lanes], as core_f32.h describes it; missing lanes are 0."""
    outputs, size = weights.shape
    blocks = []
    for group in np.split(weights, groups, axis=0):
        for start in range(0, outputs // groups, LANES):
            part = group[start : start + LANES]
            padded = np.zeros((-(-len(part) // STEP) * STEP, size), np.float32)
            padded[: len(part)] = part
            blocks.append(padded.T.ravel())
    return np.concatenate(blocks)


def real_bounds(clamp: Bounds) -> dict[str, FieldValue | Blob | None]:
    """`lo` and `hi` of a float32 kernel; unbounded is the largest finite number."""
    largest = float(np.finfo(np.float32).max)
    return {"lo": max(clamp.lo, -largest), "hi": min(clamp.hi, largest)}


def no_scratch(rows: int) -> int:
    return 0


def fixed_scratch(size_bytes: int) -> Callable[[int], int]:
    """The same scratch whatever the number of rows."""
    return lambda rows: size_bytes
