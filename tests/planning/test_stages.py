"""Plans with a slow memory: right at every budget, with the least traffic, every byte of which is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8_networks import SEEDS, Builder, Kernels, expected, random_graph, random_inputs
from trivet.core.access import Sliding, Span
from trivet.errors import DoesNotFit
from trivet.ir.graph import Graph, Value
from trivet.planning.layout import SCRATCH_ALIGNMENT
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import FAST, SLOW, ExecutionPlan
from trivet.planning.planner import plan
from trivet.planning.replay import Firing, firings, result_rows
from trivet.planning.simulate import simulate
from trivet.planning.spilling import NOTHING, Spilling, Storages, Way
from trivet.planning.stages import Limits, StageChooser
from trivet.planning.streams import StreamModel
from trivet.planning.traffic import Traffic, traffic
from trivet.planning.validate import violations

PLENTY = 1 << 20


def check(graph: Graph, made: ExecutionPlan) -> None:
    assert violations(made) == []
    inputs = random_inputs(graph)
    outputs, _ = simulate(made, inputs)
    for got, want in zip(outputs, expected(graph, inputs), strict=True):
        assert np.array_equal(got, want)
    assert traffic(made) == replayed_traffic(made)


def layer_wise_bytes(graph: Graph) -> int:
    return plan(graph, None, None, Kernels()).region_bytes(FAST)


def replayed_traffic(made: ExecutionPlan) -> Traffic:
    """What the kernel calls of a run read and write in slow memory, by the operators' own rules."""
    read = written = 0
    for stage in made.stages:
        for stream in stage.streams:
            for firing in firings(made, stream):
                node = firing.step.node
                for index, value in enumerate(node.inputs):
                    if is_slow(made, value):
                        read += bytes_read(made, firing, index)
                for value in node.outputs:
                    if is_slow(made, value):
                        written += bytes_of_rows(made, value, len(result_rows(made, firing, value)))
    written += sum(v.type.size_bytes for v in {id(v): v for v in made.graph.outputs if v.is_constant}.values())
    return Traffic(read, written)


def is_slow(made: ExecutionPlan, value: Value) -> bool:
    return not value.is_constant and made.buffers[made.view(value).buffer].region == SLOW


def bytes_of_rows(made: ExecutionPlan, value: Value, rows: int) -> int:
    images = value.type.shape[0] if value.type.rank == 4 else 1
    return rows * images * made.view(value).row_bytes


def bytes_read(made: ExecutionPlan, firing: Firing, index: int) -> int:
    """Every row of the result by itself asks for its rows of an operand."""
    node, value = firing.step.node, firing.step.node.inputs[index]
    if firing.step.accumulates:
        return bytes_of_rows(made, value, firing.stop - firing.start)
    if node.outputs[0].type.rank != 4:
        return bytes_of_rows(made, value, made.view(value).height)
    rows = 0
    for row in result_rows(made, firing, node.outputs[0]):
        if value.type.rank != 4:
            rows += 1
            continue
        rule = node.op.access(node.input_types)[index][1]
        if isinstance(rule, Sliding):
            taps = [row * rule.stride - rule.before + k * rule.dilation for k in range(rule.kernel)]
            rows += sum(0 <= tap < rule.size for tap in taps)
        else:
            rows += rule.reads(Span(row, row + 1)).size
    return bytes_of_rows(made, value, rows)


@settings(max_examples=20)
@given(SEEDS, st.floats(0, 1))
def test_plans_are_right_and_no_larger_than_layer_by_layer(seed: int, share: float) -> None:
    graph = random_graph(seed, max_size=12)
    total = layer_wise_bytes(graph)
    try:
        made = plan(graph, round(share * total), PLENTY, Kernels())
    except DoesNotFit:
        return
    check(graph, made)
    assert made.region_bytes(FAST) <= share * total + 1
    border = sum(value.type.size_bytes for value in (*graph.inputs, *graph.outputs))
    scratch = max(Kernels().scratch_bytes(node, 1 << 20) for node in graph.nodes)
    assert made.region_bytes(FAST) + made.region_bytes(SLOW) <= total + max(border, scratch)
    for value in (*graph.inputs, *made.graph.outputs):
        assert value.producer is None or is_slow(made, value)


@settings(max_examples=15)
@given(SEEDS)
def test_the_smallest_fast_memory_has_a_plan(seed: int) -> None:
    graph = random_graph(seed)
    made = plan(graph, None, PLENTY, Kernels(), PlanOptions(Objective.MEMORY))
    check(graph, made)
    chooser = StageChooser(Spilling(StreamModel(graph, graph.nodes, Kernels(), 4, False)))
    assert made.region_bytes(FAST) > chooser.least_bytes() - SCRATCH_ALIGNMENT


def chain(seed: int, length: int = 6) -> Graph:
    """Convolutions and pools one after the other."""
    random, b = np.random.default_rng(seed), Builder(seed)
    x = b.input(1, int(random.integers(8, 20)), int(random.integers(3, 9)), 4)
    for _ in range(random.integers(2, length + 1)):
        match random.integers(3):
            case 0:
                x = b.conv(x, 4 * int(random.integers(1, 3)), int(random.choice([1, 3])), int(random.integers(1, 3)))
            case 1:
                x = b.depthwise(x)
            case _:
                x = b.clamp(x)
    return b.finish(x)


@given(SEEDS)
def test_in_a_chain_only_the_first_input_and_the_last_output_touch_slow_memory(seed: int) -> None:
    graph = chain(seed)
    model = StreamModel(graph, graph.nodes, Kernels(), 4, False)
    spilling = Spilling(model)
    border = graph.inputs[0].type.size_bytes + graph.outputs[0].type.size_bytes
    way = Way(0, len(model.items), True, rings=frozenset(spilling.inputs), slow=frozenset(spilling.outputs))
    priced = spilling.fast_bytes(way, NOTHING, PLENTY)
    assert priced is not None
    total = layer_wise_bytes(graph)
    if priced[0] + border > total:
        return
    made = plan(graph, max(priced[0], 64), PLENTY, Kernels())
    assert traffic(made).total_bytes == border
    assert {b.name for b in made.buffers if b.region == SLOW} <= {graph.inputs[0].name, graph.outputs[0].name}
    check(graph, made)


def greedy_traffic(graph: Graph, limit: int) -> int | None:
    """The baseline: every range is as long as fits, and what goes on to the next is spilled."""
    spilling = Spilling(StreamModel(graph, graph.nodes, Kernels(), 4, False))
    chooser, fast, total, start = StageChooser(spilling), frozenset[int](), 0, 0
    while start < chooser.count:
        best: Way | None = None
        for stop in range(start + 1, chooser.count + 1):
            fitting = [w for w in ways_into_slow(spilling, start, stop) if spilling.fast_bytes(w, fast, limit)]
            best = min(fitting, key=lambda w: spilling.traffic(w, fast), default=best)
            if not fitting:
                break
        if best is None:
            return None
        total += spilling.traffic(best, fast)
        start = best.stop
    return total


def ways_into_slow(spilling: Spilling, start: int, stop: int) -> list[Way]:
    flow = spilling.flow(start, stop)
    outs: Storages = frozenset(flow.outs)
    ways = [Way(start, stop, False, loads=frozenset(flow.ins), slow=outs)] if stop == start + 1 else []
    if spilling.model.can_stream(start, stop):
        rings = frozenset(s for s in flow.ins if spilling.has_rows(start, stop, s))
        ways += [Way(start, stop, True, rings=chosen, slow=outs) for chosen in (rings, NOTHING)]
    return ways


@given(SEEDS, st.floats(0.05, 1))
def test_cuts_by_dynamic_programming_need_no_more_traffic_than_greedy_ones(seed: int, share: float) -> None:
    graph = random_graph(seed)
    limit = round(share * layer_wise_bytes(graph))
    greedy = greedy_traffic(graph, limit)
    if greedy is None:
        return
    chooser = StageChooser(Spilling(StreamModel(graph, graph.nodes, Kernels(), 4, False)))
    found = chooser.best(Limits(limit, None))
    assert found is not None
    assert found.traffic_bytes <= greedy


def residual() -> Graph:
    b = Builder()
    x = b.conv(b.input(1, 16, 8, 4), 8)
    for _ in range(3):
        x = b.add(b.conv(b.conv(x, 8), 8), x)
    return b.finish(b.mean(x))


def test_values_stay_in_fast_memory_across_cuts_where_they_fit() -> None:
    graph = residual()
    made = plan(graph, 3300, PLENTY, Kernels())
    check(graph, made)
    assert traffic(made) == Traffic(16 * 8 * 4, 8)


@pytest.mark.parametrize("budget", [60, 600, 1000, 1500, 2500])
def test_a_smaller_budget_costs_traffic(budget: int) -> None:
    graph = residual()
    made, larger = plan(graph, budget, PLENTY, Kernels()), plan(graph, 2 * budget, PLENTY, Kernels())
    check(graph, made)
    assert made.region_bytes(FAST) <= budget
    assert traffic(made).total_bytes >= traffic(larger).total_bytes


def test_a_refusal_names_the_operator_and_the_smallest_budgets() -> None:
    graph = residual()
    with pytest.raises(DoesNotFit) as refused:
        plan(graph, 20, PLENTY, Kernels())
    assert "more than the budget of 20; over the budget by themselves: mean %" in str(refused.value)
    needed = int(str(refused.value.hint).split(" ")[0].replace(",", ""))
    assert plan(graph, needed, PLENTY, Kernels()).region_bytes(FAST) == needed


def test_too_little_slow_memory_is_refused_with_what_works() -> None:
    graph = residual()
    with pytest.raises(DoesNotFit) as refused:
        plan(graph, 1000, 600, Kernels())
    assert "bytes of slow memory" in str(refused.value)
    assert "more than the budget of 600" in str(refused.value)


@pytest.mark.parametrize("budget", [300, 40])
def test_states_and_constant_outputs_with_slow_memory(budget: int) -> None:
    b = Builder()
    x = b.input(1, 6, 4, 4)
    kept = b.graph.add_state("kept", x.type, np.full(x.type.shape, 7, np.int8))
    total = b.add(b.conv(x, 4), kept)
    b.graph.set_state(kept, total)
    graph = b.finish(b.conv(total, 8), b.weight(1, 3, 3, 4))
    made = plan(graph, budget, PLENTY, Kernels())
    assert violations(made) == []
    state = made.graph.states[0].read
    assert is_slow(made, state) == (budget < state.type.size_bytes)
    outputs, states = simulate(made, random_inputs(graph))
    again, _ = simulate(made, random_inputs(graph), states)
    assert np.array_equal(outputs[0], expected(graph, random_inputs(graph))[0])
    assert not np.array_equal(outputs[0], again[0])
