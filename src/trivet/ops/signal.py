"""Audio features as TensorFlow Lite Micro's signal library computes them, first part: from samples to energies.

Everything is exact integer arithmetic; sums wrap where the library's do.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core.dtype import I16, I32, U32
from trivet.core.fixedpoint import Ints
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, require
from trivet.ir.types import TensorType, Types

_ONE = 32767
"""1 in Q0.15, as nearly as int16 holds it."""
_LARGEST_FFT = 1 << 14


@dataclass(frozen=True, slots=True)
class SignalWindow(Op):
    """Samples times a window, shifted right by `shift`, saturated.

    x: i16 [..., N], window: i16 [N] -> y: i16 [..., N]
    """

    shift: int
    name: ClassVar[str] = "signal_window"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"signal_window takes 2 operands, got {len(types)}")
        x, window = types
        require(x.dtype is I16 and window.dtype is I16, f"signal_window takes i16, got {x} and {window}")
        require(x.rank >= 1 and window.shape == x.shape[-1:] and x.elements > 0, f"a window {window} of {x}")
        require(0 <= self.shift < 32, f"signal_window shifts by {self.shift}, 0 to 31 are accepted")
        return (TensorType(I16, x.shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, window = (array.astype(np.int64) for array in arrays)
        return (np.clip(x * window >> self.shift, -32768, 32767).astype(np.int16),)


@dataclass(frozen=True, slots=True)
class FftAutoScale(Op):
    """Samples shifted left as far as the largest magnitude lets them, and by how many bits.

    x: i16 [N] -> y: i16 [N], bits: i32 []
    A sample of -32768 has no magnitude in 16 bits: the search for the largest then starts again from it, as in the
    library.
    """

    name: ClassVar[str] = "fft_auto_scale"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is I16 and types[0].rank == 1, "fft_auto_scale takes one i16 [N]")
        require(types[0].elements > 0, "fft_auto_scale of nothing")
        return TensorType(I16, types[0].shape), TensorType(I32, ())

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        largest = 0
        for value in arrays[0].tolist():
            if value > largest:
                largest = value
            elif -value > largest:
                largest = -value if value != -32768 else value
        bits = max(15 - largest.bit_length(), 0) if largest > 0 else 0
        scaled = (arrays[0].astype(np.int32) << bits).astype(np.int16)
        return scaled, np.array(bits, np.int32)


@dataclass(frozen=True, slots=True)
class Rfft(Op):
    """Half of the spectrum of real samples in Q0.15, divided by `length`: the fixed-point FFT of KISS FFT.

    x: i16 [..., N] with N <= length, zeros behind it -> y: i16 [..., length + 2], real and imaginary parts in turns
    `length` is a power of two. Radix 4, and once radix 2 where it does not suffice; every butterfly divides by its
    radix first and rounds products half up, sums wrap.
    """

    length: int
    name: ClassVar[str] = "rfft"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is I16 and types[0].rank >= 1, "rfft takes one i16 operand")
        length, (x,) = self.length, types
        require(8 <= length <= _LARGEST_FFT and length & (length - 1) == 0, f"rfft of {length} samples")
        require(0 < x.shape[-1] <= length and x.elements > 0, f"rfft of {length} samples, got {x}")
        return (TensorType(I16, (*x.shape[:-1], length + 2)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        samples = np.zeros((x.size // x.shape[-1], self.length), np.int64)
        samples[:, : x.shape[-1]] = x.reshape(len(samples), -1)
        spectra = [self._spectrum(row) for row in samples]
        return (np.stack(spectra).astype(np.int16).reshape(*x.shape[:-1], self.length + 2),)

    def _spectrum(self, samples: Ints) -> Ints:
        """Pairs of samples are one complex sample; their spectrum is then taken apart."""
        half = self.length // 2
        z = complex_fft(samples.reshape(half, 2))
        y = np.zeros((half + 1, 2), np.int64)
        first = _divided(z[0], 2)
        y[0, 0], y[half, 0] = _wrap16(first[0] + first[1]), _wrap16(first[0] - first[1])
        k = np.arange(1, half // 2 + 1)
        near, far = _divided(z[k], 2), _divided(_wrap16(z[half - k] * (1, -1)), 2)
        even, odd = _wrap16(near + far), _wrap16(near - far)
        turned = _product(odd, split_twiddles(half))
        y[k] = _wrap16((even + turned) >> 1)
        y[half - k] = _wrap16(((even - turned) * (1, -1)) >> 1)
        return y.ravel()


def radices(points: int) -> list[int]:
    """Fours, then a two where one is left; the outermost butterfly first."""
    found = []
    while points > 1:
        found.append(4 if points % 4 == 0 else 2)
        points //= found[-1]
    return found


def twiddles(points: int) -> Ints:
    """exp(-2 pi i k / points) in Q0.15: [points, 2]."""
    return _stored_circle(-2 * np.pi * np.arange(points) / points)


def split_twiddles(half: int) -> Ints:
    """exp(-pi i ((k + 1) / half + 1 / 2)) in Q0.15, which separates the halves of a spectrum: [half // 2, 2]."""
    return _stored_circle(-np.pi * ((np.arange(half // 2) + 1) / half + 0.5))


def _stored_circle(phase: Array) -> Ints:
    parts = np.stack([np.cos(phase), np.sin(phase)], -1)
    return np.floor(0.5 + _ONE * parts).astype(np.int64)


def complex_fft(x: Ints) -> Ints:
    """x: [n, 2], n a power of two -> y: [n, 2], divided by n."""
    n, around = len(x), twiddles(len(x))
    y, inner, outer = x[input_order(n)], 1, n
    for radix in reversed(radices(n)):
        outer //= radix
        turns = around[(np.arange(radix)[:, None] * np.arange(inner) * outer) % n]
        blocks = _divided(y.reshape(-1, radix, inner, 2), radix)
        y = (_radix_4 if radix == 4 else _radix_2)(blocks, turns).reshape(n, 2)
        inner *= radix
    return y


def input_order(points: int) -> Ints:
    """Which sample comes first, second, ... below the innermost butterflies."""
    order = np.zeros(1, np.int64)
    for radix in reversed(radices(points)):
        order = (order * radix + np.arange(radix)[:, None]).ravel()
    return order


def _radix_2(x: Ints, turns: Ints) -> Ints:
    t = _product(x[:, 1], turns[1])
    return np.stack([_wrap16(x[:, 0] + t), _wrap16(x[:, 0] - t)], 1)


def _radix_4(x: Ints, turns: Ints) -> Ints:
    first, b, c, d = x[:, 0], *(_product(x[:, i], turns[i]) for i in (1, 2, 3))
    difference, first = _wrap16(first - c), _wrap16(first + c)
    total, across = _wrap16(b + d), _wrap16(b - d)
    quarter = across[..., ::-1] * (1, -1)
    parts = (first + total, difference + quarter, first - total, difference - quarter)
    return np.stack([_wrap16(part) for part in parts], 1)


def _divided(x: Ints, divisor: int) -> Ints:
    return _wrap16((x * (_ONE // divisor) + (1 << 14)) >> 15)


def _product(a: Ints, b: Ints) -> Ints:
    """Complex, Q0.15, rounded half up."""
    real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    imaginary = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
    return _wrap16((np.stack([real, imaginary], -1) + (1 << 14)) >> 15)


def _wrap16(x: Ints) -> Ints:
    return x.astype(np.int16).astype(np.int64)


@dataclass(frozen=True, slots=True)
class SpectrumEnergy(Op):
    """Squared magnitudes of the frequencies from `start` to before `stop`, zero elsewhere.

    x: i16 [2 * N], real and imaginary parts in turns -> y: u32 [N]
    """

    start: int
    stop: int
    name: ClassVar[str] = "spectrum_energy"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is I16 and types[0].rank == 1, "spectrum_energy takes one i16 [2N]")
        count = types[0].elements // 2
        require(types[0].elements == 2 * count and count > 0, f"spectrum_energy of {types[0]}")
        require(0 <= self.start <= self.stop <= count, f"frequencies {self.start} to {self.stop} of {count}")
        return (TensorType(U32, (count,)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x = arrays[0].reshape(-1, 2).astype(np.int64)
        energy = (x * x).sum(-1)
        energy[: self.start] = 0
        energy[self.stop :] = 0
        return (energy.astype(np.uint32),)
