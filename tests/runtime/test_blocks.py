"""Layers fused into blocks: the same results in less memory, in the planner, the simulation and the C runtime."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8_networks import Builder, expected, random_inputs
from trivet.backends.plan.host import HostModel
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.writer import write
from trivet.interp import run
from trivet.ir.graph import Graph
from trivet.ops.block import Block
from trivet.passes.border_rows import BorderRows
from trivet.planning.blocks import Fusion, groups_of
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import ExecutionPlan
from trivet.planning.planner import FAST, plan
from trivet.planning.simulate import simulate
from trivet.planning.validate import violations
from trivet.report import repeated_macs

SMALLEST = PlanOptions(Objective.MEMORY)


def blocks_of(made: ExecutionPlan) -> list[Block]:
    return [step.node.op for step in made.steps() if isinstance(step.node.op, Block)]


def check(library: ctypes.CDLL, graph: Graph, made: ExecutionPlan, selection: Selection) -> None:
    """The plan is sound, and simulation and runtime give what the interpreter gives, in just its memory."""
    inputs = random_inputs(graph)
    wanted = expected(graph, inputs)
    assert violations(made) == []
    model = HostModel(write(made, selection), library)
    for outputs in (simulate(made, inputs)[0], model.run(inputs)):
        for actual, right in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(actual, right)
    assert model.high_water_bytes(inputs) <= model.arena_bytes == made.region_bytes(FAST)


def inverted_residual(height: int, width: int, stride: int, kernel: int = 3, narrow: int = 4, wide: int = 24) -> Graph:
    b = Builder()
    x = b.conv(b.input(1, height, width, 3), narrow, kernel=3)
    middle = b.depthwise(b.conv(x, wide, kernel=1), kernel=kernel, stride=stride)
    return b.finish(b.conv(b.conv(middle, narrow, kernel=1), 8, kernel=3))


@given(
    height=st.integers(1, 12), width=st.integers(1, 11), stride=st.integers(1, 3), kernel=st.sampled_from((1, 2, 3, 5)),
    strip=st.integers(1, 5), keeps=st.booleans(), longest=st.booleans(),
)  # fmt: skip
def test_every_block_computes_what_its_layers_do(
    library: ctypes.CDLL, height: int, width: int, stride: int, kernel: int, strip: int, keeps: bool, longest: bool
) -> None:
    graph, selection = inverted_residual(height, width, stride, kernel, wide=8), Selection()
    groups = [group for group in groups_of(graph, selection) if len(group.nodes) == (3 if longest else 2)]
    for group in groups:
        op = group.op
        changed = Block(op.expand, op.depthwise, op.project, op.counts, keeps, strip)
        fused = Fusion(graph, [type(group)(group.nodes, changed)], selection).fused(graph.nodes)
        inputs = random_inputs(graph)
        wanted = expected(graph, inputs)
        np.testing.assert_array_equal(run(fused, inputs)[0][0], wanted[0])
        made = plan(fused, None, None, selection, SMALLEST)
        assert violations(made) == []
        np.testing.assert_array_equal(HostModel(write(made, selection), library).run(inputs)[0], wanted[0])


@pytest.mark.parametrize("stride", [1, 2])
def test_wide_rows_between_narrow_ones_are_never_all_there(library: ctypes.CDLL, stride: int) -> None:
    graph, selection = inverted_residual(24, 40, stride), Selection()
    BorderRows(True, True).run(graph)
    made = plan(graph, None, None, selection, SMALLEST)
    assert [block.keeps_lines for block in blocks_of(made)] == [True]
    wide_rows = 3 * 40 * 24
    strip = blocks_of(made)[0].strip
    lines = (3 - stride) * 40 * 24 + 3 * (3 + (strip - 1) * stride) * 24 + strip * 24
    scratch = max(b.size_bytes for b in made.buffers if b.kind.value == "scratch")
    assert scratch == lines < wide_rows
    check(library, graph, made, selection)


def test_a_value_that_others_read_is_not_fused_away() -> None:
    b = Builder()
    x = b.input(1, 8, 8, 8)
    wide = b.conv(x, 8, kernel=1)
    graph, selection = b.finish(b.add(b.depthwise(wide), wide)), Selection()
    assert groups_of(graph, selection) == []


def test_nothing_is_fused_where_memory_is_ample() -> None:
    graph, selection = inverted_residual(24, 20, 1), Selection()
    made = plan(graph, 1 << 20, None, selection)
    assert blocks_of(made) == []


def test_rows_that_are_computed_again_need_no_lines(library: ctypes.CDLL) -> None:
    graph, selection = inverted_residual(24, 40, 1), Selection()
    BorderRows(True, True).run(graph)
    once = plan(graph, None, None, selection, SMALLEST)
    twice = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY, max_overhead=3.0))
    check(library, graph, twice, selection)
    assert [block.keeps_lines for block in blocks_of(twice) if block.expand is not None] == [False]
    assert twice.region_bytes(FAST) < once.region_bytes(FAST)
    macs = sum(node.op.macs(node.input_types) for node in graph.nodes)
    assert 0 < repeated_macs(twice) <= 2 * macs
    assert repeated_macs(once) == 0


def test_repeated_work_stays_below_its_limit() -> None:
    graph, selection = inverted_residual(24, 40, 1), Selection()
    BorderRows(True, True).run(graph)
    macs = sum(node.op.macs(node.input_types) for node in graph.nodes)
    for overhead in (1.0, 1.01, 1.1, 1.5, 2.0):
        made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY, max_overhead=overhead))
        assert repeated_macs(made) <= (overhead - 1) * macs
