"""Audio features as TensorFlow Lite Micro's signal library computes them, second part: from energies to features.

Everything is exact integer arithmetic; unsigned sums and products wrap where the library's do.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from trivet.core.dtype import I16, I32, U32, U64
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, require
from trivet.ir.types import TensorType, Types

GAIN_ENTRIES = 125
"""Of a gain table: three for the numbers up to 2, then four for each power of two."""
_SNR_BITS, _FEATURE_BITS = 12, 6
_LOG_BITS, _SEGMENT_BITS = 16, 9
"""Fraction bits of logarithms, and of the place inside a segment of their table."""
_LN2 = round(math.log(2) * (1 << _LOG_BITS))


def _log_table() -> npt.NDArray[np.int32]:
    x = np.arange((1 << (_LOG_BITS - _SEGMENT_BITS)) + 1) / (1 << (_LOG_BITS - _SEGMENT_BITS))
    return np.rint((np.log2(1 + x) - x) * (1 << _LOG_BITS)).astype(np.int32)


LOG_TABLE = _log_table()
"""log2(1 + x) - x in Q16 at 129 places from 0 to 1."""


@dataclass(frozen=True, slots=True)
class FilterBank(Op):
    """Weighted sums of energies. Channel c adds `weights` of its own frequencies and `unweights` of channel c - 1's.

    x: u32 [F], weights, unweights: i16 [W], first frequency, first weight and count of each channel: i16 [C + 1]
    -> y: u64 [C]; row 0 of the last three only gives unweights to channel 0.
    """

    name: ClassVar[str] = "filter_bank"

    def infer(self, types: Types) -> Types:
        require(len(types) == 6, f"filter_bank takes 6 operands, got {len(types)}")
        x, weights, unweights, *ranges = types
        require(x.dtype is U32 and x.rank == 1 and x.elements > 0, f"filter_bank of {x}")
        require(all(t.dtype is I16 and t.rank == 1 for t in types[1:]), "filter_bank takes i16 [...] constants")
        require(weights.shape == unweights.shape and weights.elements > 0, f"filter_bank of {weights}, {unweights}")
        require(len({t.shape for t in ranges}) == 1 and ranges[0].elements > 1, f"filter_bank of channels {ranges}")
        return (TensorType(U64, (ranges[0].elements - 1,)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, weights, unweights = (array.astype(np.int64).view(np.uint64) for array in arrays[:3])
        sums, carried = [], 0
        for frequency, weight, count in zip(*(array.tolist() for array in arrays[3:]), strict=True):
            energies, place = x[frequency : frequency + count], slice(weight, weight + count)
            sums.append((carried + int((weights[place] * energies).sum(dtype=np.uint64))) % (1 << 64))
            carried = int((unweights[place] * energies).sum(dtype=np.uint64))
        return (np.array(sums[1:], np.uint64),)


@dataclass(frozen=True, slots=True)
class FilterBankSquareRoot(Op):
    """The root, rounded to nearest, shifted right by the bits that the samples were shifted left.

    x: u64 [C], bits: i32 [] -> y: u32 [C]
    Roots of numbers below 2^32 are at most 65535. Nothing is left of a shift by less than 0 or more than 31.
    """

    name: ClassVar[str] = "filter_bank_square_root"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2 and types[0].dtype is U64 and types[0].rank == 1, "filter_bank_square_root takes u64")
        require(types[0].elements > 0 and types[1] == TensorType(I32, ()), f"filter_bank_square_root of {types}")
        return (TensorType(U32, types[0].shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        bits = int(arrays[1])
        roots = [_rounded_root(value) >> bits if 0 <= bits < 32 else 0 for value in arrays[0].tolist()]
        return (np.array(roots, np.uint32),)


def _rounded_root(value: int) -> int:
    root = math.isqrt(value)
    most = 0xFFFF if value < 1 << 32 else 0xFFFFFFFF
    return root + (value - root * root > root and root != most)


@dataclass(frozen=True, slots=True)
class SpectralSubtraction(Op):
    """What stands out of the noise, which is estimated by a low-pass filter of every channel.

    x, noise: u32 [C] -> y, noise: u32 [C]
    `smoothing` is the filter's coefficients of even and odd channels, each with one minus it; `floor` the least part of
    the signal that remains; all in Q`bits`. `extra_bits` are the estimate's fraction bits; `clamping` keeps it from
    lying above the signal.
    """

    smoothing: tuple[tuple[int, int], tuple[int, int]]
    floor: int
    bits: int
    extra_bits: int
    clamping: bool
    name: ClassVar[str] = "spectral_subtraction"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2 and types[0] == types[1], f"spectral_subtraction takes two operands alike, got {types}")
        require(types[0].dtype is U32 and types[0].rank == 1, f"spectral_subtraction takes u32 [C], got {types[0]}")
        require(types[0].elements > 0, "spectral_subtraction of nothing")
        require(0 <= self.bits < 32 and 0 <= self.extra_bits < 32, "spectral_subtraction shifts by 0 to 31 bits")
        numbers = (*self.smoothing[0], *self.smoothing[1], self.floor)
        require(all(0 <= n < 1 << 32 for n in numbers), f"spectral_subtraction with {numbers}")
        return types

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, noise = (array.astype(np.uint64) for array in arrays)
        new, old = np.array(self.smoothing, np.uint64)[np.arange(len(x)) % 2].T
        bits, extra = np.uint64(self.bits), np.uint64(self.extra_bits)
        signal = _low_half(x << extra)
        noise = _low_half((signal * new + noise * old) >> bits)
        subtracted = (signal - np.minimum(noise, signal)) >> extra
        floor = _low_half((x * np.uint64(self.floor)) >> bits)
        if self.clamping:
            noise = np.minimum(noise, signal)
        return np.maximum(subtracted, floor).astype(np.uint32), noise.astype(np.uint32)


def _low_half(x: Array) -> Array:
    return x & np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Pcan(Op):
    """Per-channel automatic gain: the gain for the noise comes from a table, the product is shrunk.

    x, noise: u32 [C], gains: i16 [125] -> y: u32 [C]
    The table has values at 0, 1, 2, then for every power of two a value, slope and curvature.
    """

    snr_shift: int
    name: ClassVar[str] = "pcan"

    def infer(self, types: Types) -> Types:
        require(len(types) == 3 and types[0] == types[1], f"pcan takes two operands alike and a table, got {types}")
        require(types[0].dtype is U32 and types[0].rank == 1 and types[0].elements > 0, f"pcan of {types[0]}")
        require(types[2] == TensorType(I16, (GAIN_ENTRIES,)), f"pcan with the table {types[2]}")
        require(0 <= self.snr_shift < 64, f"pcan shifts by {self.snr_shift}")
        return (TensorType(U32, types[0].shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, noise, gains = arrays[0].tolist(), arrays[1].tolist(), arrays[2].tolist()
        pairs = zip(x, noise, strict=True)
        return (np.array([_shrunk(self._product(a, _gain(b, gains))) for a, b in pairs], np.uint32),)

    def _product(self, x: int, gain: int) -> int:
        return ((x * (gain & 0xFFFFFFFF) & (1 << 64) - 1) >> self.snr_shift) & 0xFFFFFFFF


def _gain(noise: int, gains: list[int]) -> int:
    """int16: a polynomial of the ten bits behind the highest one."""
    if noise <= 2:
        return gains[noise]
    length = noise.bit_length()
    value, slope, curvature = gains[4 * length - 6 :][:3]
    fraction = (noise << (11 - length) if length < 11 else noise >> (length - 11)) & 0x3FF
    result = _wrapped((((curvature * fraction) >> 5) + slope * 32) * fraction, 32)
    return _wrapped((_wrapped(result + (1 << 14), 32) >> 15) + value, 16)


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _shrunk(snr: int) -> int:
    """x^2 / 4 below 2, x - 1 from there on."""
    if snr < 2 << _SNR_BITS:
        return snr * snr >> (2 + 2 * _SNR_BITS - _FEATURE_BITS)
    return (snr >> (_SNR_BITS - _FEATURE_BITS)) - (1 << _FEATURE_BITS)


@dataclass(frozen=True, slots=True)
class FilterBankLog(Op):
    """The natural logarithm of x << `correction_bits`, times `scale`; 0 where that is at most 1.

    x: u32 [C] -> y: i16 [C]
    """

    scale: int
    correction_bits: int
    name: ClassVar[str] = "filter_bank_log"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is U32 and types[0].rank == 1, "filter_bank_log takes one u32 [C]")
        require(types[0].elements > 0, "filter_bank_log of nothing")
        require(0 <= self.correction_bits < 32 and 0 <= self.scale < 1 << 31, "filter_bank_log out of range")
        return (TensorType(I16, types[0].shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        shifted = [value << self.correction_bits & 0xFFFFFFFF for value in arrays[0].tolist()]
        return (np.array([min(self._log(v), 32767) if v > 1 else 0 for v in shifted], np.int16),)

    def _log(self, value: int) -> int:
        """In uint32, which wraps."""
        whole = value.bit_length() - 1
        fraction = value - (1 << whole)
        fraction = fraction << (_LOG_BITS - whole) if whole < _LOG_BITS else fraction >> (whole - _LOG_BITS)
        segment, place = fraction >> _SEGMENT_BITS, fraction & (1 << _SEGMENT_BITS) - 1
        low, high = int(LOG_TABLE[segment]), int(LOG_TABLE[segment + 1])
        log2 = (whole << _LOG_BITS) + fraction + low + ((high - low) * place >> _LOG_BITS)
        half = 1 << (_LOG_BITS - 1)
        natural = (_LN2 * log2 + half) >> _LOG_BITS
        return ((self.scale * natural + half) & 0xFFFFFFFF) >> _LOG_BITS
