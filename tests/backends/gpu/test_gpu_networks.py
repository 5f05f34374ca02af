"""Requantized networks, whole, on the extended machine: equal to what TensorFlow Lite Micro gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import program_of, run, same

from networks import load_arrays, networks
from trivet import driver, interp
from trivet.errors import CompileError


@pytest.mark.shared
@pytest.mark.parametrize("name", ["tiny__ad01_int8", "tiny__kws_ref_model"])
def test_networks_equal_their_goldens(name: str, shared: Path) -> None:
    (found,) = (network for network in networks("tflite") if network.name == name)
    graph = driver.load(found.path).graph
    settings = driver.Settings(level=1, target="gpu", isa="extended")
    driver.optimize(graph, settings, legalize=driver.legalization(settings))
    program = program_of(graph, 1)
    assert program.launches.extended
    inputs = load_arrays(found.tflm_golden, "in")
    outputs, _ = run(program, inputs)
    assert same(outputs, interp.run(graph, inputs)[0])
    assert same(outputs, load_arrays(found.tflm_golden, "tflm"))


@pytest.mark.shared
def test_requantized_networks_need_the_extended_machine(shared: Path) -> None:
    (found,) = (network for network in networks("tflite") if network.name == "tiny__ad01_int8")
    graph = driver.load(found.path).graph
    settings = driver.Settings(level=1, target="gpu")
    with pytest.raises(CompileError, match="the public machine does not have") as caught:
        driver.optimize(graph, settings, legalize=driver.legalization(settings))
    assert "--isa extended" in str(caught.value)
