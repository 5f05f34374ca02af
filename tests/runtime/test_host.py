"""Plans that the writer makes run on the host runtime, and give what the interpreter gives."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from loader_cases import convolutions, exact_sum
from plans import QUANT, lookup_node, lookups, sequential, streamed

from trivet import interp
from trivet.backends.plan.host import HostModel, HostUnavailable, check_library
from trivet.backends.plan.reader import read
from trivet.backends.plan.writer import write
from trivet.core.dtype import I8, I32
from trivet.core.interval import Interval
from trivet.errors import InvalidModel
from trivet.ir.graph import Graph, Port
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.activation import Relu
from trivet.ops.movement import Reshape
from trivet.planning.plan import ExecutionPlan


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, value.type.shape).astype(np.int8) for value in graph.inputs]


def check(library: ctypes.CDLL, plan: ExecutionPlan) -> HostModel:
    """The plan gives what its graph means, twice, and touches no more than it says."""
    model = HostModel(write(plan), library)
    for seed in (0, 1):
        inputs = random_inputs(plan.graph, seed)
        expected, _ = interp.run(plan.graph, inputs)
        for actual, wanted in zip(model.run(inputs), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)
    assert model.high_water_bytes(random_inputs(plan.graph)) <= model.arena_bytes
    return model


@pytest.fixture(scope="module")
def host(library: ctypes.CDLL) -> ctypes.CDLL:
    check_library(library, Path("libtrivet-test.so"))
    return library


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 6, 4, 3), (3, 6, 4, 3)])
def test_layer_by_layer(host: ctypes.CDLL, shape: tuple[int, ...]) -> None:
    check(host, sequential(lookups(shape)))


@pytest.mark.parametrize("batch", [1, 2])
def test_convolutions_layer_by_layer(host: ctypes.CDLL, batch: int) -> None:
    check(host, sequential(convolutions(batch)))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rows, depths", [(1, {"conv0": 3, "conv1": 1}), (2, {"conv0": 5, "conv1": 2}), (1, {})])
def test_convolutions_as_a_stream_with_rings(host: ctypes.CDLL, batch: int, rows: int, depths: dict[str, int]) -> None:
    check(host, streamed(convolutions(batch), depths, rows))


def test_a_ring_that_is_too_shallow_is_refused(host: ctypes.CDLL) -> None:
    with pytest.raises(InvalidModel, match="cannot run to its end"):
        HostModel(write(streamed(convolutions(), {"conv0": 2, "conv1": 1})), host)


def test_reshapes_need_no_step(host: ctypes.CDLL) -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (1, 4, 3, 2), QUANT))
    y = graph.emit(Reshape((24,)), lookup_node(graph, x, "y"), name="flat")
    graph.add_output(lookup_node(graph, y, "z", 5))
    model = check(host, sequential(graph))
    assert [step.kernel for step in model.plan.steps] == ["lookup_s8", "lookup_s8"]


def test_constant_outputs_and_passed_through_inputs(host: ctypes.CDLL) -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (2, 4, 3, 2), QUANT))
    graph.add_output(x)
    graph.add_output(graph.constant(np.arange(24, dtype=np.int8).reshape(2, 3, 2, 2), TensorType(I8, (2, 3, 2, 2))))
    check(host, sequential(graph))


def test_states_survive_runs_and_are_reset(host: ctypes.CDLL) -> None:
    graph = Graph()
    graph.add_input("x", TensorType(I8, (4,), QUANT))
    start = np.array([1, 2, 3, 4], np.int8)
    state = graph.add_state("s", TensorType(I8, (4,), QUANT), start)
    graph.add_output(lookup_node(graph, state, "y", 1))
    graph.set_state(state, lookup_node(graph, state, "next", 2))
    model = HostModel(write(sequential(graph)), host)
    inputs = random_inputs(graph)
    states: list[Array] | None = None
    for _ in range(3):
        expected, states = interp.run(graph, inputs, states)
        np.testing.assert_array_equal(model.run(inputs)[0], expected[0])
    model.reset()
    np.testing.assert_array_equal(model.run(inputs)[0], interp.run(graph, inputs)[0][0])


def test_ports_say_what_the_model_declares(host: ctypes.CDLL) -> None:
    graph = Graph()
    port = Port("image", TensorType(I8, (1, 3, 6, 4), QUANT), (0, 3, 1, 2))
    x = graph.add_input("x", TensorType(I8, (1, 6, 4, 3), QUANT), port)
    graph.add_output(lookup_node(graph, x, "y"), Port("scores", TensorType(I8, (1, 6, 4, 3), QUANT)))
    plan = read(write(sequential(graph)))
    assert (plan.inputs[0].name, plan.inputs[0].perm) == ("image", (0, 3, 1, 2))
    assert (plan.outputs[0].name, plan.outputs[0].perm) == ("scores", None)
    assert (plan.inputs[0].scale, plan.inputs[0].zero_point) == (QUANT.scale, QUANT.zero_point)


@pytest.mark.parametrize(("value", "place"), [(-4, (0, 0)), (6, (1, 2)), (2**31 - 1, (0, 1)), (-(2**31), (1, 0))])
def test_an_input_outside_of_what_it_accepts_is_refused(host: ctypes.CDLL, value: int, place: tuple[int, int]) -> None:
    model = HostModel(write(sequential(exact_sum())), host)
    x = np.array([[-3, 0, 5], [5, -3, 1]], np.int32)
    np.testing.assert_array_equal(model.run([x])[0], x + x)
    x[place] = value
    reason = rf"input 'x' holds {value} at \[{place[0]}, {place[1]}\], the program accepts \[-3, 5\]"
    with pytest.raises(InvalidModel, match=reason):
        model.run([x])
    with pytest.raises(InvalidModel, match=reason):
        interp.run_model(exact_sum(), [x])


def test_the_place_of_a_refused_value_is_the_models(host: ctypes.CDLL) -> None:
    graph = Graph()
    type_ = TensorType(I32, (1, 3, 1, 2))
    port = Port("x", TensorType(I32, (1, 2, 3, 1)), (0, 3, 1, 2), Interval(0, 9))
    graph.add_output(graph.emit(Relu(), graph.add_input("x", type_, port), name="y"))
    x = np.zeros((1, 3, 1, 2), np.int32)
    x[0, 2, 0, 1] = 10
    with pytest.raises(InvalidModel, match=r"holds 10 at \[0, 1, 2, 0\]"):
        HostModel(write(sequential(graph)), host).run([x])


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert write(sequential(convolutions())) == write(sequential(convolutions()))


def test_equal_constants_are_stored_once() -> None:
    one, two = (read(write(sequential(graph))) for graph in (lookups(count=1), same_tables()))
    assert one.section_bytes["constants"] == two.section_bytes["constants"] == 256


def same_tables() -> Graph:
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (1, 6, 4, 3), QUANT))
    graph.add_output(lookup_node(graph, lookup_node(graph, x, "y"), "z"))
    return graph


def test_layers_are_seen_whole_although_a_ring_keeps_few_rows(host: ctypes.CDLL) -> None:
    graph = convolutions(batch=2)
    model = HostModel(write(streamed(graph, {"conv0": 3, "conv1": 1})), host)
    inputs = random_inputs(graph)
    seen: dict[str, Array] = {}
    model.run_layers(inputs, lambda index, step, results: seen.update({step.name: results[0]}))
    expected: dict[str, Array] = {}
    interp.run(graph, inputs, observe=lambda value, array: expected.update({value.name: array}))
    assert seen.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(seen[name], array, err_msg=name)


def test_an_observer_that_fails_ends_the_run(host: ctypes.CDLL) -> None:
    graph = lookups()

    def fail(index: int, step: object, results: list[Array]) -> None:
        raise KeyError(index)

    model = HostModel(write(sequential(graph)), host)
    with pytest.raises(KeyError):
        model.run_layers(random_inputs(graph), fail)
    model.run(random_inputs(graph))


def test_profile_has_a_time_for_every_step(host: ctypes.CDLL) -> None:
    graph = convolutions()
    model = HostModel(write(sequential(graph)), host)
    times = model.profile(random_inputs(graph), runs=2)
    assert len(times) == 3 and all(time > 0 for time in times)


def test_the_high_water_mark_is_the_end_of_what_is_touched(host: ctypes.CDLL) -> None:
    graph = lookups((64,), count=2)
    plan = sequential(graph)
    model = HostModel(write(plan), host)
    assert model.high_water_bytes(random_inputs(graph)) == model.arena_bytes == 3 * 64


def test_inputs_of_another_shape_are_refused(host: ctypes.CDLL) -> None:
    model = HostModel(write(sequential(lookups())), host)
    with pytest.raises(InvalidModel, match=r"input x is i8\[1, 6, 4, 3\], got int8\[3\]"):
        model.run([np.zeros(3, np.int8)])
    with pytest.raises(InvalidModel, match="1 inputs, got 0"):
        model.run([])


def test_a_missing_library_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trivet.backends.plan import host as module  # noqa: PLC0415

    monkeypatch.setattr(module, "LIBRARY", tmp_path)
    module.library.cache_clear()
    with pytest.raises(HostUnavailable, match="make lib"):
        module.library()
