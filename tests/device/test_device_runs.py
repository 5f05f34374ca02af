"""Networks on emulated machines give what the oracle says, bit for bit, and take what they say they take."""

from __future__ import annotations

import numpy as np
import pytest
from devices import M4, M55, MLPERF_TINY, compiled_for, on_machine

from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.core.dtype import F32
from trivet.ir.graph import Graph
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.elementwise import Add


@pytest.mark.parametrize("machine", [M4, M55])
@pytest.mark.parametrize("name", ["digits", *MLPERF_TINY])
def test_outputs_are_those_of_the_oracle(name: str, machine: str) -> None:
    compiled = compiled_for(name, machine)
    host = Artifact(compiled.data)
    inputs = host.random_inputs(7)
    device = on_machine(compiled.data, machine)
    outputs = device.run(inputs)
    expected, _ = interp.run_model(compiled.graph, inputs)
    for ours, theirs in zip(outputs, expected, strict=True):
        assert np.array_equal(ours, theirs)
    costs = device.costs
    assert costs.init < 1000 and costs.reset < 1000
    # The loops of a core may use more of the work space than the portable ones.
    assert host.high_water_bytes(inputs) <= costs.high_water_bytes <= host.arena_bytes
    assert sum(c.instructions for c in costs.layers) <= costs.instructions
    assert [c.calls for c in costs.layers] == [1] * len(host.plan.steps)


@pytest.mark.parametrize("machine", [M4, M55])
@pytest.mark.parametrize("fast_bytes", [None, 5000], ids=["whole", "by rows"])
def test_every_layer_is_that_of_the_oracle(fast_bytes: int | None, machine: str) -> None:
    compiled = compiled_for("tiny__kws_ref_model", machine, fast_bytes)
    inputs = Artifact(compiled.data).random_inputs(1)
    expected: dict[str, Array] = {}
    interp.run_model(compiled.graph, inputs, observe=lambda value, array: expected.update({value.name: array}))
    layers: dict[str, Array] = {}
    on_machine(compiled.data, machine).run_layers(inputs, lambda name, array: layers.update({name: array}))
    assert len(layers) >= 12
    for name, array in layers.items():
        assert np.array_equal(array, expected[name]), name


def test_states_live_on_from_run_to_run_and_begin_anew() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (4,)))
    state = graph.add_state("sum", TensorType(F32, (4,)), np.full(4, 10, np.float32))
    total = graph.emit(Add(), state, x, name="total")
    graph.set_state(state, total)
    graph.add_output(total)
    device = on_machine(driver.build(driver.Loaded(graph), driver.Settings()).data, M4)
    steps = [[np.full(4, step, np.float32)] for step in (1, 2, 3)]
    for _ in range(2):
        assert [float(outputs[0][0]) for outputs in device.run_all(steps)] == [11, 13, 16]
