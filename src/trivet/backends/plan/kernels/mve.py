"""What the kernels for Helium (Cortex-M55, M85) share: how their weights lie, and how sums are brought to results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trivet.backends.plan.kernels.conv import Requantized, weight_zero
from trivet.backends.plan.kernels.requant import ROUND_Q31, folded_bias, grouped_channels
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue
from trivet.backends.table import NoKernel
from trivet.core.dtype import I8
from trivet.ir.graph import Node
from trivet.ops.products import clamp_limits

VECTOR = 16
"""Bytes of a vector."""
LANES = 4
"""Channels whose sums are rescaled together."""

NUMBERS = Field(
    "numbers", BLOB, "i32 [groups][3][4]: of 4 channels biases, Q0.31 mantissas, minus right shifts (mve.h)"
)
RESCALE_FIELDS = (
    Field("is_signed", U32, "1: negative results count, 0: the least one is the zero point"),
    Field("out_zero", I32, "zero point of the result"),
    Field("lo", I32, "least stored result"),
    Field("hi", I32, "largest stored result"),
)


def rescale_params(requantized: Requantized) -> dict[str, FieldValue]:
    """The fields above."""
    assert requantized.out is not None
    limits, zero = clamp_limits(I8, requantized.clamp), requantized.out.zero_point
    return {"is_signed": int(limits.lo < zero), "out_zero": zero, "lo": limits.lo, "hi": limits.hi}


def channel_numbers(node: Node, weights: npt.NDArray[np.generic], requantized: Requantized) -> npt.NDArray[np.int32]:
    """Of each channel of weights [O, K]: bias with the operand's zero point folded in, mantissa, minus shift: [3, O].

    Raises: NoKernel for weights with a zero point, for roundings that are not TensorFlow Lite's two, and for scales
    of 1/2 and more.
    """
    if weight_zero(node) != 0:
        raise NoKernel("its weights have a zero point")
    params = requantized.params()
    if params["rounding"] != ROUND_Q31:
        raise NoKernel("its contract rescales in float64")
    quant = node.inputs[0].type.quant
    mantissas, shifts = params["multipliers"], params["shifts"]
    assert quant is not None and isinstance(mantissas, np.ndarray) and isinstance(shifts, np.ndarray)
    if params["shift_range"] != 0:
        raise NoKernel("a scale of its results is 1/2 or more")
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    folded = folded_bias(bias, weights.astype(np.int64), quant.zero_point, 0)
    return np.stack([folded, mantissas, shifts]).astype(np.int32)


def pack_numbers(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """[3, O], O a multiple of 4 -> [O/4][3][4]."""
    return np.ascontiguousarray(numbers.reshape(3, -1, LANES).transpose(1, 0, 2)).astype("<i4")


def in_vectors(weights: npt.NDArray[np.generic]) -> npt.NDArray[np.int8]:
    """[O, K] -> [groups, 4, steps, 16]: channels in whole groups, zeros beyond the last product."""
    grouped = weights[grouped_channels(len(weights), LANES)].astype(np.int8)
    padded = np.pad(grouped, ((0, 0), (0, -grouped.shape[1] % VECTOR)))
    return padded.reshape(-1, LANES, padded.shape[1] // VECTOR, VECTOR)


def pack_paired(weights: npt.NDArray[np.generic]) -> npt.NDArray[np.int8]:
    """[O, K] -> [groups][2][steps][2][16]: of 4 channels first 0 and 2, then 1 and 3."""
    vectors = in_vectors(weights)
    groups, _, steps, size = vectors.shape
    return np.ascontiguousarray(vectors.reshape(groups, 2, 2, steps, size).transpose(0, 2, 3, 1, 4))


def pack_together(weights: npt.NDArray[np.generic]) -> npt.NDArray[np.int8]:
    """[O, K] -> [groups][steps][4][16]."""
    return np.ascontiguousarray(in_vectors(weights).transpose(0, 2, 1, 3))
