"""The Verilog machine under `hw/tpu` gives the simulators' values in the simulators' cycles."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from networks_on_tpu import CHECKOUT, EXAMPLES, compiled, legal, random_inputs, tiny

from int8_networks import FULL, Builder
from trivet import driver
from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.schedule import write
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import CompileError
from trivet.ir.graph import Graph
from trivet.ir.types import TensorType
from trivet.ops.matmul import Dense

HARDWARE = CHECKOUT / "hw" / "tpu"
PATHS = (CHECKOUT / "src", CHECKOUT / "tests", Path(__file__).parent)
INSTALL = "sudo apt-get install iverilog && pip install cocotb"

ZEROS = (
    "input x: i8[5, 12]\nconst w: i8[12, 4] = [" + ", ".join(["[0, 1, 0, 2]"] * 4 + ["[0, 0, 0, 0]"] * 8) + "]\n"
    "const b: i32[4] = [5, -6, 7, -8]\nlet y = relu(x @ w + b)\noutput y\n"
)

LONG = "input x: i8[20, 24]\nconst w: i8[24, 8] = random(seed=1)\nlet y = x @ w\noutput y\n"
"""Passes longer than a load: the third load waits for a plane."""


def put(directory: Path, name: str, program: Program, graph: Graph) -> None:
    (directory / f"{name}.json").write_bytes(write(program))
    np.savez(directory / f"{name}.npz", **{f"in_{i}": a for i, a in enumerate(random_inputs(graph))})


def put_examples(directory: Path, array: int) -> int:
    """Every example that the machine takes, at every level; how many these are."""
    count = 0
    for path in EXAMPLES:
        for level in (0, 1):
            try:
                graph = legal(driver.load(path).graph, level)
            except CompileError:
                continue
            put(directory, f"{path.stem}_{level}", compiled(graph, array, level), graph)
            count += 1
    return count


def simulate(directory: Path, array: int) -> None:
    """Build the machine with an array of that size, and run all cases in the directory."""
    runner = pytest.importorskip("cocotb_tools.runner", reason=f"cocotb is absent: {INSTALL}")
    if shutil.which("iverilog") is None:
        pytest.skip(f"Icarus Verilog is absent: {INSTALL}")
    build = directory / "build"
    icarus = runner.get_runner("icarus")
    icarus.build(
        sources=sorted(HARDWARE.glob("*.v")),
        hdl_toplevel="tpu",
        parameters={"N": array},
        build_args=["-g2005", "-Wall"],
        build_dir=build,
        log_file=directory / "build.log",
    )
    assert "warning" not in (directory / "build.log").read_text()
    try:
        results = icarus.test(
            test_module="verilog_machine",
            hdl_toplevel="tpu",
            build_dir=build,
            extra_env={"TPU_CASES": str(directory), "PYTHONPATH": os.pathsep.join(map(str, PATHS))},
            log_file=directory / "run.log",
        )
        assert runner.get_results(results) == (1, 0)
    except (AssertionError, SystemExit):
        lines = (directory / "run.log").read_text().splitlines()
        pytest.fail("\n".join(line.strip() for line in lines[-60:]))


def test_examples_take_the_same_cycles_in_hardware(tmp_path: Path) -> None:
    assert put_examples(tmp_path, 4) >= 20
    simulate(tmp_path, 4)


def test_a_layer_of_a_network_takes_the_same_cycles_in_hardware(tmp_path: Path) -> None:
    """With it, at the same array size: skipped passes, tiles from the activation memory, results between integers."""
    graph = legal(driver.load(CHECKOUT / "examples" / "models" / "digits_int8.tflite").graph)
    program = compiled(graph, 8, 1)
    program.layers = program.layers[:1]
    put(tmp_path, "convolution", program, graph)
    two_inputs = (EXAMPLES[0].parent / "two_inputs.tiny").read_text()
    for name, text in {"zeros": ZEROS, "long": LONG, "two_inputs": two_inputs}.items():
        graph = tiny(text)
        put(tmp_path, name, compiled(graph, 8, 1), graph)
    graph = legal(halves())
    put(tmp_path, "halves", compiled(graph, 8, 1), graph)
    simulate(tmp_path, 8)


def halves() -> Graph:
    """A dense layer with the multiplier 1/4, most of whose sums are small: half of its results lie between integers."""
    b = Builder()
    x, fourth = b.input(16, 2), Quant.per_tensor(0.02, 5)
    values = np.array([[1, 2], [-3, 1], [1, -1], [0, 3]], np.int8)
    w = b.graph.constant(values, TensorType(I8, (4, 2), Quant.per_tensor(0.1, 0)))
    return b.finish(b.emit(Dense(FULL, fourth, Numerics.TFLM), x, w))
