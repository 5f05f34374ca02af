"""Programs of `.tiny` texts, and runs of them with the figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from public_machine import run_on_public_machine

from trivet import driver, interp
from trivet.backends.gpu.artifact import EmittedProgram
from trivet.backends.gpu.counts import Counts
from trivet.backends.gpu.machine import Machine, read_machine
from trivet.backends.gpu.memplan import initial_memory
from trivet.backends.gpu.pipeline import compile_graph
from trivet.backends.gpu.simulate import Launch, simulate
from trivet.frontends.tiny.convert import parse
from trivet.ir.graph import Graph
from trivet.ir.op import Array
from trivet.passes.manager import Instrument
from trivet.passes.stages import StageManager

MACHINE = read_machine()


def graph_of(text: str, level: int = 1) -> Graph:
    graph = parse(text)
    settings = driver.Settings(level=level, target="gpu")
    driver.optimize(graph, settings, legalize=driver.legalization(settings))
    return graph


def program_of(graph: Graph, level: int, machine: Machine = MACHINE, *instruments: Instrument) -> EmittedProgram:
    return compile_graph(graph, machine, level, StageManager(graph, "", instruments))


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, v.type.shape).astype(v.type.dtype.numpy) for v in graph.inputs]


def launches_of(program: EmittedProgram) -> list[Launch]:
    """Every launch, in order."""
    return [
        Launch(c.program, c.kernel.grid, c.kernel.block, arguments, c.shared_words)
        for c in program.compiled
        for arguments in c.kernel.launches
    ]


def run(program: EmittedProgram, inputs: list[Array], check_races: bool = False) -> tuple[list[Array], Counts]:
    """Outputs and figures on Trivet's simulator."""
    memory, total = _loaded(program, inputs), Counts()
    for launch in launches_of(program):
        total += simulate(launch, memory, program.machine, check_races)
    return program.interface.read(memory, program.memory), total


def run_publicly(program: EmittedProgram, inputs: list[Array], directory: Path) -> list[Array]:
    """Outputs on the public simulator."""
    memory = _loaded(program, inputs)
    for launch in launches_of(program):
        memory = run_on_public_machine(launch, memory, directory)
    return program.interface.read(memory, program.memory)


def _loaded(program: EmittedProgram, inputs: list[Array]) -> NDArray[np.int64]:
    memory = initial_memory(program.memory)
    program.interface.write(memory, program.memory, inputs)
    return memory


def expected(graph: Graph, inputs: list[Array]) -> list[Array]:
    return interp.run(graph, inputs)[0]


def same(a: list[Array], b: list[Array]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def product(rows: int, inner: int, columns: int, tail: str = "x @ w") -> str:
    """A program with one product of an i8 input and a constant."""
    return (
        f"input x: i8[{rows}, {inner}]\nconst w: i8[{inner}, {columns}] = random(seed=1)\n"
        f"const b: i32[{columns}] = random(seed=2)\nlet y = {tail}\noutput y\n"
    )
