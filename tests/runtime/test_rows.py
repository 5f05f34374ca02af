"""Inputs and outputs that go by rows through the C interface, and plans of the planner that use them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from loader_cases import base
from patches import STATUSES

from int8_networks import SEEDS, Builder, expected, random_graph, random_inputs
from trivet.backends.plan.host import HostModel
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.writer import write
from trivet.errors import Unsupported
from trivet.ir.graph import Graph
from trivet.passes.border_rows import BorderRows
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import CALLER, ExecutionPlan
from trivet.planning.planner import FAST, plan
from trivet.planning.simulate import simulate
from trivet.planning.validate import violations


class Rows(ctypes.Structure):
    _fields_ = [
        ("port", ctypes.c_uint32),
        ("row", ctypes.c_uint32),
        ("rows", ctypes.c_uint32),
        ("bytes", ctypes.c_size_t),
    ]


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Rows), ctypes.c_void_p)


class Border(ctypes.Structure):
    _fields_ = [("receive", CALLBACK), ("send", CALLBACK), ("context", ctypes.c_void_p)]


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


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(SEEDS, st.booleans())
def test_random_networks(library: ctypes.CDLL, seed: int, outputs: bool) -> None:
    graph, selection = random_graph(seed, max_size=10), Selection()
    try:
        BorderRows(True, outputs).run(graph)
    except Unsupported:
        assume(False)
    assume(all(selection.find(node) is not None for node in graph.nodes if not node.op.views_input))
    for objective in Objective:
        made = plan(graph, None, None, selection, PlanOptions(objective))
        assert any(buffer.region == CALLER for buffer in made.buffers)
        check(library, graph, made, selection)


def test_a_chain_by_rows_holds_windows_only(library: ctypes.CDLL) -> None:
    b = Builder()
    graph, selection = b.finish(b.conv(b.conv(b.input(1, 40, 8, 4), 4), 4)), Selection()
    BorderRows(True, True).run(graph)
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    rings = 3 * 32 + 3 * 32 + 32
    scratch = selection.scratch_bytes(graph.nodes[1], 1)
    assert made.region_bytes(FAST) <= rings + 4 * len(graph.nodes) + scratch + 16
    check(library, graph, made, selection)


@settings(max_examples=25)
@given(st.lists(st.sampled_from((4, 8, 12, 16, 40, 128)), min_size=2, max_size=5), st.booleans(), st.booleans())
def test_vectors_in_chunks(library: ctypes.CDLL, widths: list[int], takes: bool, gives: bool) -> None:
    b = Builder()
    x = b.input(1, widths[0])
    for width in widths[1:]:
        x = b.dense(x, width)
    graph, selection = b.finish(x), Selection()
    try:
        BorderRows(takes, gives).run(graph)
    except Unsupported:
        assume(False)
    for objective in Objective:
        check(library, graph, plan(graph, None, None, selection, PlanOptions(objective)), selection)


def test_a_perceptron_in_chunks_holds_the_sums_of_one_layer(library: ctypes.CDLL) -> None:
    """640 features come in eights to 128 sums, whose result lies over them; 640 go out in eights."""
    b = Builder()
    graph, selection = b.finish(b.dense(b.dense(b.input(1, 640), 128), 640)), Selection()
    BorderRows(True, True).run(graph)
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert made.region_bytes(FAST) == 4 * 128 + 8 + 2 * 4
    check(library, graph, made, selection)


class Caller:
    """Gives rows of `x`, collects what is sent, and notes which rows went by."""

    def __init__(self, library: ctypes.CDLL, x: np.ndarray, stop_at: int = -1) -> None:
        self.received: list[int] = []
        self.sent = np.zeros_like(x)
        self.model = HostModel(base("border"), library)

        def receive(_: object, rows: ctypes._Pointer[Rows], data: int) -> int:
            asked = rows[0]
            assert asked.port == 0 and asked.bytes == asked.rows * x[0, 0].nbytes
            self.received += range(asked.row, asked.row + asked.rows)
            if stop_at in self.received:
                return STATUSES.index("ERR_STOPPED")
            ctypes.memmove(data, x[0, asked.row : asked.row + asked.rows].ctypes.data, asked.bytes)
            return 0

        def send(_: object, rows: ctypes._Pointer[Rows], data: int) -> int:
            given = rows[0]
            ctypes.memmove(self.sent[0, given.row : given.row + given.rows].ctypes.data, data, given.bytes)
            return 0

        self.border = Border(CALLBACK(receive), CALLBACK(send), None)
        library.trivet_set_border(self.model._pointer, ctypes.byref(self.border))
        self.status = STATUSES[library.trivet_run(self.model._pointer)]


def test_rows_are_asked_for_once_and_in_order(library: ctypes.CDLL) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 4, 3)).astype(np.int8)
    caller = Caller(library, x)
    assert (caller.status, caller.received) == ("OK", list(range(6)))
    (whole,) = HostModel(base("border"), library).run([x])
    np.testing.assert_array_equal(caller.sent, whole)


def test_the_caller_can_stop_the_run(library: ctypes.CDLL) -> None:
    x = np.zeros((1, 6, 4, 3), np.int8)
    caller = Caller(library, x, stop_at=2)
    assert (caller.status, caller.received) == ("ERR_STOPPED", [0, 1, 2])


@pytest.mark.parametrize("function", ["set_input", "get_output"])
def test_ports_by_rows_take_no_data(library: ctypes.CDLL, function: str) -> None:
    model, data = HostModel(base("border"), library), np.zeros(72, np.uint8)
    call = getattr(library, f"trivet_{function}")
    assert STATUSES[call(model._pointer, 0, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(72))] == "ERR_ROWS"


def test_no_plan_runs_without_its_callbacks(library: ctypes.CDLL) -> None:
    model = HostModel(base("border"), library)
    assert STATUSES[library.trivet_run(model._pointer)] == "ERR_ROWS"
