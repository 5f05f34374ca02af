"""Recurrent layers with every function, short sequences, states that start anywhere."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, instance, sizes
from trivet.core.dtype import F32
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.recurrent import CellFunction, Gru, Lstm, Rnn

BOUNDED = (CellFunction.SIGMOID, CellFunction.TANH, CellFunction.HARD_SIGMOID, CellFunction.SOFTSIGN)
"""Functions that keep states small, whatever they are applied to."""


@st.composite
def layers(draw: DrawFn, kind: type[Lstm] | type[Gru] | type[Rnn]) -> Instance:
    steps, batch, inputs, hidden = draw(sizes(1, 4)), draw(sizes(1, 3)), draw(sizes(1, 10)), draw(sizes(1, 9))
    any_function = st.sampled_from(CellFunction)
    bounded = st.sampled_from(BOUNDED)
    functions = tuple(draw(bounded if i == 0 else any_function) for i in range(kind.function_count))
    alphas, betas = (tuple(draw(st.sampled_from((0.25, 0.5, 0.75))) for _ in functions) for _ in range(2))
    fields = {
        "functions": functions, "alphas": alphas, "betas": betas, "reverse": draw(st.booleans()),
        "clip": draw(st.sampled_from((0.0, 0.5))),
    }  # fmt: skip
    shapes = [(steps, batch, inputs), (kind.gates * hidden, inputs), (kind.gates * hidden, hidden)]
    shapes += [(kind.biases * hidden,), *[(batch, hidden)] * kind.states]
    if kind is Lstm:
        fields |= {"input_forget": draw(st.booleans()), "cell_clip": draw(st.sampled_from((0.0, 0.75)))}
        shapes += [(3 * hidden,)] * draw(st.integers(0, 1))
    if kind is Gru:
        fields |= {"linear_before_reset": draw(st.booleans())}
    return instance(draw, kind(**fields), [TensorType(F32, shape) for shape in shapes])


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {kind: layers(kind) for kind in (Lstm, Gru, Rnn)}
