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


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {b.Receive: rows(b.Receive), b.Send: rows(b.Send)}
