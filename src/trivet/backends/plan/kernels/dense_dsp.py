"""Dense layers of one row on int8 for cores with the DSP extension (Cortex-M4, M7, M33)."""

from __future__ import annotations

import math

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import constant_weights, is_s8, requantization
from trivet.backends.plan.kernels.conv_dsp import STACK_BYTES, rescaled_weights
from trivet.backends.plan.kernels.requant import fixed_scratch, grouped_channels, no_scratch
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.core.dtype import I8
from trivet.ir.graph import Node
from trivet.ops.matmul import Dense
from trivet.ops.products import clamp_limits

GROUP, STEP, UNIT = 4, 4, 8
"""Channels that are made together; products of a step, and of a round of the loop."""

DENSE_DSP_S8 = CKernel(
    251,
    "dense_dsp_s8",
    Record(
        "dense_dsp_s8",
        (
            Field("weights", BLOB, "i8 [ceil(O/4)][K/4][4 channels][4], K in whole units of 8"),
            Field("rescale", BLOB, "i32 [ceil(O/4)][numbers of the form][4 channels] (dsp.h)"),
            Field("inputs", U32),
            Field("outputs", U32),
            Field("form", U32, "of rescaling: 0 folded with shift 8, 1 with shift 12, 2 exact"),
            Field("constant", I32, "of the folded forms"),
            Field("lo", I32, "least stored result"),
            Field("hi", I32, "largest stored result"),
        ),
    ),
)
FAMILY = (DENSE_DSP_S8,)


@KERNELS.kernel(Dense, requires=("dsp",))
def dense_dsp(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Dense)
    if not is_s8(node):
        return None
    outputs, inputs = node.inputs[1].type.shape
    if math.prod(x.shape[1:-1] if x.rank == 4 else x.shape[:-1]) != 1:
        raise NoKernel("takes one row")
    if outputs < GROUP:
        raise NoKernel(f"makes {GROUP} results or more")
    requantized = requantization(node)
    rescaling, weights = rescaled_weights(node, constant_weights(node), requantized)
    limits, packed = clamp_limits(I8, op.clamp), pack_groups(weights)
    params: dict[str, FieldValue | Blob | None] = {
        "weights": packed,
        "rescale": rescaling.packed(GROUP),
        "inputs": inputs,
        "outputs": outputs,
        "form": rescaling.form,
        "constant": rescaling.constant,
        "lo": limits.lo,
        "hi": limits.hi,
    }
    widened = 2 * STEP * packed.shape[1]
    return Call(DENSE_DSP_S8, node.inputs[:1], params, no_scratch if widened <= STACK_BYTES else fixed_scratch(widened))


def pack_groups(weights: np.ndarray) -> np.ndarray:
    """[O, K] -> i8 [ceil(O/4), K/4, 4, 4]; the last group is the last four channels."""
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % UNIT)))[grouped_channels(len(weights), GROUP)]
    steps = padded.shape[1] // STEP
    return np.ascontiguousarray(padded.reshape(-1, GROUP, steps, STEP).transpose(0, 2, 1, 3)).astype(np.int8)
