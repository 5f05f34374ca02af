"""Plans broken on purpose: the validator names the fault, and where results would differ the simulation shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from int8_networks import Builder, Kernels, expected, random_inputs
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
