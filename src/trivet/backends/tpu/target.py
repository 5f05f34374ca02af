"""The tiny TPU as the driver knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trivet.backends.target import Emitted, MachineOptions, RunOptions
from trivet.backends.tpu.execute import run
from trivet.backends.tpu.ir import Port, Program
from trivet.backends.tpu.legalize import LegalizeTpu
from trivet.backends.tpu.lower import lower
from trivet.backends.tpu.machine import Machine, checked_array, read_machine, reference
from trivet.backends.tpu.passes.allocate_buffers import AllocateBuffers, placement_problem
from trivet.backends.tpu.passes.base import TilePass
from trivet.backends.tpu.passes.prefetch_weights import PrefetchWeights
from trivet.backends.tpu.passes.renumber_passes import RenumberPasses
from trivet.backends.tpu.passes.reuse_weights import ReuseWeights
from trivet.backends.tpu.passes.skip_zero_passes import SkipZeroPasses
from trivet.backends.tpu.report import figures, summary
from trivet.backends.tpu.schedule import read, write
from trivet.backends.tpu.stage import Tiles
from trivet.backends.tpu.timing import Timing, simulate
from trivet.backends.tpu.trace import write_trace
from trivet.backends.tpu.verify import excesses
from trivet.core.interval import Interval
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.errors import CompileError, DoesNotFit, InvalidModel, Problems, Unsupported
from trivet.ir.graph import Graph
from trivet.ir.graph import Port as ModelPort
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.passes.base import Pass
from trivet.passes.stages import StageManager
from trivet.planning.memory.problem import lower_bound

SUFFIX = ".json"

TILE_PASSES: tuple[TilePass, ...] = (
    SkipZeroPasses(),
    ReuseWeights(),
    PrefetchWeights(),
    RenumberPasses(),
    AllocateBuffers(),
)
"""What -O1 does below the graph, in this order."""

LOWER, EMIT = "lower-tpu", "emit-schedule"


@dataclass(frozen=True, slots=True)
class TpuMachine:
    """A machine of known sizes, at one level of optimization."""

    machine: Machine
    level: int

    def legalize(self) -> tuple[Pass, ...]:
        return (LegalizeTpu(),)

    def emit(self, graph: Graph, stages: StageManager) -> Emitted:
        """The schedule of a legal graph; at -O1 through every tile pass.

        Raises: DoesNotFit, Problems, PassVerifyError.
        """
        tiles = stages.lower(LOWER, lambda: Tiles(lower(graph, self.machine)))
        for pass_ in TILE_PASSES if self.level > 0 else ():
            tiles = stages.rewrite(pass_.name, tiles, _on_tiles(pass_))
        check_fits(tiles.program, self.level)
        data = write(tiles.program)
        final = stages.lower(EMIT, lambda: Tiles(read(data)), tiles).program
        timing = simulate(final)
        size = self.machine.array
        text = f"{timing.cycles:,} cycles on a {size} x {size} array, {final.used_bytes:,} bytes of activations"
        return Emitted({SUFFIX: data}, text, _compiled_figures(final, timing))


def _on_tiles(pass_: TilePass) -> Callable[[Tiles, Counter[str]], Tiles | None]:
    def apply(tiles: Tiles, fired: Counter[str]) -> Tiles | None:
        changed = pass_.run(tiles.program, fired)
        return None if changed is None else Tiles(changed)

    return apply


def _compiled_figures(program: Program, timing: Timing) -> Mapping[str, object]:
    return {
        "fast_bytes": program.used_bytes,
        "slow_bytes": 0,
        "flash_bytes": program.tiles.nbytes + program.parameters.nbytes,
        "macs": sum(layer.macs for layer in timing.layers),
        "macs_overhead": 1.0,
        "lower_bound_bytes": lower_bound(placement_problem(program)),
        "fits": True,
        "techniques": [],
        "cycles": timing.cycles,
        "array": program.machine.array,
    }


def check_fits(program: Program, level: int) -> None:
    """Raises: DoesNotFit where a memory of the machine is too small, in bytes."""
    hint = "give a machine with larger memories by --machine"
    if level == 0:
        hint += ", or compile at -O1, where buffers share bytes"
    problems: list[CompileError] = [DoesNotFit(text, hint=hint) for text in excesses(program)]
    if problems:
        raise Problems(program.name, problems)


class TpuRun:
    """A schedule on the simulators."""

    def __init__(self, program: Program, options: RunOptions) -> None:
        self._program = program
        self._trace = options.trace
        self._states: dict[int, Array] | None = None
        self._timing = simulate(program, keep_passes=options.trace is not None)

    @property
    def input_ports(self) -> Sequence[ModelPort]:
        return [_model_port(self._program, port) for port in self._program.inputs]

    @property
    def output_ports(self) -> Sequence[ModelPort]:
        return [_model_port(self._program, port) for port in self._program.outputs]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Raises: MachineTrap where a value leaves its type, InvalidModel where an input is none."""
        outputs, self._states = run(self._program, inputs, self._states)
        if self._trace is not None:
            _write(self._trace, write_trace(self._program, self._timing))
        return outputs

    def reset(self) -> None:
        """State buffers get their initial contents."""
        self._states = None

    def summary(self) -> str:
        return summary(self._program, self._timing)

    def figures(self) -> Mapping[str, object]:
        return figures(self._program, self._timing)


def _model_port(program: Program, port: Port) -> ModelPort:
    """The port in the model's own axis order."""
    shape = port.shape if port.perm is None else tuple(port.shape[axis] for axis in port.perm)
    quant = None if port.scale is None else Quant.per_tensor(port.scale, port.zero_point)
    accepts = None if port.accepts is None else Interval(*port.accepts)
    return ModelPort(port.name, TensorType(program.buffers[port.buffer].dtype, shape, quant), port.perm, accepts)


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Unsupported(f"cannot write: {error.strerror or error}", where=path) from None


class TpuBackend:
    """`--target tpu[:N]`, schedules in `.json` files."""

    name = "tpu"
    stages = (LOWER, *(pass_.name for pass_ in TILE_PASSES), EMIT)

    def configure(self, options: MachineOptions) -> TpuMachine:
        """Raises: Unsupported, InvalidModel."""
        if options.isa is not None:
            raise Unsupported("the TPU has one instruction set: --isa is for the GPU", where="tpu")
        machine = reference() if options.machine is None else read_machine(options.machine)
        if options.argument is not None:
            if not options.argument.isdecimal() or len(options.argument) > 6:
                raise Unsupported(f"'{options.argument}' is no array size", where="tpu", hint="for example tpu:16")
            machine = replace(machine, array=checked_array(int(options.argument)))
        return TpuMachine(machine, options.level)

    def read(self, path: Path, options: RunOptions) -> TpuRun:
        """Raises: InvalidModel, Unsupported."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InvalidModel(f"cannot read: {error.strerror or error}", where=path) from None
        try:
            return TpuRun(read(data), options)
        except InvalidModel as error:
            where = path if error.where is None else f"{path}: {error.where}"
            raise InvalidModel(error.message, where=where, hint=error.hint) from None


BACKEND = TpuBackend()
