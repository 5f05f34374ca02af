"""Plans of random networks: the validator accepts them, and the simulation in a poisoned arena equals the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8_networks import SEEDS, Builder, Kernels, expected, random_graph, random_inputs
from trivet.errors import DoesNotFit
from trivet.ir.graph import Graph
from trivet.planning.options import Allocator, Objective, PlanOptions
from trivet.planning.plan import BufferKind, ExecutionPlan
from trivet.planning.planner import FAST, plan
from trivet.planning.simulate import simulate
from trivet.planning.validate import violations


def check(graph: Graph, made: ExecutionPlan) -> None:
    assert violations(made) == []
    inputs = random_inputs(graph)
    outputs, _ = simulate(made, inputs)
    for got, want in zip(outputs, expected(graph, inputs), strict=True):
        assert np.array_equal(got, want)


@given(SEEDS, st.sampled_from(Allocator), st.booleans())
def test_layer_wise_plans_are_right(seed: int, allocator: Allocator, preserve_inputs: bool) -> None:
    graph = random_graph(seed)
    options = PlanOptions(allocator=allocator, preserve_inputs=preserve_inputs)
    made = plan(graph, None, None, Kernels(), options)
    check(graph, made)
    if preserve_inputs:
        buffers = [made.buffers[made.view(v).buffer] for v in graph.inputs]
        assert all(b.death == max(0, len(made.stages[0].streams) - 1) for b in buffers)


def test_values_share_memory() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 8)
    left, right = b.conv(x, 8), b.depthwise(x)
    joined = b.concat(1, left, right)
    flat = b.reshape(b.clamp(joined), 1, 256)
    graph = b.finish(b.reshape(flat, 1, 8, 32))
    made = plan(graph, None, None, Kernels())
    check(graph, made)
    assert made.region_bytes(FAST) == 128 + 256 + 24  # input, the joined tensor, work space of the depthwise
    assert [step.node.op.name for step in made.steps()] == ["conv2d", "depthwise_conv2d", "clamp"]


def test_an_input_that_dies_is_overwritten_unless_it_is_preserved() -> None:
    b = Builder()
    graph = b.finish(b.clamp(b.input(1, 4, 4, 8)))
    assert plan(graph, None, None, Kernels()).region_bytes(FAST) == 128
    kept = plan(graph, None, None, Kernels(), PlanOptions(preserve_inputs=True))
    check(graph, kept)
    assert kept.region_bytes(FAST) == 256


def test_work_space_is_counted() -> None:
    b = Builder()
    made = plan(b.finish(b.depthwise(b.input(1, 4, 4, 8))), None, None, Kernels())
    assert [x.size_bytes for x in made.buffers if x.kind is BufferKind.SCRATCH] == [24]


def test_a_graph_without_nodes_has_a_plan() -> None:
    b = Builder()
    graph = b.finish(b.input(1, 4, 4, 8))
    check(graph, plan(graph, None, None, Kernels()))


def test_a_refusal_names_bytes_and_operators() -> None:
    b = Builder()
    graph = b.finish(b.conv(b.conv(b.input(1, 24, 8, 4), 16), 4))
    smallest = plan(graph, None, None, Kernels(), PlanOptions(Objective.MEMORY)).region_bytes(FAST)
    with pytest.raises(DoesNotFit) as refused:
        plan(graph, smallest - 64, None, Kernels())
    assert f"needs {smallest:,} bytes" in str(refused.value)
    assert "64 more than the budget" in str(refused.value)
    assert f"conv2d %{graph.outputs[0].name} ({smallest:,} bytes in use)" in str(refused.value)
    assert plan(graph, smallest, None, Kernels()).region_bytes(FAST) == smallest


@given(SEEDS, st.booleans())
def test_smallest_plans_are_right(seed: int, preserve_inputs: bool) -> None:
    graph = random_graph(seed)
    options = PlanOptions(objective=Objective.MEMORY, preserve_inputs=preserve_inputs)
    made = plan(graph, None, None, Kernels(), options)
    check(graph, made)
    layers = plan(graph, None, None, Kernels(), PlanOptions(preserve_inputs=preserve_inputs))
    assert made.region_bytes(FAST) <= layers.region_bytes(FAST)


@given(SEEDS, st.floats(0, 1))
def test_plans_for_a_budget_fit_it_and_are_right(seed: int, share: float) -> None:
    graph = random_graph(seed, max_size=12)
    most = plan(graph, None, None, Kernels()).region_bytes(FAST)
    least = plan(graph, None, None, Kernels(), PlanOptions(objective=Objective.MEMORY)).region_bytes(FAST)
    budget = least + round(share * (most - least))
    made = plan(graph, budget, None, Kernels())
    assert made.region_bytes(FAST) <= budget
    check(graph, made)


def test_a_constant_output_has_a_place_of_its_own() -> None:
    b = Builder()
    constant = b.weight(1, 4, 4, 8)
    graph = b.finish(b.conv(b.input(1, 4, 4, 8), 8), constant, constant)
    made = plan(graph, None, None, Kernels())
    check(graph, made)
    assert made.buffers[made.view(constant).buffer].kind is BufferKind.OUTPUT
    assert made.region_bytes(FAST) == 3 * 128


def test_a_graph_of_constants_has_a_plan() -> None:
    b = Builder()
    graph = b.finish(b.weight(1, 3, 3, 4))
    made = plan(graph, None, None, Kernels())
    check(graph, made)
    assert made.region_bytes(FAST) == 36


def test_an_input_that_is_an_output_is_not_overwritten() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 8)
    graph = b.finish(b.clamp(x), x)
    made = plan(graph, None, None, Kernels(), PlanOptions(objective=Objective.MEMORY))
    check(graph, made)
    assert made.region_bytes(FAST) == 2 * 128


def test_one_value_returned_twice_is_stored_once() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 8), 8)
    graph = b.finish(y, y)
    made = plan(graph, None, None, Kernels())
    check(graph, made)
    assert made.region_bytes(FAST) == 2 * 128


def test_tensors_without_elements_take_no_bytes() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 8)
    none = b.slice_rows(x, 0, 0)
    graph = b.finish(b.clamp(none), b.conv(x, 8))
    for objective in Objective:
        made = plan(graph, None, None, Kernels(), PlanOptions(objective=objective))
        check(graph, made)
        assert made.region_bytes(FAST) <= 2 * 128
