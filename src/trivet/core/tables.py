"""Tables of functions of one quantized value, as the reference runtimes fill and read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from trivet.core.fixedpoint import Floats, IntLike, Ints, round_half_away, wrap16
from trivet.core.quant import Quant

Real = Callable[[Floats], Floats]
"""A function of float arrays that keeps their type."""


@np.errstate(all="ignore")
def lut8(function: Real, x: Quant, y: Quant, lo: int = -128) -> Ints:
    """All 256 results of an 8-bit function evaluated in float32: entry i is for the stored value lo + i.

    `lo` is -128 for signed and 0 for unsigned storage.
    """
    stored = np.arange(lo, lo + 256)
    real = np.float32(x.scale) * (stored - x.zero_point).astype(np.float32)
    scaled = function(real).astype(np.float32) * (np.float32(1) / np.float32(y.scale))
    rounded = round_half_away(scaled) + np.float32(y.zero_point)
    return np.clip(rounded.astype(np.float64), lo, lo + 255).astype(np.int64)


@np.errstate(all="ignore")
def lut16(function: Real, x: tuple[float, int], y: tuple[float, int], real: type[Any] = np.float32) -> Ints:
    """513 samples of a 16-bit function, corrected for linear interpolation; `x`, `y` are (scale, zero point).

    `real` is the float type of every step: the contracts differ in it.
    """
    x_min, x_max = _range16(real, *x)
    y_min, y_max = _range16(real, *y)
    step = real((x_max - x_min) / real(512))
    gain = real(real(65536) / real(y_max - y_min))
    grid = np.arange(512).astype(real)
    left = x_min + grid * step
    start = round_half_away(function(left) * gain)
    middle_of_chord = round_half_away((function(x_min + (grid + real(1)) * step) * gain + start) / real(2))
    middle = round_half_away(function(left + real(step / real(2))) * gain)
    samples = start - round_half_away((middle_of_chord - middle) / real(2))
    last = round_half_away(function(np.array([x_max], real)) * gain)
    entries: Ints = np.clip(np.concatenate([samples, last]), -32768, 32767).astype(np.int64)
    return entries


def lut16_lookup(x: IntLike, table: Ints) -> Ints:
    """The interpolated entry for stored int16 values."""
    stored = np.asarray(x, np.int64)
    index = 256 + (stored >> 7)
    base = table[index]
    slope = wrap16(table[index + 1] - base)
    return wrap16(base + ((slope * (stored & 127) + 64) >> 7))


def _range16(real: type[Any], scale: float, zero_point: int) -> tuple[Any, Any]:
    """The real numbers of the smallest and the largest int16 value."""
    return real(real(scale) * real(-32768 - zero_point)), real(real(scale) * real(32767 - zero_point))


def _sigmoid_table() -> Ints:
    """65536 / (1 + e^(-i/24)), each sample raised by half the chord's error at the middle of its interval."""

    def sigmoid(u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return 65536 / (1 + np.exp(-u / 24))

    i = np.arange(256, dtype=np.float64)
    start, stop, middle = sigmoid(i), sigmoid(i + 1), sigmoid(i + 0.5)
    table = np.floor(start + (middle - (start + stop) / 2) / 2 + 0.5).astype(np.int64)
    table[255] = 65535
    return table


SIGMOID_TABLE = _sigmoid_table()
"""256 samples of the logistic function in Q0.16 at steps of 1/24, for int16 logistic and tanh."""
