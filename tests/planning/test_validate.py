"""Plans broken on purpose: the validator names the fault, and where results would differ the simulation shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from int8_networks import Builder, Kernels, expected, random_inputs
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import ExecutionPlan
from trivet.planning.planner import plan
from trivet.planning.simulate import simulate
from trivet.planning.validate import violations


@pytest.fixture
def good() -> ExecutionPlan:
    b = Builder()
    x = b.input(1, 6, 6, 4)
    y = b.conv(x, 8)
    return plan(b.finish(b.add(b.depthwise(y), y)), None, None, Kernels())


def with_buffer(made: ExecutionPlan, number: int, **changes: int) -> ExecutionPlan:
    buffers = list(made.buffers)
    buffers[number] = replace(buffers[number], **changes)
    return replace(made, buffers=tuple(buffers))


def is_wrong(made: ExecutionPlan) -> bool:
    inputs = random_inputs(made.graph)
    outputs, _ = simulate(made, inputs)
    return any(not np.array_equal(a, b) for a, b in zip(outputs, expected(made.graph, inputs), strict=True))


def test_a_good_plan_is_accepted(good: ExecutionPlan) -> None:
    assert violations(good) == [] and not is_wrong(good)


def test_colliding_buffers(good: ExecutionPlan) -> None:
    conv, depthwise = (good.view(node.outputs[0]).buffer for node in good.graph.nodes[:2])
    broken = with_buffer(good, depthwise, offset=good.buffers[conv].offset)
    assert any("collide" in text for text in violations(broken)) and is_wrong(broken)


def test_a_lifetime_too_short_hides_no_collision(good: ExecutionPlan) -> None:
    conv = good.view(good.graph.nodes[0].outputs[0]).buffer
    assert any("outside its lifetime" in text for text in violations(with_buffer(good, conv, death=0)))


def test_steps_out_of_order(good: ExecutionPlan) -> None:
    (stage,) = good.stages
    broken = replace(good, stages=(replace(stage, streams=stage.streams[::-1]),))
    assert violations(broken) != [] and is_wrong(broken)


def test_a_step_is_missing(good: ExecutionPlan) -> None:
    (stage,) = good.stages
    broken = replace(good, stages=(replace(stage, streams=stage.streams[:-1]),))
    assert any("has no step" in text for text in violations(broken))


def test_work_space_over_an_operand(good: ExecutionPlan) -> None:
    scratch = next(step.scratch for step in good.steps() if step.scratch is not None)
    conv = good.buffers[good.view(good.graph.nodes[0].outputs[0]).buffer]
    assert any("collide" in text for text in violations(with_buffer(good, scratch, offset=-(-conv.offset // 16) * 16)))


def test_misaligned_and_misplaced(good: ExecutionPlan) -> None:
    assert any("not aligned" in text for text in violations(with_buffer(good, 0, offset=3)))
    assert any("leaves its buffer" in text for text in violations(with_buffer(good, 0, size_bytes=3)))


@pytest.fixture
def streamed() -> ExecutionPlan:
    """One stream that is wide in the middle, whose output overlaps the input."""
    b = Builder()
    y = b.conv(b.depthwise(b.conv(b.input(1, 12, 6, 4), 32)), 4)
    return plan(b.finish(y), None, None, Kernels(), PlanOptions(Objective.MEMORY))


def with_step(made: ExecutionPlan, index: int, **changes: object) -> ExecutionPlan:
    """Another step in the only stream."""
    (stage,) = made.stages
    (stream,) = stage.streams
    steps = list(stream.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(made, stages=(replace(stage, streams=(replace(stream, steps=tuple(steps)),)),))


def with_depth(made: ExecutionPlan, change: int) -> ExecutionPlan:
    """Another number of rows in the deepest ring."""
    ring = max((v.depth, v.buffer) for v in made.views.values() if v.is_ring)[1]
    views = {k: replace(v, depth=v.depth + change) if v.buffer == ring else v for k, v in made.views.items()}
    size = made.buffers[ring].size_bytes + change * next(v.row_bytes for v in views.values() if v.buffer == ring)
    return replace(with_buffer(made, ring, size_bytes=size), views=views)


def test_a_good_stream_is_accepted(streamed: ExecutionPlan) -> None:
    assert violations(streamed) == [] and not is_wrong(streamed)
    assert len(list(streamed.steps())) == 3 and streamed.overlaps


def test_a_ring_that_is_a_row_too_shallow_stops_the_loop(streamed: ExecutionPlan) -> None:
    assert any("comes to a stop" in text for text in violations(with_depth(streamed, -1)))


def test_a_shallow_ring_whose_readers_are_not_waited_for_is_overwritten(streamed: ExecutionPlan) -> None:
    """The loop runs on when edges claim less than the operators read; then the bytes are wrong."""
    broken = with_depth(streamed, -1)
    for index, step in enumerate(streamed.steps()):
        edges = tuple(replace(edge, taps=1, before=min(edge.before, 0)) for edge in step.edges)
        broken = with_step(broken, index, edges=edges)
    assert any("does not find" in text for text in violations(broken)) and is_wrong(broken)


def test_an_edge_that_asks_for_too_few_rows(streamed: ExecutionPlan) -> None:
    edges = tuple(replace(edge, taps=2) for edge in next(iter(list(streamed.steps())[1:])).edges)
    broken = with_step(streamed, 1, edges=edges)
    assert violations(broken) != [] and is_wrong(broken)


def test_an_edge_whose_source_is_forgotten(streamed: ExecutionPlan) -> None:
    edges = tuple(replace(edge, source=None) for edge in list(streamed.steps())[1].edges)
    broken = with_step(streamed, 1, edges=edges)
    assert violations(broken) != [] and is_wrong(broken)


def test_an_output_too_close_to_the_input_that_it_consumes(streamed: ExecutionPlan) -> None:
    (overlap,) = streamed.overlaps
    offset = streamed.buffers[overlap.lower].offset + overlap.distance
    aligned = with_buffer(streamed, overlap.upper, offset=-(-offset // 4) * 4)
    assert violations(with_buffer(aligned, overlap.upper, offset=offset - 8)) != []
    lying = replace(aligned, overlaps=(replace(overlap, distance=-1000),))
    assert any("does not find" in text for text in violations(with_buffer(lying, overlap.upper, offset=offset - 24)))


def test_counters_that_a_ring_overwrites(streamed: ExecutionPlan) -> None:
    (stream,) = streamed.stages[0].streams
    ring = next(v for v in streamed.views.values() if v.is_ring)
    assert stream.counters is not None
    broken = with_buffer(streamed, stream.counters, offset=streamed.buffers[ring.buffer].offset)
    assert any("collide" in text for text in violations(broken))
