"""Plans of the planner, streams and overlaps included, run on the host runtime as the interpreter runs their graphs."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from int8_networks import SEEDS, Builder, expected, random_graph, random_inputs
from trivet.backends.plan.host import HostModel
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.writer import write
from trivet.ir.graph import Graph
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import BufferKind, ExecutionPlan
from trivet.planning.planner import FAST, plan


def check(library: ctypes.CDLL, graph: Graph, made: ExecutionPlan, selection: Selection) -> None:
    model = HostModel(write(made, selection), library)
    inputs = random_inputs(graph)
    for actual, wanted in zip(model.run(inputs), expected(graph, inputs), strict=True):
        np.testing.assert_array_equal(actual, wanted)
    assert model.high_water_bytes(inputs) <= model.arena_bytes == made.region_bytes(FAST)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(seed=SEEDS)
def test_random_networks(library: ctypes.CDLL, seed: int) -> None:
    graph, selection = random_graph(seed, max_size=12), Selection()
    assume(all(selection.find(node) is not None for node in graph.nodes if not node.op.views_input))
    layers = plan(graph, None, None, selection)
    smallest = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    between = (layers.region_bytes(FAST) + smallest.region_bytes(FAST)) // 2
    for made in (layers, smallest, plan(graph, between, None, selection)):
        check(library, graph, made, selection)


def test_a_residual_block_adds_in_place_on_a_ring(library: ctypes.CDLL) -> None:
    b = Builder()
    x = b.conv(b.input(1, 24, 8, 4), 8)
    joined = b.add(b.conv(b.conv(x, 8), 8), x)
    graph, selection = b.finish(b.conv(joined, 4, stride=2)), Selection()
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert made.view(joined) == made.view(graph.nodes[2].outputs[0])
    assert made.buffers[made.view(joined).buffer].kind is BufferKind.RING
    check(library, graph, made, selection)


def test_a_column_that_is_narrower_than_its_window(library: ctypes.CDLL) -> None:
    b = Builder()
    graph, selection = b.finish(b.conv(b.input(1, 5, 1, 16), 4, kernel=3, stride=3)), Selection()
    check(library, graph, plan(graph, None, None, selection), selection)


def test_a_mean_adds_up_rows_over_the_input_that_it_consumes(library: ctypes.CDLL) -> None:
    b = Builder()
    graph, selection = b.finish(b.mean(b.conv(b.input(1, 12, 3, 8), 32))), Selection()
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert any(step.accumulates and step.firings == 12 for step in made.steps())
    check(library, graph, made, selection)


def test_a_window_that_reads_an_earlier_row_than_the_one_before(library: ctypes.CDLL) -> None:
    """Taps -1 and 1, then 0 and 2: the first row that is still read is not the next window's first."""
    b = Builder()
    wide = b.conv(b.input(1, 12, 3, 4), 32, kernel=1)
    graph, selection = b.finish(b.conv(wide, 4, kernel=2, dilation=2)), Selection()
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert made.view(wide).is_ring
    check(library, graph, made, selection)


def test_a_pointwise_convolution_writes_over_its_operand(library: ctypes.CDLL) -> None:
    b = Builder()
    x = b.depthwise(b.conv(b.input(1, 20, 5, 4), 32))
    y = b.conv(x, 32, kernel=1)
    graph, selection = b.finish(b.conv(y, 4)), Selection()
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert made.view(x) == made.view(y) and made.view(x).is_ring
    check(library, graph, made, selection)


@pytest.mark.parametrize("features", [16, 37])
def test_a_dense_layer_writes_over_its_operand(library: ctypes.CDLL, features: int) -> None:
    b = Builder()
    x = b.dense(b.input(1, 9), features)
    y = b.dense(x, features)
    graph, selection = b.finish(b.dense(y, 3)), Selection()
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert made.view(x) == made.view(y)
    check(library, graph, made, selection)


def test_rows_that_are_read_as_one_vector(library: ctypes.CDLL) -> None:
    """The rows of a reshaped operand are not those that its maker counts."""
    b = Builder()
    pooled = b.pool(b.conv(b.input(1, 21, 9, 8), 32, pad=False))
    graph = b.finish(b.dense(b.reshape(pooled, 1, pooled.type.elements), 16))
    selection = Selection()
    check(library, graph, plan(graph, None, None, selection, PlanOptions(Objective.MEMORY)), selection)


def test_split_dense_layers(library: ctypes.CDLL) -> None:
    b = Builder()
    x = b.conv(b.input(1, 16, 8, 4), 16)
    hidden = b.clamp(b.dense(b.reshape(x, 1, 16 * 8 * 16), 768))
    graph, selection = b.finish(b.dense(b.clamp(b.dense(hidden, 3072)), 10)), Selection()
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    names = [step.node.op.name for step in made.steps()]
    assert {"dense_to_rows", "dense_of_rows"} <= set(names)
    check(library, graph, made, selection)
