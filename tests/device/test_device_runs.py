"""Networks on emulated machines give what the oracle says, bit for bit, and take what they say they take."""

from __future__ import annotations

import numpy as np
import pytest
from devices import M4, M55, MLPERF_TINY, compiled_for, on_machine

from trivet import interp
from trivet.artifact import Artifact


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
    assert costs.high_water_bytes == host.high_water_bytes(inputs)
    assert sum(c.instructions for c in costs.layers) <= costs.instructions
    assert [c.calls for c in costs.layers] == [1] * len(host.plan.steps)
