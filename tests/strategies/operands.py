"""Types, quantizations and arrays that strategies of all families are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Array, Arrays, Op
from trivet.ir.types import Shape, TensorType, Types


@dataclass(frozen=True)
class Instance:
    """An operator with operands it takes."""

    op: Op
    types: Types
    arrays: Arrays


Draw = Callable[[SearchStrategy], object]

NUMERICS = st.sampled_from(list(Numerics))
ACTIVATIONS = st.sampled_from((I8, F32, I16, I8))
"""Element types of activations."""


def sizes(low: int = 1, high: int = 6) -> SearchStrategy[int]:
    return st.integers(low, high)


def shapes(rank: int | tuple[int, int], high: int = 5) -> SearchStrategy[Shape]:
    """Shapes of one rank, or of a range of ranks."""
    low_rank, high_rank = (rank, rank) if isinstance(rank, int) else rank
    return st.lists(sizes(1, high), min_size=low_rank, max_size=high_rank).map(tuple)


def scales(high: float = 1.0) -> SearchStrategy[float]:
    """Powers of two and awkward fractions."""
    exact = st.integers(-9, 0).map(lambda e: high * 2.0**e)
    awkward = st.floats(high * 2.0**-9, high)
    return st.one_of(exact, awkward).map(lambda s: float(np.float32(s)))


def zero_points(dtype: DType) -> SearchStrategy[int]:
    """Any for int8; int16 is symmetric."""
    return st.just(0) if dtype is I16 else st.integers(dtype.min, dtype.max)


@st.composite
def quants(draw: DrawFn, dtype: DType, high: float = 1.0) -> Quant:
    return Quant.per_tensor(draw(scales(high)), draw(zero_points(dtype)))


@st.composite
def channel_quants(draw: DrawFn, channels: int, axis: int, high: float = 1.0) -> Quant:
    """Symmetric scales per channel, as converters write them for weights."""
    values = draw(st.lists(scales(high), min_size=channels, max_size=channels))
    return Quant.per_axis(values, [0] * channels, axis)


def filled(draw: DrawFn, type_: TensorType) -> Array:
    """Integers of the full range (less where wider than 16 bits) or of a narrow one, or normally distributed floats."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if type_.dtype.is_float:
        return rng.standard_normal(type_.shape).astype(type_.dtype.numpy)
    if type_.dtype is BOOL:
        return rng.integers(0, 2, type_.shape).astype(np.bool_)
    low, high = (type_.dtype.min, type_.dtype.max) if type_.dtype.bits <= 16 else (-(10**4), 10**4)
    if draw(st.booleans()):
        low = int(rng.integers(low, high + 1))
        high = min(high, low + 20)
    return rng.integers(low, high + 1, type_.shape).astype(type_.dtype.numpy)


def instance(draw: DrawFn, op: Op, types: Sequence[TensorType]) -> Instance:
    """The operator with random operands of these types."""
    return Instance(op, tuple(types), tuple(filled(draw, type_) for type_ in types))


@st.composite
def activations(draw: DrawFn, shape: Shape, dtypes: SearchStrategy[DType] = ACTIVATIONS) -> TensorType:
    """f32, or a quantized type."""
    dtype = draw(dtypes)
    return TensorType(dtype, shape, None if dtype is F32 else draw(quants(dtype)))


@st.composite
def weights(draw: DrawFn, x: TensorType, shape: Shape, axis: int) -> TensorType:
    """The weight beside `x`: f32, or int8 per tensor with a zero point or per channel along `axis`."""
    if x.dtype is F32:
        return TensorType(F32, shape)
    per_channel = draw(st.booleans())
    quant = draw(channel_quants(shape[axis], axis, 0.1) if per_channel else quants(I8, 0.1))
    return TensorType(I8, shape, quant)


@st.composite
def biases(draw: DrawFn, x: TensorType, channels: int) -> TensorType:
    dtype = {F32: st.just(F32), I8: st.just(I32), I16: st.sampled_from((I32, I64))}[x.dtype]
    return TensorType(draw(dtype), (channels,))


@st.composite
def outputs(draw: DrawFn, x: TensorType, terms: int = 1) -> tuple[Quant | None, Numerics | None]:
    """Output quantization and contract, or neither for floats; the scale suits sums of `terms` products."""
    if x.dtype is F32:
        return None, None
    return draw(quants(x.dtype, 4.0 * terms**0.5)), draw(NUMERICS)


@st.composite
def clamps(draw: DrawFn, dtype: DType) -> Bounds:
    """None, one-sided or two-sided."""
    low, high = (-2, 2) if dtype is F32 else (dtype.min // 2, dtype.max // 2)
    ends = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    return draw(st.sampled_from((UNBOUNDED, Bounds(lo=ends[0]), Bounds(*ends))))
