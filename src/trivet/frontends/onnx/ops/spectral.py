"""Windows, spectra and mel filters: constants are computed now, transforms are products with constant matrices."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import F32, I64
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.ops.matmul import product
from trivet.frontends.onnx.ops.movement import sliced
from trivet.frontends.onnx.tensors import DTYPES
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ops.elementwise import Mul
from trivet.ops.movement import Gather, Pad

ONNX = Converters()

MAX_POINTS = 4096
"""A spectrum of more points would need too large a matrix."""


def _cosines(ctx: Context, *factors: float) -> Value:
    """factors[0] - factors[1] cos(t) + factors[2] cos(2t) ... over one turn."""
    size = ctx.known_ints(0, "the size")[0]
    if not 0 < size <= 1 << 20:
        ctx.refuse(f"a window of {size} samples")
    last = size if ctx.attr_flag("periodic", True) else max(size - 1, 1)
    turn = 2 * np.pi * np.arange(size) / last
    window = sum((-1) ** k * factor * np.cos(k * turn) for k, factor in enumerate(factors))
    return ctx.constant(np.asarray(window), DTYPES.get(ctx.attr_int("output_datatype", 1), F32))


@ONNX("HannWindow")
def hann_window(ctx: Context) -> Value:
    return _cosines(ctx, 0.5, 0.5)


@ONNX("HammingWindow")
def hamming_window(ctx: Context) -> Value:
    return _cosines(ctx, 25 / 46, 21 / 46)


@ONNX("BlackmanWindow")
def blackman_window(ctx: Context) -> Value:
    return _cosines(ctx, 0.42, 0.5, 0.08)


@ONNX("MelWeightMatrix")
def mel_weights(ctx: Context) -> Value:
    """Bins, length of the transform, sample rate, lowest and highest frequency -> [length // 2 + 1, bins]."""
    names = ("the bins", "the length", "the rate", "the lowest frequency", "the highest frequency")
    bins, length, rate, low, high = (ctx.known_scalar(i, name) for i, name in enumerate(names))
    if not (0 < bins < 1 << 12 and 0 < length < 1 << 16 and rate > 0):
        ctx.refuse(f"{bins:g} bins of {length:g} points")
    mels = [2595 * math.log10(1 + frequency / 700) for frequency in (low, high)]
    places = mels[0] + np.arange(int(bins) + 2) * (mels[1] - mels[0]) / (int(bins) + 2)
    edges = ((int(length) + 1) * 700 * (10 ** (places / 2595) - 1) // rate).astype(int)
    weights = np.zeros((int(length) // 2 + 1, int(bins)))
    for index, (start, centre, stop) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        weights[start : centre + 1, index] = np.arange(centre - start + 1) / max(centre - start, 1)
        weights[centre, index] = 1.0
        weights[centre:stop, index] = (stop - np.arange(centre, stop)) / max(stop - centre, 1)
    return ctx.constant(weights, DTYPES.get(ctx.attr_int("output_datatype", 1), F32))


@ONNX("DFT")
def fourier(ctx: Context) -> Value:
    """x: [..., N, ..., 1 or 2], length and axis (optional) -> [..., M, ..., 2]."""
    x = ctx.operand(0)
    stated = ctx.known_ints(2, "the axis")[0] if ctx.has(2) else -2
    axis = ctx.axis(stated if ctx.opset >= 20 else ctx.attr_int("axis", 1), x.type.rank)
    inverse, onesided = ctx.attr_flag("inverse"), ctx.attr_flag("onesided")
    if x.type.rank < 2 or axis == x.type.rank - 1 or x.type.shape[-1] not in (1, 2):
        ctx.invalid(f"the spectrum of {x.type} along axis {axis}")
    half = inverse and onesided
    points = 2 * (x.type.shape[axis] - 1) if half else x.type.shape[axis]
    if ctx.has(1):
        points = ctx.known_ints(1, "the length")[0]
    order = (*(i for i in range(x.type.rank - 1) if i != axis), axis, x.type.rank - 1)
    y = transformed(ctx, ctx.transpose(x, order), points, inverse, onesided)
    return ctx.transpose(y, tuple(int(i) for i in np.argsort(order)))


def transformed(ctx: Context, x: Value, points: int, inverse: bool, onesided: bool) -> Value:
    """x: [..., N, 1 or 2], cut or padded to `points` -> [..., M, 2], or [..., points, 1] from half a spectrum."""
    *first, size, parts = x.type.shape
    half = points // 2 + 1
    taken = half if inverse and onesided else points
    if not 1 <= points <= MAX_POINTS:
        ctx.refuse(f"a spectrum of {points} points", hint=f"1 to {MAX_POINTS} are taken")
    if size > taken:
        x = sliced(ctx, x, x.type.rank - 2, 0, taken)
    elif size < taken:
        none = (0,) * len(first)
        x = ctx.emit(Pad((*none, 0, 0), (*none, taken - size, 0)), x)
    matrix = _half_matrix(points) if inverse and onesided else _matrix(points, half if onesided else points, inverse)
    matrix = matrix[:, :parts].reshape(taken * parts, -1)
    y = product(ctx, ctx.reshape(x, (*first, taken * parts)), ctx.constant(matrix))
    results = 1 if inverse and onesided else 2
    return ctx.reshape(y, (*first, y.type.shape[-1] // results, results))


def _matrix(points: int, wanted: int, inverse: bool) -> Array:
    """[points, 2 (of x), wanted, 2 (of y)]."""
    sign, scale = (1, 1 / points) if inverse else (-1, 1.0)
    angle = sign * 2 * np.pi * (np.arange(points)[:, None] * np.arange(wanted) % points) / points
    cosines, sines = np.cos(angle) * scale, np.sin(angle) * scale
    return np.stack([np.stack([cosines, sines], -1), np.stack([-sines, cosines], -1)], 1)


def _half_matrix(points: int) -> Array:
    """Half a spectrum back to real samples: [points // 2 + 1, 2, points, 1]."""
    full = _matrix(points, points, inverse=True)[: points // 2 + 1, :, :, :1].copy()
    full[1 : (points + 1) // 2] *= 2
    return full


@ONNX("STFT")
def short_spectra(ctx: Context) -> Value:
    """x: [B, L, 1 or 2], step, window (optional), length (optional) -> [B, frames, M, 2]."""
    x, step = ctx.operand(0), ctx.known_ints(1, "the step")[0]
    if x.type.rank == 2:
        x = ctx.reshape(x, (*x.type.shape, 1))
    window = ctx.optional(2)
    if window is None and not ctx.has(3):
        ctx.invalid("it has neither a window nor a length")
    length = ctx.known_ints(3, "the length")[0] if ctx.has(3) else ctx.operand(2).type.elements
    if step < 1 or not 1 <= length <= x.type.shape[1] or (window is not None and window.type.shape != (length,)):
        ctx.invalid(f"frames of {length} samples every {step} of {x.type}")
    frames = (x.type.shape[1] - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    cut = ctx.emit(Gather(1), x, ctx.constant(places, I64))
    if window is not None:
        cut = ctx.emit(Mul(), cut, ctx.reshape(window, (length, 1)))
    return transformed(ctx, cut, length, False, ctx.attr_flag("onesided", True) and x.type.shape[2] == 1)
