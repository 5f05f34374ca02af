"""Reductions over one, several or all axes, keeping them or not."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, activations, instance, outputs, shapes
from trivet.core.dtype import F32, I8, I16, I32, I64
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.reduce import ArgMax, ArgMin, Mean, ReduceMax, ReduceMin, ReduceProd, Sum


def axes_of(draw: DrawFn, rank: int) -> tuple[int, ...]:
    return tuple(sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))))


@st.composite
def plain_integers(draw: DrawFn, shape: tuple[int, ...]) -> TensorType:
    return TensorType(draw(st.sampled_from((I32, I64))), shape)


@st.composite
def averages(draw: DrawFn, kind: type[Mean] | type[Sum]) -> Instance:
    shape = draw(shapes((1, 4)))
    axes, keep = axes_of(draw, len(shape)), draw(st.booleans())
    if draw(st.integers(0, 3)) == 0:
        return instance(draw, kind(axes, keep), [draw(plain_integers(shape))])
    x = draw(activations(shape))
    out, numerics = draw(outputs(x))
    return instance(draw, kind(axes, keep, out, numerics), [x])


@st.composite
def extremes(draw: DrawFn, kind: type[ReduceMax] | type[ReduceMin] | type[ReduceProd]) -> Instance:
    shape = draw(shapes((1, 4)))
    quantized = activations(shape, st.sampled_from((F32, I8, I16)))
    floats = activations(shape, st.just(F32))
    x = draw(st.one_of(plain_integers(shape), floats if kind is ReduceProd else quantized))
    return instance(draw, kind(axes_of(draw, len(shape)), draw(st.booleans())), [x])


@st.composite
def arguments(draw: DrawFn, kind: type[ArgMax] | type[ArgMin]) -> Instance:
    shape = draw(shapes((1, 4)))
    axis, dtype = draw(st.integers(0, len(shape) - 1)), draw(st.sampled_from((I32, I64)))
    return instance(draw, kind(axis, draw(st.booleans()), dtype), [draw(activations(shape))])


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    Mean: averages(Mean),
    Sum: averages(Sum),
    ReduceMax: extremes(ReduceMax),
    ReduceMin: extremes(ReduceMin),
    ReduceProd: extremes(ReduceProd),
    ArgMax: arguments(ArgMax),
    ArgMin: arguments(ArgMin),
}
