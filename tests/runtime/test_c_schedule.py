"""The C schedule reads the rows that the plan's edges say, and fires in the order of the plan's loop."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loader_cases import base, convolutions
from patches import patched
from plans import streamed

from trivet.backends.plan import format as f
from trivet.backends.plan.host import Event, HostModel, aligned
from trivet.backends.plan.writer import write
from trivet.planning.plan import Edge, ExecutionPlan

HEIGHT = 6
"""Rows of the operand and of the result in the plan "rows"."""


class Firing(ctypes.Structure):
    _fields_ = [("row", ctypes.c_uint32), ("rows", ctypes.c_uint32)]


EDGES = st.builds(
    Edge,
    operand=st.just(0),
    source=st.none(),
    height=st.just(HEIGHT),
    stride=st.integers(0, 5),
    before=st.integers(-9, 9),
    taps=st.integers(1, 4),
    dilation=st.integers(1, 8),
    divisor=st.integers(1, 4),
    clamped=st.booleans(),
)


def rows_read(library: ctypes.CDLL, edge: Edge, firing: Firing) -> range:
    """What C says of step 0 of the plan "rows" with this edge."""
    names = ("stride", "before", "taps", "dilation", "divisor", "clamped")
    data = patched(base("rows"), *(("edges", 0, name, int(getattr(edge, name))) for name in names))
    plan = aligned(len(data), 16)
    plan[:] = np.frombuffer(data, np.uint8)
    model = aligned(library.trivet_host_model_bytes(), 16)
    pointer = ctypes.c_void_p(model.ctypes.data)
    assert library.trivet_open(pointer, ctypes.c_void_p(plan.ctypes.data), ctypes.c_size_t(len(data))) == 0
    library.trivet_rows_read.restype = Firing
    offset = int.from_bytes(data[(at := f.HEADER.offset_of("steps")) : at + 4], "little")
    read = library.trivet_rows_read(pointer, ctypes.c_void_p(plan.ctypes.data + offset), 0, firing)
    return range(read.row, read.row + read.rows)


@given(EDGES, st.integers(0, HEIGHT - 1), st.integers(1, HEIGHT))
def test_a_firing_reads_the_rows_that_its_edge_says(library: ctypes.CDLL, edge: Edge, row: int, rows: int) -> None:
    rows = min(rows, HEIGHT - row)
    ends = [(edge.first(r), edge.last(r)) for r in range(row, row + rows)]
    first = [end for end, _ in ends if end is not None]
    last = [end for _, end in ends if end is not None]
    expected = range(min(first), max(last) + 1) if first else range(0)
    read = rows_read(library, edge, Firing(row, rows))
    assert read == expected or (len(read) == 0 and not first)


def fired(library: ctypes.CDLL, plan: ExecutionPlan) -> list[tuple[int, int]]:
    """Step and first row of every firing."""
    model = HostModel(write(plan), library)
    order: list[tuple[int, int]] = []

    def observe(event: Event) -> int:
        if event.done:
            order.append((event.step, event.row))
        return 0

    model.run_observed([np.zeros(v.type.shape, np.int8) for v in plan.graph.inputs], observe)
    return order


def loop(plan: ExecutionPlan) -> list[tuple[int, int]]:
    """The same by the words of the plan: source first, each step as often as it can."""
    (stream,) = plan.stages[0].streams
    done = [0] * len(stream.steps)
    order: list[tuple[int, int]] = []
    while any(n < s.firings for n, s in zip(done, stream.steps, strict=True)):
        before = len(order)
        for index, step in enumerate(stream.steps):
            while done[index] < step.firings and may_fire(plan, done, index):
                order.append((index, done[index] * (step.rows or 0)))
                done[index] += 1
        assert len(order) > before, "the stream cannot run to its end"
    return order


def may_fire(plan: ExecutionPlan, done: list[int], index: int) -> bool:
    (stream,) = plan.stages[0].streams
    step, now = stream.steps[index], done[index]
    for edge in step.edges:
        if edge.source is not None:
            last = edge.last(now)
            if last is not None and last >= done[edge.source]:
                return False
    depth = plan.view(step.node.output).depth
    readers = [(i, e) for i, s in enumerate(stream.steps) for e in s.edges if e.source == index]
    for reader, edge in readers:
        needed = (edge.first(r) for r in range(done[reader], stream.steps[reader].firings))
        lowest = next((row for row in needed if row is not None), None)
        if lowest is not None and lowest <= now - depth:
            return False
    return True


@pytest.mark.parametrize("depths", [{"conv0": 3, "conv1": 1}, {"conv0": 4, "conv1": 2}, {"conv0": 9}, {"conv1": 1}])
def test_steps_fire_in_the_order_of_the_plan_s_loop(library: ctypes.CDLL, depths: dict[str, int]) -> None:
    plan = streamed(convolutions(), depths)
    assert fired(library, plan) == loop(plan)
