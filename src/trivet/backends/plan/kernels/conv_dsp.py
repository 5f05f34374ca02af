"""Convolutions and dense layers on int8 for cores with the DSP extension (Cortex-M4, M7, M33)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import (
    WINDOW,
    Geometry,
    Requantized,
    constant_weights,
    conv_geometry,
    dense_geometry,
    is_s8,
    requantization,
    weight_zero,
)
from trivet.backends.plan.kernels.requant import fixed_scratch, grouped_channels, no_scratch
from trivet.backends.plan.kernels.rescaling import (
    Rescaling,
    Sums,
    constant_channels,
    find_rescaling,
)
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.core.dtype import I8
from trivet.ir.graph import Node
from trivet.ops.conv import Conv2D
from trivet.ops.matmul import Dense
from trivet.ops.products import clamp_limits

STACK_BYTES = 2304
"""Chunks up to this size are on the stack (kernels/conv_dsp_s8.c)."""
DIRECT_PIXELS = 4
"""Up to so many pixels, widening the weights once does not pay."""
MOST_PIXELS = 64
ENOUGH_PIXELS = 16
"""A larger chunk hardly helps."""

MAX_ROWS, MAX_RUN = 32, 64
PAIR, STEP = 2, 4

CONV_DSP_S8 = CKernel(
    220,
    "conv_dsp_s8",
    Record(
        "conv_dsp_s8",
        (
            Field("weights", BLOB, "i8 [ceil(O/2)][steps][2 channels][4] in the order of the windows (conv_dsp_s8.c)"),
            Field("rescale", BLOB, "i32 [ceil(O/2)][numbers of the form][2 channels] (dsp.h)"),
            Field("in_channels", U32),
            Field("out_channels", U32),
            *WINDOW,
            Field("pixels", U32, "of a chunk: an even number"),
            Field("form", U32, "of rescaling: 0 folded with shift 8, 1 with shift 12, 2 exact"),
            Field("constant", I32, "of the folded forms"),
            Field("in_zero", I32, "zero point of the operand"),
            Field("lo", I32, "least stored result"),
            Field("hi", I32, "largest stored result"),
        ),
    ),
)
FAMILY = (CONV_DSP_S8,)


@KERNELS.kernel(Conv2D, requires=("dsp",))
def conv2d_dsp(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1]
    assert isinstance(op, Conv2D)
    if not is_s8(node):
        return None
    if op.groups != 1 or op.dilation != (1, 1):
        raise NoKernel("takes one group without dilation")
    geometry = conv_geometry(node, op, (w.type.shape[1], w.type.shape[2]), 1)
    return _call(node, geometry, requantization(node))


@KERNELS.kernel(Dense, requires=("dsp",))
def dense_pixels_dsp(node: Node) -> Call | None:
    """A pointwise convolution; what is not of rank 4 is one row of pixels."""
    return _call(node, dense_geometry(node), requantization(node)) if is_s8(node) else None


def rescaled_weights(
    node: Node, weights: np.ndarray, requantized: Requantized, is_constant_in_sums: bool = False
) -> tuple[Rescaling, np.ndarray]:
    """How sums of products with weights [O, K] become stored integers, and the weights: zero where they do not matter.

    Raises: NoKernel where no form is proved to be right.
    """
    quant = node.inputs[0].type.quant
    assert quant is not None
    if weight_zero(node) != 0:
        raise NoKernel("its weights have a zero point")
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    sums = Sums.of(weights.astype(np.int64), bias, quant.zero_point)
    found = find_rescaling(sums, requantized, is_constant_in_sums)
    if found is None:
        raise NoKernel("no form of its rescaling is proved to be right")
    return found, np.where(constant_channels(sums, requantized)[:, None], 0, weights)


def _call(node: Node, geometry: Geometry, requantized: Requantized) -> Call:
    weights = constant_weights(node).reshape(geometry.out_channels, -1)
    run = geometry.kernel_w * geometry.in_channels
    if geometry.out_channels < PAIR:
        raise NoKernel("takes two output channels or more")
    if geometry.kernel_h > MAX_ROWS or (geometry.in_channels % STEP and run > MAX_RUN):
        raise NoKernel(f"takes {MAX_ROWS} kernel rows, and {MAX_RUN} bytes of each where channels are no whole words")
    quant = node.inputs[0].type.quant
    assert quant is not None
    limits = clamp_limits(I8, requantized.clamp)
    rescaling, weights = rescaled_weights(node, weights, requantized)
    packed = pack_pairs(in_window_order(weights, geometry.kernel_h, run))
    steps = packed.shape[1]
    params: dict[str, FieldValue | Blob | None] = {
        **geometry.window_params(),
        "weights": packed,
        "rescale": rescaling.packed(PAIR),
        "in_channels": geometry.in_channels,
        "out_channels": geometry.out_channels,
        "form": rescaling.form,
        "constant": rescaling.constant,
        "in_zero": quant.zero_point,
        "lo": limits.lo,
        "hi": limits.hi,
    }
    overwrites = geometry.window == geometry.in_channels == geometry.out_channels
    call = Call(CONV_DSP_S8, node.inputs[:1], params, overwrites=overwrites and geometry.out_width == geometry.in_width)
    pixels = geometry.out_width * (node.output.type.shape[1] if node.output.type.rank == 4 else 1)
    least = best_pixels(pixels, steps, max(STACK_BYTES, chunk_bytes(PAIR, steps)))

    def roomier(limit_bytes: int) -> Call:
        most = min(limit_bytes, chunk_bytes(ENOUGH_PIXELS, steps))
        return _with_pixels(call, params, max(least, best_pixels(pixels, steps, most)), steps)

    is_enough = least >= min(ENOUGH_PIXELS, pixels)
    return replace(_with_pixels(call, params, least, steps), roomier=None if is_enough else roomier)


def _with_pixels(call: Call, params: Mapping[str, FieldValue | Blob | None], pixels: int, steps: int) -> Call:
    size = chunk_bytes(pixels, steps)
    scratch = no_scratch if size <= STACK_BYTES else fixed_scratch(size)
    return replace(call, params={**params, "pixels": pixels}, scratch=scratch)


def chunk_bytes(pixels: int, steps: int) -> int:
    """Work space of a chunk: widened windows, and the widened weights of two channels."""
    return 8 * pixels * steps + (16 * steps if pixels > DIRECT_PIXELS else 0)


def best_pixels(pixels: int, steps: int, limit_bytes: int) -> int:
    """The chunk, at least of two pixels, with the fewest instructions a product within so many bytes."""
    most = min(MOST_PIXELS, pixels + pixels % PAIR)
    tried = [n for n in range(PAIR, most + 1, PAIR) if n == PAIR or chunk_bytes(n, steps) <= limit_bytes]
    return min(tried, key=lambda n: (10 + 13 / n if n > DIRECT_PIXELS else 14, -n))


def in_window_order(weights: np.ndarray, kernel_h: int, run: int) -> np.ndarray:
    """[O, kernel_h * run] -> [O, K]: of every kernel row its whole words, then of every row what is left, and zeros."""
    rows = weights.reshape(len(weights), kernel_h, run)
    whole = run // STEP * STEP
    ordered = np.concatenate(
        [rows[:, :, :whole].reshape(len(rows), -1), rows[:, :, whole:].reshape(len(rows), -1)], axis=1
    )
    return np.pad(ordered, ((0, 0), (0, -ordered.shape[1] % STEP)))


def pack_pairs(weights: np.ndarray) -> np.ndarray:
    """[O, K] -> i8 [ceil(O/2), K/4, 2, 4]; of an odd number of channels, the last pair is the last two."""
    steps = weights.shape[1] // STEP
    grouped = weights[grouped_channels(len(weights), PAIR)]
    return np.ascontiguousarray(grouped.reshape(-1, PAIR, steps, STEP).transpose(0, 2, 1, 3)).astype(np.int8)
