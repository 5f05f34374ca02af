"""What goes between the model and its caller row by row."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, instance, quants, shapes
from trivet.core.dtype import F32, I8
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import border as b


@st.composite
def rows(draw: DrawFn, op: type[b.Receive | b.Send]) -> Instance:
    dtype = draw(st.sampled_from((I8, F32)))
    x = TensorType(dtype, draw(shapes((4, 4), 5)), draw(quants(I8)) if dtype is I8 else None)
    return instance(draw, op(0), (x,))


@st.composite
def chunks(draw: DrawFn, op: type[b.Receive | b.Send]) -> Instance:
    count, size = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    shape = (1, count * size) if op is b.Receive else (1, count, 1, size)
    return instance(draw, op(0, count), (TensorType(I8, shape, draw(quants(I8))),))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    op: st.one_of(rows(op), chunks(op)) for op in (b.Receive, b.Send)
}
