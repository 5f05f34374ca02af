"""An artifact from its files, run on the simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trivet.backends.gpu.artifact import LIST_SUFFIX, program_suffixes, split
from trivet.backends.gpu.counts import Counts
from trivet.backends.gpu.isa import Program
from trivet.backends.gpu.launch import LaunchEntry, LaunchList, Terminal, from_json
from trivet.backends.gpu.simulate import Launch, simulate
from trivet.backends.gpu.trace import Trace
from trivet.backends.target import RunOptions
from trivet.errors import InvalidModel
from trivet.ir.graph import Port
from trivet.ir.op import Array


class GpuArtifact:
    """Programs, launches and memory; outputs of earlier launches stay in memory, constants are never written again."""

    def __init__(self, file: str, launches: LaunchList, programs: Mapping[str, Program], options: RunOptions) -> None:
        self.file = file
        self.launches = launches
        self.programs = programs
        self.machine = launches.machine
        self.options = options
        self.done: list[tuple[LaunchEntry, Counts]] = []
        self.reset()

    @property
    def input_ports(self) -> Sequence[Port]:
        return [terminal.port for terminal in self.launches.inputs]

    @property
    def output_ports(self) -> Sequence[Port]:
        return [terminal.port for terminal in self.launches.outputs]

    def reset(self) -> None:
        """Memory as it is before the first run."""
        self.memory = np.zeros(self.launches.mem_words, np.int64)
        for constant in self.launches.constants:
            self.memory[constant.address : constant.address + len(constant.values)] = constant.values

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Raises: Trap, InvalidModel where an output holds what its type does not."""
        for terminal, array in zip(self.launches.inputs, inputs, strict=True):
            self.memory[terminal.address : terminal.address + terminal.words] = array.ravel()
        trace = None if self.options.trace is None else Trace(self.machine.model)
        self.done = [(entry, self._launch(entry, trace)) for entry in self.launches.launches]
        if trace is not None and self.options.trace is not None:
            trace.write(self.options.trace)
        return [self._output(terminal) for terminal in self.launches.outputs]

    def _launch(self, entry: LaunchEntry, trace: Trace | None) -> Counts:
        program = self.programs[entry.program]
        launch = Launch(program, entry.grid, entry.block, entry.arguments, entry.shared_words, self.machine.registers)
        if trace is None:
            return simulate(launch, self.memory, self.machine, self.options.check_races)
        trace.begin(program)
        counts = simulate(launch, self.memory, self.machine, self.options.check_races, trace.stretch)
        trace.end(counts)
        return counts

    def _output(self, terminal: Terminal) -> Array:
        words = self.memory[terminal.address : terminal.address + terminal.words]
        wrong = np.flatnonzero((words < terminal.dtype.min) | (words > terminal.dtype.max))
        if wrong.size:
            at, found = terminal.address + int(wrong[0]), int(words[wrong[0]])
            name = terminal.port.name
            raise InvalidModel(f"output {name}: word {at} holds {found}, no {terminal.dtype.name}", where=self.file)
        return words.astype(terminal.dtype.numpy).reshape(terminal.shape)

    def total(self) -> Counts:
        """Sums over the last run's launches."""
        return sum((counts for _, counts in self.done), Counts())

    def summary(self) -> str:
        total = self.total()
        return (
            f"{len(self.done)} launches, {total.instructions:,} instructions, {total.cycles:,} cycles; "
            f"{total.loads:,} loads, {total.stores:,} stores, {total.shared_loads + total.shared_stores:,} shared "
            f"accesses, {total.barriers:,} barriers, {total.divergences:,} divergences"
        )

    def figures(self) -> Mapping[str, object]:
        by_kernel: dict[str, Counts] = defaultdict(Counts)
        for entry, counts in self.done:
            by_kernel[entry.program] += counts
        kernels = [{"name": name, **counts.as_dict()} for name, counts in by_kernel.items()]
        return {"launches": len(self.done), **self.total().as_dict(), "kernels": kernels}


def read(path: Path, options: RunOptions) -> GpuArtifact:
    """The artifact of a launch list, `x.tgpu.json`, and the programs beside it; `x.tgpu` stands for its list.

    Raises: InvalidModel, Problems with file, line and reason.
    """
    list_path = path if path.name.endswith(LIST_SUFFIX) else path.with_name(f"{path.name}.json")
    hint = f"the launch list of {path.name} lies beside its programs; `trivet compile` writes all of them"
    launches = from_json(_text(list_path, hint), str(list_path))
    names = dict.fromkeys(entry.program for entry in launches.launches)
    programs: dict[str, Program] = {}
    for suffix in program_suffixes(len(names)):
        file = list_path.with_name(list_path.name.removesuffix(LIST_SUFFIX) + suffix)
        for program in split(_text(file, f"{list_path.name} runs {len(names)} programs"), str(file), launches):
            programs[program.name] = program
    for name in names:
        if name not in programs:
            known = ", ".join(programs) or "none"
            raise InvalidModel(
                f"there is no kernel {name}", where=list_path, hint=f"the programs beside it are {known}"
            )
    return GpuArtifact(str(list_path), launches, programs, options)


def _text(path: Path, hint: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=path, hint=hint) from None
    except UnicodeDecodeError:
        raise InvalidModel("is not UTF-8 text", where=path) from None
