"""Programs of `.tiny` and real networks on the machine equal the oracle and TensorFlow Lite Micro in every element."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks_on_tpu import EXAMPLES, NETWORKS, compiled, compiled_network, legal, network, random_inputs, tiny

from networks import load_arrays
from strategies.programs import random_program
from trivet import driver, interp
from trivet.backends.tpu.execute import execute
from trivet.backends.tpu.machine import ARRAY_SIZES, reference
from trivet.backends.tpu.schedule import read, write
from trivet.core.numerics import Numerics
from trivet.errors import CompileError
from trivet.frontends.tiny.convert import parse

REFUSED = {"skip_connection", "two_layers", "wide_inputs"}
"""Examples that multiply computed or given i32 values."""


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_equals_the_oracle_at_every_array_size(path: Path, level: int) -> None:
    if path.stem in REFUSED:
        with pytest.raises(CompileError, match="multiplies int8 inputs, constants and requantized values"):
            legal(driver.load(path).graph, level)
        return
    graph = legal(driver.load(path).graph, level)
    inputs = random_inputs(graph)
    wanted, _ = interp.run(driver.load(path).graph, inputs)
    for array in ARRAY_SIZES:
        program = read(write(compiled(graph, array, level)))
        for expected, actual in zip(wanted, execute(program, inputs), strict=True):
            np.testing.assert_array_equal(actual, expected, err_msg=f"array {array}")


@pytest.mark.shared
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_equal_tensorflow_lite_micro_in_every_element(name: str, level: int, shared: Path) -> None:
    golden = network(name).tflm_golden
    inputs = load_arrays(network(name).golden, "in")
    program = read(write(compiled_network(name, 16, level)))
    for expected, actual in zip(load_arrays(golden, "tflm"), execute(program, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.shared
@pytest.mark.parametrize("array", [4, 8, 32, 64, 128])
def test_a_network_equals_tensorflow_lite_micro_at_every_array_size(array: int, shared: Path) -> None:
    for name in ("kws", "ad01"):
        inputs = load_arrays(network(name).golden, "in")
        outputs = execute(compiled_network(name, array), inputs)
        for expected, actual in zip(load_arrays(network(name).tflm_golden, "tflm"), outputs, strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.shared
def test_a_network_compiles_and_runs_within_its_time(shared: Path) -> None:
    start = time.process_time()
    program = compiled_network.__wrapped__("resnet8", 16, 1)
    assert time.process_time() - start < 2
    inputs = load_arrays(network("resnet8").golden, "in")
    start = time.process_time()
    execute(program, inputs)
    assert time.process_time() - start < 2


PROGRAMS = {
    "a product of two inputs": "input a: i8[5, 9]\ninput b: i8[9, 7]\nlet y = relu(a @ b)\noutput y\n",
    "a constant on the left": "input x: i8[6, 3]\nconst w: i8[4, 6] = random(seed=1)\nlet y = w @ x\noutput y\n",
    "a bias that is an input": (
        "input x: i8[3, 5]\ninput b: i32[4]\nconst w: i8[5, 4] = random(seed=2)\nlet y = relu(x @ w + b)\noutput y\n"
    ),
    "a vector on the right": "input x: i8[2, 9]\nconst w: i8[9] = random(seed=3)\nlet y = x @ w\noutput y\n",
    "a relu of bytes before a product": (
        "input x: i8[3, 5]\nconst w: i8[5, 4] = random(seed=4)\nlet y = relu(x) @ w\noutput y\n"
    ),
    "an output that is an input": "input x: i8[3]\noutput x\n",
    "a constant output": "input x: i8[3]\nconst c: i32[2] = [1, 2]\nlet y = x + x\noutput c\noutput y\n",
}


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("title", PROGRAMS)
def test_programs_equal_the_oracle(title: str, level: int) -> None:
    graph = tiny(PROGRAMS[title], level)
    inputs = random_inputs(graph)
    wanted, _ = interp.run(graph, inputs)
    for array in (4, 16):
        for expected, actual in zip(wanted, execute(compiled(graph, array, level), inputs), strict=True):
            np.testing.assert_array_equal(actual, expected)


@given(st.data(), st.sampled_from([4, 8, 32]), st.sampled_from([0, 1]))
def test_random_programs_equal_the_oracle_or_are_refused(data: st.DataObject, array: int, level: int) -> None:
    text = random_program(data)
    try:
        graph = tiny(text, level)
    except CompileError:
        return
    machine = replace(reference(array), accumulator_rows=array + 1)
    program = read(write(compiled(graph, array, level, machine)))
    inputs = random_inputs(graph)
    for expected, actual in zip(interp.run(parse(text), inputs)[0], execute(program, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected, err_msg=text)


@pytest.mark.shared
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_equal_the_reference_kernels_of_litert_where_that_is_asked_for(name: str, shared: Path) -> None:
    graph = legal(driver.load(network(name).path, driver.Settings(numerics=Numerics.LITERT)).graph)
    outputs = execute(compiled(graph, 32, 1), load_arrays(network(name).golden, "in"))
    for expected, actual in zip(load_arrays(network(name).golden, "ref"), outputs, strict=True):
        np.testing.assert_array_equal(actual, expected)
