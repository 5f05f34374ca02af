"""The cycle-level simulator: when every pass loads, streams and ends, and what the array waits for.

Each pass is timed in closed form from the resources that it needs, so the cost is one short step a pass. The rules are
those of `docs/tpu.md`; the Verilog machine under `hw/tpu` keeps the same cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from trivet.backends.tpu.ir import (
    EPILOGUE,
    LOAD,
    ROWS,
    ArrayLayer,
    DequantizeLayer,
    Join,
    K,
    Layer,
    Load,
    Program,
    QuantizeLayer,
    QuotientLayer,
    ScalarLayer,
    SoftmaxLayer,
    VectorLayer,
    operands,
    steps,
)
from trivet.backends.tpu.machine import Machine
from trivet.core.record import dataclass

SOFTMAX_FIXED = 32
"""Cycles of the reciprocal of each row on the scalar unit."""

CAUSES = ("weights", "dependency", "busy")
"""Why the array waits: for a weight tile, for results of an earlier layer, for a unit that holds the read port."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """Cycles of one pass: its load [load, loaded), its rows read [start, stop), its results in memory from `done` on.

    A pass without a load has `load` = `loaded` = -1. The waiting is the gap before `start`, and its cause.
    """

    layer: int
    number: int
    load: int
    loaded: int
    start: int
    stop: int
    done: int
    waited: int
    cause: str
    has_epilogue: bool = True


@dataclass(slots=True)
class LayerTime:
    """What one layer cost. `cycles` are those from the end of all layers before to its own end, so they add up.

    `roofline` is the least that its busiest resource and the depth of the pipeline allow, and for the first layer its
    first load, which nothing can hide; `bound` names the resource.
    """

    name: str
    kind: str
    cycles: int = 0
    macs: int = 0
    streamed: int = 0
    passes: int = 0
    loads: int = 0
    roofline: int = 0
    bound: str = ""
    stalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    activation_read_bytes: int = 0
    activation_written_bytes: int = 0
    weight_bytes: int = 0
    parameter_bytes: int = 0

    def utilization(self, array: int) -> float:
        """Useful MACs over what the array could have done meanwhile."""
        return self.macs / (array * array * self.cycles) if self.cycles else 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Cycles of a whole run, every layer, and every pass in order of execution."""

    cycles: int
    layers: list[LayerTime]
    passes: list[PassTime]


class Clock:
    """When each resource is free. All times are cycle numbers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.machine: Machine = program.machine
        self.port = 0
        """The read port of the activation memory: taken by streams and by the other units, in order."""
        self.loader = 0
        self.plane = 0
        """When a plane of weight registers is free for the next load ahead."""
        self.lanes = 0
        """The first cycle in which a row may enter the epilogue."""
        self.done: list[int] = []
        """For each layer so far, the cycle from which its results can be read."""

    def run(self, keep_passes: bool) -> Timing:
        layers, passes, end = [], [], 0
        for index, layer in enumerate(self.program.layers):
            report = LayerTime(layer.name, kind_of(layer))
            ready = self.done[layer.after] if layer.after >= 0 else 0
            last = 0
            for time in self._layer(index, layer, ready):
                report.stalls[time.cause] += time.waited
                last = max(last, time.done)
                if keep_passes:
                    passes.append(time)
            last = max(last, end)
            self.done.append(last)
            report.cycles, end = last - end, last
            _describe(report, layer, self.program)
            if index == 0 and report.loads:
                report.roofline += self.machine.weight_load
            layers.append(report)
        return Timing(end, layers, passes)

    def _layer(self, index: int, layer: Layer, ready: int) -> Iterator[PassTime]:
        match layer:
            case ArrayLayer():
                from_memory = layer.b is None
                for number, step in enumerate(layer.passes.tolist()):
                    yield self._stream(index, number, step, ready, from_memory)
            case VectorLayer():
                yield self._vector(index, vector_reads(layer, self.machine), reads_per_row(layer, self.machine), ready)
            case _:
                yield self._scalar(index, scalar_cycles(layer), ready)

    def _stream(self, index: int, number: int, step: list[int], ready: int, from_memory: bool) -> PassTime:
        load, loaded = self._load(step[LOAD], ready, from_memory)
        before = self.port
        start = max(before, ready, loaded)
        stop = start + step[ROWS]
        self.port = stop
        if step[LOAD]:
            self.plane = start
        sums = stop + self.machine.array_latency
        if step[EPILOGUE]:
            self.lanes = sums
            done = sums + self.machine.epilogue_latency
        else:
            done = sums
        cause = "weights" if loaded > max(before, ready) else "dependency"
        return PassTime(index, number, load, loaded, start, stop, done, start - before, cause, bool(step[EPILOGUE]))

    def _load(self, kind: int, ready: int, from_memory: bool) -> tuple[int, int]:
        """Begin and end of a pass's load, (-1, -1) where its tile is there already."""
        if kind == Load.NONE:
            return -1, -1
        load = max(self.loader, self.plane) if kind == Load.AHEAD else max(self.loader, self.port)
        if from_memory:
            self.loader = load + self.machine.weight_load
        else:
            load = max(load, self.port, ready)
            self.loader = self.port = load + self.machine.activation_load
        return load, self.loader

    def _vector(self, index: int, reads: int, each: int, ready: int) -> PassTime:
        """The read port and the lanes: a row enters the epilogue in the cycle after its last read."""
        before = self.port
        start = max(before, ready, self.lanes - each)
        stop = start + reads
        self.port, self.lanes = stop, stop + 1
        done = self.lanes + self.machine.epilogue_latency
        cause = "dependency" if ready >= start else "busy"
        return PassTime(index, 0, -1, -1, start, stop, done, start - before, cause)

    def _scalar(self, index: int, cycles: int, ready: int) -> PassTime:
        before = self.port
        start = max(before, ready, self.lanes)
        stop = start + cycles
        self.port, self.lanes = stop, stop + 1
        return PassTime(index, 0, -1, -1, start, stop, stop + 1, start - before, "dependency", False)


def simulate(program: Program, keep_passes: bool = False) -> Timing:
    """Cycles of one run. They do not depend on the data."""
    return Clock(program).run(keep_passes)


def kind_of(layer: Layer) -> str:
    match layer:
        case ArrayLayer():
            return "array"
        case VectorLayer():
            return "vector"
        case SoftmaxLayer():
            return "softmax"
        case QuotientLayer():
            return "quotient"
        case QuantizeLayer():
            return "quantize"
        case DequantizeLayer():
            return "dequantize"


def reads_per_row(layer: VectorLayer, machine: Machine) -> int:
    """Cycles of reading for each row of N lanes: one row a tap and one a joined operand, as many at once as ports."""
    reads = layer.a.taps + sum(isinstance(step, Join) for step in layer.epilogue)
    return -(-reads // machine.activation_ports)


def vector_reads(layer: VectorLayer, machine: Machine) -> int:
    """Cycles of reading for the whole layer."""
    return layer.a.rows * -(-layer.columns // machine.array) * reads_per_row(layer, machine)


def scalar_cycles(layer: ScalarLayer) -> int:
    """The scalar unit takes one element a cycle, and walks each row of a softmax three times: maximum, sum, result."""
    if isinstance(layer, SoftmaxLayer | QuotientLayer):
        return layer.a.rows * (3 * layer.columns + SOFTMAX_FIXED)
    return layer.a.rows * layer.columns


def _describe(report: LayerTime, layer: Layer, program: Program) -> None:
    """Counts of work and bytes, and the roofline."""
    array, machine = program.machine.array, program.machine
    width = {view: program.buffers[view.buffer].dtype.bits // 8 for view in operands(layer)}
    results = layer.a.rows * layer.columns
    report.activation_written_bytes = results * program.buffers[layer.target.buffer].dtype.bits // 8
    report.parameter_bytes = 4 * parameter_words(layer)
    match layer:
        case ArrayLayer(a=a, passes=table):
            report.passes, report.macs = len(table), layer.macs
            report.streamed = int(table[:, ROWS].sum())
            report.loads = int((table[:, LOAD] != Load.NONE).sum())
            moved = report.loads * machine.tile_bytes
            report.weight_bytes = moved if layer.b is None else 0
            report.activation_read_bytes = int(table[table[:, K] >= 0, ROWS].sum()) * array * width[a]
            report.activation_read_bytes += 0 if layer.b is None else moved
            each = machine.weight_load if layer.b is None else machine.activation_load
            shared = 0 if layer.b is None else report.loads * each
            bounds = {"array": report.streamed + shared, "weights": report.loads * each}
            depth = machine.depth
        case VectorLayer(a=a):
            bounds, depth = {"read port": vector_reads(layer, machine)}, 1 + machine.epilogue_latency
            report.activation_read_bytes = a.rows * a.columns * width[a]
            report.activation_read_bytes += sum(
                results * width[step.operand] for step in steps(layer) if isinstance(step, Join)
            )
        case _:
            bounds, depth = {"scalar unit": scalar_cycles(layer)}, 1
            walks = 3 if isinstance(layer, SoftmaxLayer | QuotientLayer) else 1
            report.activation_read_bytes = walks * layer.a.rows * layer.a.columns * width[layer.a]
    report.bound = max(bounds, key=lambda name: bounds[name])
    report.roofline = bounds[report.bound] + depth


def parameter_words(layer: Layer) -> int:
    """Words of the parameter memory that a layer reads once."""
    if isinstance(layer, SoftmaxLayer | QuotientLayer):
        return 256
    if not isinstance(layer, ArrayLayer | VectorLayer):
        return 0
    words = {"Bias": layer.columns, "Rescale": 2 * layer.columns, "Round": 2 * layer.columns, "Table": 256}
    return sum(words.get(type(step).__name__, 0) for step in layer.epilogue)
