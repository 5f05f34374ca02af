"""Operators of corresponding elements: broadcasting, three kinds of numbers, every contract."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import NUMERICS, Instance, clamps, instance, outputs, quants, shapes
from trivet.core.bounds import Bounds
from trivet.core.dtype import ALL_DTYPES, BOOL, F32, I4, I8, I16, I32, I64, U4, DType
from trivet.core.numerics import Overflow
from trivet.ir.op import Op
from trivet.ir.types import Shape, TensorType
from trivet.ops import elementwise as e

NUMBERS = st.sampled_from((F32, I8, I16, I32, I64))
"""f32, quantized integers (i8, i16) and plain ones (i32, i64)."""
PLAIN = st.sampled_from([d for d in ALL_DTYPES if d not in (I4, U4)])


@st.composite
def broadcast_shapes(draw: DrawFn, count: int) -> tuple[Shape, ...]:
    """Shapes that broadcast together: extents of one, and leading axes left out."""
    shape = draw(shapes((0, 4), 5))
    parts = []
    for _ in range(count):
        kept = tuple(d if draw(st.booleans()) else 1 for d in shape) if draw(st.booleans()) else shape
        parts.append(kept[draw(st.sampled_from((0, 0, len(shape) // 2, len(shape)))) :])
    return tuple(parts)


@st.composite
def pair(draw: DrawFn, dtypes: SearchStrategy[DType] = NUMBERS) -> tuple[TensorType, TensorType]:
    dtype, (a, b) = draw(dtypes), draw(broadcast_shapes(2))
    if dtype not in (I8, I16):
        return TensorType(dtype, a), TensorType(dtype, b)
    return TensorType(dtype, a, draw(quants(dtype))), TensorType(dtype, b, draw(quants(dtype)))


Arithmetic = type[e.Add] | type[e.Sub] | type[e.Mul] | type[e.Div] | type[e.SquaredDifference]


@st.composite
def arithmetic(draw: DrawFn, kind: Arithmetic) -> Instance:
    a, b = draw(pair())
    clamp = draw(clamps(a.dtype)) if a.dtype in (F32, I8, I16) else draw(st.sampled_from((Bounds(), Bounds(-500, 500))))
    out, numerics = draw(outputs(a, 4)) if a.quant is not None else (None, None)
    return instance(draw, kind(clamp, out, numerics), (a, b))


@st.composite
def exact_sum(draw: DrawFn) -> Instance:
    """`.tiny`'s mixed addition."""
    a, b = draw(broadcast_shapes(2))
    dtypes = st.sampled_from((I8, I32))
    op = e.Add(overflow=Overflow.EXACT)
    return instance(draw, op, (TensorType(draw(dtypes), a), TensorType(draw(dtypes), b)))


@st.composite
def extremum(draw: DrawFn, kind: type[e.Maximum] | type[e.Minimum]) -> Instance:
    a, b = draw(pair())
    return instance(draw, kind(a.quant), (a, b))


@st.composite
def comparison(draw: DrawFn, kind: Callable[..., Op]) -> Instance:
    a, b = draw(pair())
    return instance(draw, kind(None if a.quant is None else draw(NUMERICS)), (a, b))


@st.composite
def power(draw: DrawFn) -> Instance:
    return instance(draw, e.Pow(), draw(pair(st.just(F32))))


@st.composite
def where(draw: DrawFn) -> Instance:
    condition, a, b = draw(broadcast_shapes(3))
    dtype = draw(NUMBERS)
    quant = draw(quants(dtype)) if dtype in (I8, I16) else None
    types = (TensorType(BOOL, condition), TensorType(dtype, a, quant), TensorType(dtype, b, quant))
    return instance(draw, e.Where(), types)


@st.composite
def cast(draw: DrawFn) -> Instance:
    return instance(draw, e.Cast(draw(PLAIN)), (TensorType(draw(PLAIN), draw(shapes((0, 4), 5))),))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    e.Add: st.one_of(arithmetic(e.Add), exact_sum()),
    **{kind: arithmetic(kind) for kind in (e.Sub, e.Mul, e.Div, e.SquaredDifference)},
    **{kind: extremum(kind) for kind in (e.Maximum, e.Minimum)},
    **{kind: comparison(kind) for kind in (e.Equal, e.NotEqual, e.Less, e.LessEqual, e.Greater, e.GreaterEqual)},
    e.Pow: power(),
    e.Where: where(),
    e.Cast: cast(),
}
