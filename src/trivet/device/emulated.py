"""An artifact as a user runs it on an emulated machine, and what that takes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.backends.plan.host import Bytes, Collector
from trivet.backends.plan.reader import PlanInfo, read
from trivet.core.record import dataclass
from trivet.device.build import BuildOptions, build, flash_bytes, ram_bytes
from trivet.device.emulate import Emulation, emulate
from trivet.device.machines import Machine
from trivet.device.network import Layer, Network, NetworkPort, module_network, plan_network
from trivet.device.tools import Toolchain
from trivet.errors import InvalidModel
from trivet.interp import check_accepted, to_model, to_storage
from trivet.ir.graph import Port
from trivet.ir.op import Array


@dataclass(frozen=True, slots=True)
class LayerCost:
    """Instructions of a layer in one run, in so many calls of its kernel."""

    layer: Layer
    instructions: int
    calls: int


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run takes. Instructions of `load` are those that check a plan, once; `init` gives it its memory, `reset`
    brings back its first state. The stack is measured from where the network is called.
    """

    machine: str
    compiler: str
    instructions: int
    load: int
    init: int
    reset: int
    stack_bytes: int
    memories: Sequence[tuple[str, int, int]]
    flash: Mapping[str, int]
    ram: Mapping[str, int]
    layers: Sequence[LayerCost]
    functions: Mapping[str, int]
    constant_bytes: int
    later: Sequence[int] = field(default=())

    @property
    def high_water_bytes(self) -> int:
        """Of the first memory."""
        return self.memories[0][2]

    @property
    def code_bytes(self) -> int:
        """Flash beyond weights and tables, and without the test program: code, its constants, initial data, and what
        describes a plan."""
        beside = self.flash["weights"] - self.constant_bytes if self.constant_bytes else 0
        return self.flash["code"] + self.flash["constants of code"] + self.flash["initial data"] + beside

    def as_json(self) -> dict[str, object]:
        """All figures."""
        return {
            "machine": self.machine,
            "compiler": self.compiler,
            "instructions": self.instructions,
            "load_instructions": self.load,
            "init_instructions": self.init,
            "reset_instructions": self.reset,
            "stack_bytes": self.stack_bytes,
            "high_water_bytes": self.high_water_bytes,
            "memories": [{"name": n, "bytes": b, "high_water_bytes": t} for n, b, t in self.memories],
            "flash": dict(self.flash),
            "ram": dict(self.ram),
            "code_bytes": self.code_bytes,
            "layers": [
                {"name": c.layer.name, "kernel": c.layer.kernel, "instructions": c.instructions, "calls": c.calls}
                for c in self.layers
            ],
            "functions": [{"name": name, "instructions": count} for name, count in self.functions.items()],
        }

    def summary(self) -> str:
        """The figures in two lines."""
        memories = ", ".join(f"{name} {size:,} bytes, high-water mark {high:,}" for name, size, high in self.memories)
        flash = ", ".join(f"{name} {size:,}" for name, size in self.flash.items() if size)
        return (
            f"{self.machine}: {self.instructions:,} instructions per inference; load {self.load:,}, "
            f"init {self.init:,}, reset {self.reset:,}; {memories}; stack {self.stack_bytes:,} bytes\n"
            f"flash: {flash} bytes ({self.compiler})"
        )


class Emulated:
    """An artifact built for a machine.

    Raises: CompileError where it is no artifact, does not build or does not fit, ToolMissing.
    """

    def __init__(
        self, network: Network, machine: Machine, toolchain: Toolchain, options: BuildOptions | None = None
    ) -> None:
        self._network, self._machine, self._toolchain = network, machine, toolchain
        self._options = options or BuildOptions()
        self._directory = tempfile.TemporaryDirectory(prefix="trivet-device-")
        self._built = build(machine, network, toolchain, self._options, Path(self._directory.name))
        self._costs: Costs | None = None

    @property
    def input_ports(self) -> Sequence[Port]:
        return [port.port for port in self._network.inputs]

    @property
    def output_ports(self) -> Sequence[Port]:
        return [port.port for port in self._network.outputs]

    @property
    def costs(self) -> Costs:
        """Of the last run."""
        assert self._costs is not None, "nothing was run"
        return self._costs

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs for inputs, in the model's own shapes, from the initial state.

        Raises: CompileError where an input has the wrong shape or type, or the program refuses or traps.
        """
        return self.run_all([inputs])[0]

    def run_all(self, runs: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Outputs of several runs, one after the other; states live on from run to run.

        Raises: as `run`; AssertionError where the outputs depend on what was in memory before.
        """
        data = b"".join(self._stored(inputs) for inputs in runs)
        emulation = emulate(self._machine, self._built, data)
        size = sum(port.size_bytes for port in self._network.outputs)
        outputs = [emulation.outputs[at : at + size] for at in range(0, size * (2 + len(runs)), size)]
        assert outputs[0] == outputs[1] == outputs[2], "the outputs depend on what was in memory before the run"
        self._costs = self._measured(emulation)
        return [self._read(data) for data in outputs[2:]]

    def _stored(self, inputs: Sequence[Array]) -> bytes:
        ports = self._network.inputs
        if len(inputs) != len(ports):
            raise InvalidModel(f"the artifact has {len(ports)} inputs, got {len(inputs)}")
        stored = []
        for array, declared in zip(inputs, ports, strict=True):
            port = declared.port
            if array.shape != port.type.shape or array.dtype != port.type.dtype.numpy:
                wanted = f"{port.type.dtype.name}{list(port.type.shape)}"
                raise InvalidModel(f"input '{port.name}' is {wanted}, got {array.dtype}{list(array.shape)}")
            check_accepted(port.name, array, port.accepts)
            stored.append(to_storage(array, port).tobytes())
        return b"".join(stored)

    def _read(self, data: bytes) -> list[Array]:
        outputs, at = [], 0
        for port in self._network.outputs:
            array = np.frombuffer(data[at : at + port.size_bytes], port.port.type.dtype.numpy)
            outputs.append(to_model(array.reshape(stored_shape(port)), port.port))
            at += port.size_bytes
        return outputs

    def _measured(self, emulation: Emulation) -> Costs:
        network, program = self._network, self._built.program
        count = 1 + len(network.memories)
        first, second = emulation.measures[:count], emulation.measures[count : 2 * count]
        highest = [max(pair) for pair in zip(first, second, strict=True)]
        named = zip(network.memories, highest[1:], strict=True)
        costs = zip(network.layers, emulation.layers, strict=True) if network.layers else ()
        phases = emulation.phases
        return Costs(
            machine=self._machine.name,
            compiler=self._toolchain.version,
            instructions=phases["run"][0],
            load=phases["load"][0],
            init=phases["init"][0],
            reset=phases["reset"][0],
            stack_bytes=highest[0],
            memories=[(memory.name, memory.size_bytes, touched) for memory, touched in named],
            flash=flash_bytes(program),
            ram=ram_bytes(program),
            layers=[LayerCost(layer, instructions, calls) for layer, (instructions, calls) in costs],
            functions=emulation.functions,
            constant_bytes=network.constant_bytes,
            later=phases["run"][1:],
        )


class EmulatedPlan(Emulated):
    """A plan, whose layers can be looked at."""

    def run_layers(self, inputs: Sequence[Array], observe: Callable[[str, Array], None]) -> list[Array]:
        """Like `run`; `observe` gets the name and the array (storage order) of every step's first result."""
        dumping = replace(self._options, dump_layers=True)
        other = EmulatedPlan(self._network, self._machine, self._toolchain, dumping)
        outputs = other.run(inputs)
        data = np.fromfile(other._built.folder / "layers.bin", np.uint8)
        dumped = _Dumped(read(self._network.files["plan.tgrs"]))
        collector = Collector(dumped, lambda _, step, arrays: observe(step.name, arrays[0]))
        sizes = [region.size_bytes for region in dumped.plan.regions]
        for at in range(0, len(data), 16 + sum(sizes)):
            step, image, row, rows = (int(word) for word in data[at : at + 16].view("<u4"))
            ends = np.cumsum([at + 16, *sizes])
            dumped.memories = [data[start:end] for start, end in pairwise(ends)]
            collector.collect(step, image, row, rows)
        return outputs


class _Dumped:
    """A plan with its memories as they were after a call."""

    def __init__(self, plan: PlanInfo) -> None:
        self.plan = plan
        self.memories: Sequence[Bytes] = []


def stored_shape(port: NetworkPort) -> tuple[int, ...]:
    """The order in which elements follow each other in memory."""
    shape, perm = port.port.type.shape, port.port.perm
    return shape if perm is None else tuple(shape[axis] for axis in np.argsort(perm))


def network_of(path: Path) -> Network:
    """A `.tgrs` plan, or a C module in a folder or an archive.

    Raises: InvalidModel.
    """
    if driver.is_module(path):
        return module_network(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=path) from None
    try:
        return plan_network(data)
    except InvalidModel as error:
        raise InvalidModel(error.message, where=path, hint=error.hint) from None
