"""The tiny GPU as the driver sees it."""

from __future__ import annotations

from pathlib import Path

from trivet.backends.gpu.artifact import EmittedProgram, files
from trivet.backends.gpu.legalize import LegalizeGpu
from trivet.backends.gpu.limits import Limits
from trivet.backends.gpu.machine import Machine, read_machine
from trivet.backends.gpu.pipeline import STAGES, compile_graph
from trivet.backends.gpu.runnable import GpuArtifact, read
from trivet.backends.target import Emitted, MachineOptions, RunOptions
from trivet.core.record import dataclass
from trivet.errors import Unsupported
from trivet.ir.graph import Graph
from trivet.passes.base import Pass
from trivet.passes.stages import StageManager

ISAS = {None: False, "base": False, "extended": True}


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """One machine, compiled for at one level."""

    machine: Machine
    extended: bool
    level: int

    def legalize(self) -> tuple[Pass, ...]:
        return (LegalizeGpu(Limits(self.machine, self.extended)),)

    def emit(self, graph: Graph, stages: StageManager) -> Emitted:
        program = compile_graph(graph, self.machine, self.level, stages)
        return Emitted(files(program), _summary(program), _figures(program))


def _summary(program: EmittedProgram) -> str:
    instructions = sum(len(compiled.program.code) for compiled in program.compiled)
    spills = sum(compiled.allocation.slots for compiled in program.compiled)
    launches = len(program.launches.launches)
    return (
        f"{len(program.compiled)} kernels of {instructions} instructions, {launches} launches, "
        f"{program.launches.mem_words:,} words of memory, {spills} spilled variables"
    )


def _figures(program: EmittedProgram) -> dict[str, object]:
    return {
        "kernels": [
            {
                "name": compiled.program.name,
                "instructions": len(compiled.program.code),
                "registers": compiled.program.registers,
                "spilled": compiled.allocation.slots,
                "recomputed": len(compiled.allocation.recomputed),
                "grid": compiled.kernel.grid,
                "block": compiled.kernel.block,
                "launches": len(compiled.kernel.launches),
                "shared_words": compiled.shared_words,
            }
            for compiled in program.compiled
        ],
        "mem_words": program.launches.mem_words,
        "isa": "extended" if program.launches.extended else "base",
    }


@dataclass(frozen=True, slots=True)
class GpuBackend:
    """The kind of machine."""

    name: str
    stages: tuple[str, ...]

    def configure(self, options: MachineOptions) -> GpuMachine:
        if options.argument is not None:
            raise Unsupported(
                f"--target gpu takes no argument, got '{options.argument}'", hint="describe the machine with --machine"
            )
        if options.isa not in ISAS:
            raise Unsupported(f"the gpu has no instruction set '{options.isa}'", hint="give --isa base or extended")
        return GpuMachine(read_machine(options.machine), ISAS[options.isa], options.level)

    def read(self, path: Path, options: RunOptions) -> GpuArtifact:
        return read(path, options)


BACKEND = GpuBackend("gpu", STAGES)
