"""What the C runtime does not run is refused before a plan is made, all of it in one report."""

from __future__ import annotations

import numpy as np
import pytest
from plans import lookups

from trivet.backends.plan.selection import Selection
from trivet.core.dtype import F16, I4, I8, DType
from trivet.errors import Problems
from trivet.ir.graph import Graph
from trivet.ir.types import TensorType
from trivet.ops.movement import Concat, Reshape


def refusal(graph: Graph) -> str:
    with pytest.raises(Problems) as caught:
        Selection().check(graph)
    return str(caught.value)


def one_input(dtype: DType, shape: tuple[int, ...]) -> Graph:
    graph = Graph()
    graph.add_output(graph.add_input("x", TensorType(dtype, shape)))
    return graph


def test_a_graph_of_known_kernels_is_accepted() -> None:
    Selection().check(lookups())


@pytest.mark.parametrize(
    "dtype, shape, named", [(I4, (3,), "i4[3]"), (I8, (2, 0), "i8[2, 0]"), (I8, (1,) * 9, "i8[1, 1")]
)
def test_tensors_that_a_plan_cannot_hold(dtype: DType, shape: tuple[int, ...], named: str) -> None:
    assert f"%x: a plan holds no {named}" in refusal(one_input(dtype, shape))


def test_every_problem_is_in_the_report() -> None:
    graph = one_input(I4, (3,))
    half = graph.add_input("half", TensorType(F16, (4,)))
    empty = graph.constant(np.zeros((0,), np.int8), TensorType(I8, (0,)))
    graph.add_output(graph.emit(Reshape((0, 1)), empty, name="nothing"))
    graph.add_output(graph.emit(Concat(0), half, half, name="pair"))
    assert "%x:" in refusal(graph) and "%nothing:" in refusal(graph)


def test_more_operands_than_a_kernel_takes() -> None:
    graph = Graph()
    parts = [graph.add_input(f"x{i}", TensorType(I8, (1, 1, 1, 1))) for i in range(32)]
    graph.add_output(graph.emit(Concat(3), *parts, name="y"))
    assert "concat: 33 operands and results, a kernel takes 32" in refusal(graph)
