"""Quantization parameters, and the one place where multipliers are derived from scales."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Quant:
    """real = scale * (stored - zero_point), per tensor or along `axis`.

    `scales` are float32 values held as Python floats. Per tensor: one scale, one zero point, `axis` None. Per channel:
    one of each for every index of `axis`.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        assert len(self.scales) == len(self.zero_points) > 0
        assert self.axis is not None or len(self.scales) == 1

    @staticmethod
    def per_tensor(scale: float, zero_point: int) -> Quant:
        return Quant((float(np.float32(scale)),), (int(zero_point),))

    @staticmethod
    def per_axis(scales: npt.ArrayLike, zero_points: npt.ArrayLike, axis: int) -> Quant:
        floats = tuple(float(np.float32(s)) for s in np.ravel(np.asarray(scales)))
        zeros = tuple(int(z) for z in np.ravel(np.asarray(zero_points)))
        return Quant(floats, zeros, axis)

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantization."""
        assert len(self.scales) == 1, "per-channel quantization has no single scale"
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point, which must be the same for all channels."""
        assert len(set(self.zero_points)) == 1, "per-channel quantization has no single zero point"
        return self.zero_points[0]

    @property
    def is_per_tensor(self) -> bool:
        return len(self.scales) == 1

    def shifted(self, offset: int) -> Quant:
        """The same real numbers when every stored value is moved by `offset`."""
        return Quant(self.scales, tuple(z + offset for z in self.zero_points), self.axis)

    def with_axis(self, axis: int) -> Quant:
        """The same parameters along another axis; per-tensor parameters have none."""
        return self if self.axis is None else Quant(self.scales, self.zero_points, axis)

    def scales_for(self, channels: int) -> npt.NDArray[np.float64]:
        """One scale per channel as float64: [channels]."""
        return np.broadcast_to(np.asarray(self.scales, np.float64), (channels,))


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A positive real as `mantissa * 2^(shift - 31)`; mantissa is 0 or in [2^30, 2^31); shift > 0 means left."""

    mantissa: int
    shift: int


def quantize_multiplier(real: float) -> Multiplier:
    """The Q0.31 form of `real >= 0`, rounded half away from zero.

    Reals below 2^-32 become zero, as in TensorFlow Lite (`QuantizeMultiplier`).
    """
    if real == 0.0:
        return Multiplier(0, 0)
    fraction, exponent = math.frexp(real)
    mantissa = math.floor(fraction * (1 << 31) + 0.5)
    if mantissa == 1 << 31:
        mantissa, exponent = 1 << 30, exponent + 1
    return Multiplier(0, 0) if exponent < -31 else Multiplier(mantissa, exponent)


def quantize_multipliers(reals: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`quantize_multiplier` of several reals: [n] -> mantissas [n], shifts [n]."""
    fractions, exponents = np.frexp(reals)
    mantissas = np.floor(fractions * (1 << 31) + 0.5).astype(np.int64)
    carried = mantissas == 1 << 31
    mantissas[carried] = 1 << 30
    shifts = exponents.astype(np.int64) + carried
    mantissas[shifts < -31] = 0
    shifts[mantissas == 0] = 0
    return mantissas, shifts
