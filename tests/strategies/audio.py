"""Operators of audio features: frames, spectra, energies of every magnitude."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, filled, instance, shapes, sizes
from trivet.core.dtype import I16, I32, U32, U64
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType
from trivet.ops.filter_bank import (
    GAIN_ENTRIES,
    FilterBank,
    FilterBankLog,
    FilterBankSquareRoot,
    Pcan,
    SpectralSubtraction,
)
from trivet.ops.signal import FftAutoScale, Rfft, SignalWindow, SpectrumEnergy


@st.composite
def windows(draw: DrawFn) -> Instance:
    shape = draw(shapes((1, 4)))
    return instance(draw, SignalWindow(draw(st.integers(0, 31))), [TensorType(I16, shape), TensorType(I16, shape[-1:])])


@st.composite
def frames(draw: DrawFn) -> Instance:
    """Loud and silent ones, and those in which the least int16 occurs."""
    type_ = TensorType(I16, (draw(sizes(1, 9)),))
    x = filled(draw, type_) >> draw(st.integers(0, 15))
    if draw(st.booleans()):
        x[draw(st.integers(0, len(x) - 1))] = -32768
    return Instance(FftAutoScale(), (type_,), (x,))


@st.composite
def transforms(draw: DrawFn) -> Instance:
    length = 2 ** draw(st.integers(3, 7))
    shape = (*draw(shapes((0, 3), 2)), draw(st.one_of(st.just(length), sizes(1, length))))
    return instance(draw, Rfft(length), [TensorType(I16, shape)])


@st.composite
def energies(draw: DrawFn) -> Instance:
    count = draw(sizes(1, 9))
    start, stop = sorted(draw(st.tuples(sizes(0, count), sizes(0, count))))
    return instance(draw, SpectrumEnergy(start, stop), [TensorType(I16, (2 * count,))])


def wide(draw: DrawFn, type_: TensorType) -> Array:
    """Of every magnitude, zero and the largest included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    whole = rng.integers(0, type_.dtype.max, type_.shape, type_.dtype.numpy, endpoint=True)
    x = whole >> rng.integers(0, type_.dtype.bits, type_.shape).astype(whole.dtype)
    return np.asarray(np.where(rng.random(type_.shape) < 0.1, type_.dtype.max, x), type_.dtype.numpy)


@st.composite
def filter_banks(draw: DrawFn) -> Instance:
    frequencies, weights, channels = draw(sizes(1, 9)), draw(sizes(1, 9)), draw(sizes(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = rng.integers(0, min(frequencies, weights) + 1, channels + 1)
    starts, places = rng.integers(0, frequencies - counts + 1), rng.integers(0, weights - counts + 1)
    x, w = TensorType(U32, (frequencies,)), TensorType(I16, (weights,))
    ranges = tuple(a.astype(np.int16) for a in (starts, places, counts))
    types = (x, w, w, *(TensorType(I16, (channels + 1,)) for _ in ranges))
    return Instance(FilterBank(), types, (wide(draw, x), filled(draw, w), filled(draw, w), *ranges))


@st.composite
def square_roots(draw: DrawFn) -> Instance:
    type_ = TensorType(U64, (draw(sizes(1, 9)),))
    bits = np.array(draw(st.integers(-1, 33)), np.int32)
    return Instance(FilterBankSquareRoot(), (type_, TensorType(I32, ())), (wide(draw, type_), bits))


@st.composite
def subtractions(draw: DrawFn) -> Instance:
    type_ = TensorType(U32, (draw(sizes(1, 9)),))
    part = st.one_of(st.integers(0, 1 << 14), st.integers(0, 2**32 - 1))
    numbers = draw(st.tuples(*[part] * 5))
    op = SpectralSubtraction(
        (numbers[:2], numbers[2:4]), numbers[4], draw(st.integers(0, 31)), draw(st.integers(0, 31)), draw(st.booleans())
    )
    return Instance(op, (type_, type_), (wide(draw, type_), wide(draw, type_)))


@st.composite
def gains(draw: DrawFn) -> Instance:
    type_, table = TensorType(U32, (draw(sizes(1, 9)),)), TensorType(I16, (GAIN_ENTRIES,))
    arrays = (wide(draw, type_), wide(draw, type_), filled(draw, table))
    return Instance(Pcan(draw(st.integers(0, 63))), (type_, type_, table), arrays)


@st.composite
def logarithms(draw: DrawFn) -> Instance:
    type_ = TensorType(U32, (draw(sizes(1, 9)),))
    scale = draw(st.one_of(st.integers(0, 2000), st.integers(0, 2**31 - 1)))
    return Instance(FilterBankLog(scale, draw(st.integers(0, 31))), (type_,), (wide(draw, type_),))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    SignalWindow: windows(),
    FftAutoScale: frames(),
    Rfft: transforms(),
    SpectrumEnergy: energies(),
    FilterBank: filter_banks(),
    FilterBankSquareRoot: square_roots(),
    SpectralSubtraction: subtractions(),
    Pcan: gains(),
    FilterBankLog: logarithms(),
}
