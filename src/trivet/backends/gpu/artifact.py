"""The artifact: a `.tgpu` text for each program, and the launch list beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from trivet.backends.gpu.asm import assemble, disassemble
from trivet.backends.gpu.counts import Counts
from trivet.backends.gpu.emit import Compiled
from trivet.backends.gpu.isa import Program
from trivet.backends.gpu.launch import Buffer, Constant, LaunchEntry, LaunchList, Terminal, to_json
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.memplan import MemoryPlan, initial_memory
from trivet.backends.gpu.program import Interface
from trivet.backends.gpu.simulate import Launch, Watch, simulate
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.ir.graph import Graph, Port, Value
from trivet.ir.op import Array

HEADING = ";; kernel "
PREFACE = "; A program of the tiny GPU. The launch list beside this file says how it runs.\n"
LIST_SUFFIX = ".tgpu.json"


@dataclass(frozen=True, slots=True)
class EmittedProgram:
    """Programs and launches, as they go to files: the last stage."""

    compiled: tuple[Compiled, ...]
    launches: LaunchList
    memory: MemoryPlan
    interface: Interface
    machine: Machine

    def text(self) -> str:
        return programs_text([c.program for c in self.compiled])

    def violations(self) -> Iterable[str]:
        """What the assembler says of the text: it must give the same programs."""
        for made, read in zip(self.compiled, split(self.text(), "<emitted>", self.launches), strict=True):
            if made.program.code != read.code:
                yield f"{made.program.name}: the text does not assemble to the program"

    def interpret(self, invocations: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """On the simulator, races looked for."""
        memory = initial_memory(self.memory)
        programs = {c.program.name: c.program for c in self.compiled}
        outputs = []
        for arrays in invocations:
            self.interface.write(memory, self.memory, arrays)
            execute(self.launches, programs, memory, self.machine, check_races=True)
            outputs.append(self.interface.read(memory, self.memory))
        return outputs


def emit(compiled: Sequence[Compiled], graph: Graph, memory: MemoryPlan, machine: Machine) -> EmittedProgram:
    """The artifact of compiled kernels."""
    entries = [
        LaunchEntry(c.program.name, c.kernel.grid, c.kernel.block, arguments, c.shared_words)
        for c in compiled
        for arguments in c.kernel.launches
    ]
    launches = LaunchList(
        machine=machine,
        extended=any(c.program.is_extended for c in compiled),
        mem_words=memory.words,
        buffers=tuple(Buffer(b.name, b.address, b.words) for b in memory.buffers),
        constants=tuple(
            Constant(memory.buffers[index].address, tuple(words.tolist())) for index, words in memory.constants
        ),
        inputs=_terminals(graph.inputs, graph.input_ports, memory),
        outputs=_terminals(graph.outputs, graph.output_ports, memory),
        launches=tuple(entries),
    )
    return EmittedProgram(
        tuple(compiled), launches, memory, Interface(tuple(graph.inputs), tuple(graph.outputs)), machine
    )


def _terminals(values: Sequence[Value], ports: Sequence[Port], memory: MemoryPlan) -> tuple[Terminal, ...]:
    return tuple(
        Terminal(memory.of(value).address, value.type.dtype, value.type.shape, port)
        for value, port in zip(values, ports, strict=True)
    )


def programs_text(programs: Sequence[Program]) -> str:
    """All programs, each below a line with its name."""
    return PREFACE + "".join(f"{HEADING}{program.name}\n{disassemble(program)}" for program in programs)


def split(text: str, file: str, launches: LaunchList) -> list[Program]:
    """The programs of a text; lines of messages count from its start.

    Raises: InvalidModel, Problems.
    """
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith(HEADING)]
    programs = []
    for start, stop in pairwise([*starts, len(lines)]):
        body = "\n" * start + "\n".join(lines[start:stop])
        program = assemble(body, file, launches.machine.registers, launches.extended)
        programs.append(Program(lines[start][len(HEADING) :].strip(), program.code, program.lines, file))
    names = [program.name for program in programs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidModel(f"there are two kernels {name}", where=file)
    return programs


def execute(
    launches: LaunchList,
    programs: dict[str, Program],
    memory: np.ndarray[tuple[int], np.dtype[np.int64]],
    machine: Machine,
    check_races: bool = False,
    watch: Watch | None = None,
) -> list[tuple[LaunchEntry, Counts]]:
    """Every launch in order.

    Raises: Trap, InvalidModel.
    """
    done = []
    for entry in launches.launches:
        launch = Launch(
            programs[entry.program],
            entry.grid,
            entry.block,
            entry.arguments,
            entry.shared_words,
            machine.registers,
        )
        done.append((entry, simulate(launch, memory, machine, check_races, watch)))
    return done


def files(emitted: EmittedProgram) -> dict[str, bytes]:
    """The files by suffix: the launch list, and a program each; a single one has no number."""
    programs = [compiled.program for compiled in emitted.compiled]
    texts = {
        suffix: programs_text([program]).encode()
        for suffix, program in zip(program_suffixes(len(programs)), programs, strict=True)
    }
    return {LIST_SUFFIX: to_json(emitted.launches).encode(), **texts}


def program_suffixes(count: int) -> list[str]:
    """What the names of the files of `count` programs end in."""
    return [".tgpu"] if count == 1 else [f".{number}.tgpu" for number in range(count)]
