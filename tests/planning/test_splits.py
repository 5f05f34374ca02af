"""Dense layers split by channels: the same numbers, in less memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from int8_networks import Builder, Kernels, expected, random_inputs
from trivet.ir.graph import Graph
from trivet.ops.dense_rows import DenseOfRows, DenseToRows
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import FAST, ExecutionPlan
from trivet.planning.planner import plan
from trivet.planning.simulate import simulate
from trivet.planning.splits import split_channels
from trivet.planning.validate import violations

SMALLEST = PlanOptions(Objective.MEMORY)


def check(graph: Graph, made: ExecutionPlan) -> None:
    assert violations(made) == []
    inputs = random_inputs(graph)
    for got, want in zip(simulate(made, inputs)[0], expected(graph, inputs), strict=True):
        assert np.array_equal(got, want)


def perceptron(*widths: int, clamps: bool = True) -> Graph:
    b = Builder()
    x = b.reshape(b.input(1, 1, 1, widths[0]), 1, widths[0])
    for width in widths[1:]:
        x = b.dense(x, width)
        x = b.clamp(x) if clamps else x
    return b.finish(x)


def test_a_wide_hidden_layer_is_made_and_taken_in_groups() -> None:
    graph = perceptron(128, 1024, 16)
    assert plan(graph, None, None, Kernels()).region_bytes(FAST) == 128 + 1024
    made = plan(graph, None, None, Kernels(), SMALLEST)
    check(graph, made)
    assert made.region_bytes(FAST) < 128 + 2 * 32 + 4 * 16 + 64
    assert next(type(step.node.op) for step in made.steps()) is DenseToRows


def test_the_quickest_plan_that_fits_is_not_split() -> None:
    graph = perceptron(128, 1024, 16)
    assert not any(isinstance(s.node.op, DenseToRows) for s in plan(graph, 2000, None, Kernels()).steps())
    made = plan(graph, 600, None, Kernels())
    check(graph, made)
    assert made.region_bytes(FAST) <= 600


def test_a_map_that_is_flattened_is_taken_row_by_row() -> None:
    b = Builder()
    x = b.conv(b.conv(b.input(1, 16, 8, 4), 16), 16)
    graph = b.finish(b.dense(b.reshape(x, 1, 16 * 8 * 16), 8))
    made = plan(graph, None, None, Kernels(), SMALLEST)
    check(graph, made)
    assert any(isinstance(step.node.op, DenseOfRows) for step in made.steps())
    assert made.region_bytes(FAST) < 16 * 8 * 4 + 6 * 8 * 16 + 4 * 8 + 64


def test_layers_are_paired_at_their_longest_vectors() -> None:
    split = split_channels(perceptron(16, 64, 512, 64, 8), Kernels())
    assert split is not None
    dense = [n.op.name for n in split.nodes if "dense" in n.op.name]
    assert dense == ["dense", "dense_to_rows", "dense_of_rows", "dense"]


def test_what_others_read_is_not_split() -> None:
    b = Builder()
    wide = b.dense(b.reshape(b.input(1, 1, 1, 32), 1, 32), 256)
    assert split_channels(b.finish(b.dense(wide, 8), wide), Kernels()) is None
    assert split_channels(perceptron(32, 31, 8), Kernels()) is None


@settings(max_examples=20)
@given(st.lists(st.sampled_from((4, 12, 40, 64, 96, 200)), min_size=2, max_size=5), st.booleans())
def test_perceptrons_are_right(widths: list[int], clamps: bool) -> None:
    graph = perceptron(*widths, clamps=clamps)
    made = plan(graph, None, None, Kernels(), SMALLEST)
    check(graph, made)
    slow = plan(graph, None, 1 << 20, Kernels(), SMALLEST)
    check(graph, slow)
