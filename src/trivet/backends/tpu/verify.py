"""What must be true of a program before it runs: every address in range, every operand ready, every size bounded.

It holds for programs that the compiler made and for those read from files alike, so that neither simulator can touch
memory that a program does not own, nor run for ever. The first violation is the message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from trivet.backends.tpu.ir import (
    ACC,
    EPILOGUE,
    FIRST,
    ID,
    LOAD,
    PASS_FIELDS,
    ROW,
    ROWS,
    TILE,
    ArrayLayer,
    Bias,
    Buffer,
    Clamp,
    DequantizeLayer,
    Divide,
    Ints,
    Join,
    K,
    Layer,
    Load,
    N,
    Offset,
    Port,
    Program,
    QuantizeLayer,
    QuotientLayer,
    Rescale,
    Round,
    ScalarLayer,
    Scale,
    SoftmaxLayer,
    Step,
    Table,
    Target,
    VectorLayer,
    View,
    operands,
    steps,
)
from trivet.core.dtype import F32, I8
from trivet.errors import InvalidModel

MAX_COUNT = 1 << 12
"""Buffers, layers, steps of an epilogue."""

MAX_VIEW = 1 << 26
"""Elements of a view, bytes of all buffers."""

MAX_COLUMNS = 1 << 24
"""Columns of a view of a unit beside the array, which are read row by row."""

MAX_STREAM = 1 << 30
"""Elements of A that all passes stream, N a row: a run ends in bounded time."""

MAX_READS = 1 << 25
"""Elements that the units beside the array read."""

MAX_STEPS = 1 << 28
"""Values that the epilogue takes through a step."""

MAX_SOFTMAX = 1 << 12
"""Columns from which on the sum of a softmax could leave int32."""

INT32 = np.iinfo(np.int32)


def verify(program: Program, fits: bool = True) -> None:
    """Raises: InvalidModel that names the first thing that is wrong; `fits` includes the sizes of the memories."""
    _Verifier(program, fits).run()


class TooLarge(InvalidModel):
    """A program that may be right, and is more than the simulator takes."""


class _Verifier:
    def __init__(self, program: Program, fits: bool) -> None:
        self.program = program
        self.fits = fits
        self.where = "program"
        self.streamed = 0
        self.reads = 0
        self.steps = 0
        targets = [program.buffers[i] for layer in program.layers if 0 <= (i := layer.target.buffer) < self.buffers]
        self.written = np.array([(buffer.address, buffer.end) for buffer in targets], np.int64).reshape(-1, 2)

    @property
    def buffers(self) -> int:
        return len(self.program.buffers)

    def run(self) -> None:
        program = self.program
        self.bound(len(program.buffers) <= MAX_COUNT, f"more than {MAX_COUNT} buffers")
        self.bound(len(program.layers) <= MAX_COUNT, f"more than {MAX_COUNT} layers")
        if self.fits:
            for problem in excesses(program):
                self.require(False, problem)
        self.bound(program.used_bytes <= MAX_VIEW, f"more than {MAX_VIEW} bytes of buffers")
        for buffer in program.buffers:
            self.where = f"buffer '{buffer.name}'"
            self.buffer(buffer)
        self.contents()
        for index, layer in enumerate(program.layers):
            self.where = f"layer {index} '{layer.name}'"
            self.layer(index, layer)

    def require(self, claim: bool, message: str) -> None:
        if not claim:
            raise InvalidModel(message, where=f"{self.program.name}: {self.where}")

    def bound(self, claim: bool, message: str) -> None:
        if not claim:
            raise TooLarge(message, where=f"{self.program.name}: {self.where}")

    def buffer(self, buffer: Buffer) -> None:
        self.require(buffer.elements >= 0 and buffer.address >= 0, "a negative size or address")
        self.require(buffer.dtype.bits != 32 or buffer.address % 4 == 0, "32-bit elements off their word boundary")

    def contents(self) -> None:
        """Constants and ports: what is in memory before a run, and what is taken from it."""
        filled: list[Buffer] = []
        for index, data in (*self.program.constants.items(), *self.program.states.items()):
            self.where = f"contents of buffer {index}"
            buffer = self.known(index)
            self.require(data.size == buffer.elements and data.dtype == buffer.dtype.numpy, "data of another size")
            filled.append(buffer)
        for port in (*self.program.inputs, *self.program.outputs):
            self.where = f"port '{port.name}'"
            self.port(port)
        for port in self.program.inputs:
            self.where = f"input '{port.name}'"
            filled.append(self.known(port.buffer))
        filled = sorted((buffer for buffer in filled if buffer.elements), key=lambda buffer: buffer.address)
        for buffer, following in pairwise(filled):
            self.where = f"buffer '{buffer.name}'"
            self.require(not buffer.meets(following), "two sources fill the same bytes")

    def port(self, port: Port) -> None:
        buffer = self.known(port.buffer)
        self.require(all(size >= 0 for size in port.shape) and len(port.shape) <= 8, "no shape")
        self.require(math.prod(port.shape) == buffer.elements, f"its shape has not {buffer.elements} elements")
        perm = port.perm
        self.require(perm is None or sorted(perm) == list(range(len(port.shape))), "its axes are no permutation")
        if port.accepts is not None:
            lo, hi = port.accepts
            integer = buffer.dtype.is_integer
            self.require(
                integer and buffer.dtype.min <= lo <= hi <= buffer.dtype.max, f"it accepts no {buffer.dtype.name}"
            )
        self.require(port.scale is None or 0 < port.scale < 1e38, "its scale is no positive float32")
        self.require(INT32.min <= port.zero_point <= INT32.max, "its zero point is no int32")

    def known(self, index: int) -> Buffer:
        self.require(0 <= index < self.buffers, f"there is no buffer {index}")
        return self.program.buffers[index]

    def layer(self, index: int, layer: Layer) -> None:
        for view in operands(layer):
            self.view(view)
        self.target(layer)
        self.bound(len(steps(layer)) <= MAX_COUNT, f"more than {MAX_COUNT} steps")
        for step in steps(layer):
            self.step(step, layer)
        match layer:
            case ArrayLayer():
                self.array(layer)
            case VectorLayer():
                joined = sum(isinstance(step, Join) for step in layer.epilogue)
                self.read(layer.a.rows * (layer.a.columns + joined * layer.columns))
                self.finish(layer.a.rows * layer.columns * len(layer.epilogue))
            case _:
                self.scalar(layer)
        wide = isinstance(layer, ArrayLayer) or layer.a.columns <= MAX_COLUMNS
        self.bound(wide, f"more than {MAX_COLUMNS} columns")
        self.types(layer)
        self.order(index, layer)

    def scalar(self, layer: ScalarLayer) -> None:
        self.read(layer.a.rows * layer.a.columns)
        if isinstance(layer, SoftmaxLayer | QuotientLayer):
            self.require(self.known(layer.a.buffer).dtype is I8, "softmax of another type than i8")
            self.words(layer.table, 256)
            self.require(layer.a.columns < MAX_SOFTMAX, f"softmax of {MAX_SOFTMAX} columns or more")
        if isinstance(layer, SoftmaxLayer):
            return
        if isinstance(layer, QuotientLayer):
            powers = self.program.parameters[layer.table : layer.table + 256]
            self.require(bool((powers >= 0).all() and powers[255] > 0), "exponentials that are none")
        self.require(0 < layer.scale < 1e38, "a scale that is no positive float32")
        self.require(INT32.min <= layer.zero_point <= INT32.max, "a zero point that is no int32")

    def types(self, layer: Layer) -> None:
        """Floats are for the scalar unit: it reads them to quantize, and writes them to dequantize."""
        reads = [self.known(view.buffer).dtype is F32 for view in operands(layer)]
        writes = self.known(layer.target.buffer).dtype is F32
        self.require(all(reads) if isinstance(layer, QuantizeLayer) else not any(reads), "an operand of a wrong type")
        self.require(writes == isinstance(layer, DequantizeLayer), "a result of a wrong type")

    def read(self, elements: int) -> None:
        self.reads += elements
        self.bound(self.reads <= MAX_READS, f"more than {MAX_READS} elements read beside the array")

    def finish(self, values: int) -> None:
        self.steps += values
        self.bound(self.steps <= MAX_STEPS, f"more than {MAX_STEPS} steps of the epilogue")

    def order(self, index: int, layer: Layer) -> None:
        """RAW hazards: what a layer reads must have been written by the layers that it waits for."""
        self.require(-1 <= layer.after < index, f"it waits for layer {layer.after}")
        written = self.known(layer.target.buffer)
        for view in operands(layer):
            read = self.known(view.buffer)
            self.require(not read.meets(written), f"it reads bytes of '{read.name}' that it writes")
            later = self.written[layer.after + 1 : index]
            met = (later[:, 0] < read.end) & (read.address < later[:, 1])
            self.require(not met.any(), "it does not wait for a layer whose results it reads")

    def view(self, view: View) -> None:
        buffer = self.known(view.buffer)
        sizes = (view.batch, *view.out, *view.kernel, view.channels)
        self.require(min(sizes) >= 1 and max(sizes) <= MAX_VIEW, "a view of a size that is none")
        self.bound(view.rows * view.columns <= MAX_VIEW, f"a view of more than {MAX_VIEW} elements")
        bounded = (*view.steps, view.offset, *view.pads, *view.stride, *view.dilation, *view.image)
        self.require(all(abs(value) < 1 << 27 for value in bounded), "a step beyond all memories")
        self.require(min(view.stride) >= 1 and min(view.dilation) >= 1, "strides and dilations are at least 1")
        self.require(min(view.image) >= 0, "an image of negative size")
        dtype = buffer.dtype
        lo, hi = (0, 0) if dtype.is_float else (dtype.min, dtype.max)
        self.require(lo <= view.fill <= hi, f"padding {view.fill} is no {buffer.dtype.name}")
        spans = [_positions(view, axis) for axis in (0, 1)]
        if any(lo > hi for lo, hi in spans):
            return
        lo, hi = view.offset, view.offset
        ends = ((0, view.batch - 1), spans[0], spans[1], (0, view.channels - 1))
        for step, (first, last) in zip(view.steps, ends, strict=True):
            lo += min(step * first, step * last)
            hi += max(step * first, step * last)
        self.require(lo >= 0 and hi < buffer.elements, f"a view of elements {lo} to {hi} of '{buffer.name}'")

    def target(self, layer: Layer) -> None:
        target, buffer = layer.target, self.known(layer.target.buffer)
        self.require(target.line >= 1 and max(map(abs, _numbers(target))) < 1 << 27, "a target of a size that is none")
        rows = layer.a.rows
        full = (rows - 1) // target.line
        last = max(full * target.line_step, 0) + max((min(rows, target.line) - 1) * target.row_step, 0)
        first = min(full * target.line_step, 0) + min((min(rows, target.line) - 1) * target.row_step, 0)
        lo, hi = target.offset + first, target.offset + last + layer.columns - 1
        self.require(layer.columns >= 1, "no columns")
        self.require(lo >= 0 and hi < buffer.elements, f"results in elements {lo} to {hi} of '{buffer.name}'")

    def words(self, at: int, count: int) -> None:
        self.require(at >= 0 and at + count <= len(self.program.parameters), f"there are no parameters {at} + {count}")

    def step(self, step: Step, layer: Layer) -> None:
        match step:
            case Bias(at):
                self.words(at, layer.columns)
            case Table(at):
                self.words(at, 256)
            case Rescale() | Round() | Scale():
                self.to_scale(step, layer.columns)
            case Offset(value):
                self.require(INT32.min <= value <= INT32.max, "an offset beyond int32")
            case Clamp(lo, hi):
                self.require(INT32.min <= lo <= hi <= INT32.max, "a clamp without values")
            case Divide(by):
                self.require(1 <= by <= INT32.max, "a division by less than 1")
            case Join(operand=view, offset=offset, scale=scale):
                self.require(isinstance(layer, VectorLayer), "only the vector unit joins operands")
                same = view.rows == layer.a.rows and view.columns == layer.columns
                self.require(same, "a joined operand of another size")
                self.require(INT32.min <= offset <= INT32.max, "an offset beyond int32")
                if scale is not None:
                    self.to_scale(scale, layer.columns)
            case _:
                pass

    def to_scale(self, step: Rescale | Round | Scale, columns: int) -> None:
        match step:
            case Rescale(at):
                self.words(at, 2 * columns)
                shifts = self.program.parameters[at + columns : at + 2 * columns]
                self.require(bool(np.all((shifts >= -31) & (shifts <= 31))), "a shift beyond 31")
            case Round(at, divisor):
                self.words(at, 2 * columns)
                factors = self.program.parameters[at : at + 2 * columns].astype("<i4").view("<f8")
                self.require(bool(np.isfinite(factors).all()), "a factor that is no number")
                self.require(1 <= divisor <= INT32.max, "a division by less than 1")
            case Scale(left, multiplier, shift):
                self.require(0 <= left <= 31 and -31 <= shift <= 31, "a shift beyond 31")
                self.require(0 <= multiplier <= INT32.max, "a multiplier beyond int32")

    def array(self, layer: ArrayLayer) -> None:
        for view in (layer.a, layer.b):
            dtype = I8 if view is None else self.known(view.buffer).dtype
            self.require(dtype is I8, "the array multiplies i8 alone")
        b = layer.b
        self.require(b is None or (b.rows == layer.a.columns and b.columns == layer.columns), "B has another size")
        self.require(layer.columns <= MAX_VIEW, "columns beyond all memories")
        self.require(layer.macs >= 0, "a negative count of MACs")
        table = layer.passes
        self.require(table.ndim == 2 and table.shape[1] == len(PASS_FIELDS), "a pass of another length")
        self.ranges(layer, table)
        size = self.program.machine.array
        self.streamed += int(table[:, ROWS].sum()) * size
        self.bound(self.streamed <= MAX_STREAM, f"more than {MAX_STREAM} elements that stream")
        self.finish(int(table[table[:, EPILOGUE] == 1, ROWS].sum()) * size * len(layer.epilogue))
        self.loads(layer, table)
        self.accumulators(table)

    def ranges(self, layer: ArrayLayer, t: Ints) -> None:
        machine, streams = self.program.machine, t[:, K] >= 0
        tiles = len(self.program.tiles) if layer.b is None else 0
        tile_ok = (t[:, TILE] >= 0) & (t[:, TILE] < tiles) if layer.b is None else t[:, TILE] == -1
        flags = (t[:, [FIRST, EPILOGUE]] >= 0) & (t[:, [FIRST, EPILOGUE]] <= 1)
        standing = (t[:, EPILOGUE] == 1) & (t[:, LOAD] == 0) & (t[:, TILE] == -1)
        claims = {
            "ids do not rise": bool(np.all(np.diff(t[:, ID]) > 0)) and bool(np.all(t[:, ID] >= 0)),
            "rows outside the view": (t[:, ROW] >= 0) & (t[:, ROWS] >= 1) & (t[:, ROW] + t[:, ROWS] <= layer.a.rows),
            "a column outside A": (t[:, K] >= -1) & (t[:, K] < layer.a.columns),
            "a tile that does not exist": tile_ok | ~streams,
            "a column outside the results": (t[:, N] >= 0) & (t[:, N] < layer.columns),
            "rows outside the accumulators": (t[:, ACC] >= 0) & (t[:, ACC] + t[:, ROWS] <= machine.accumulator_rows),
            "a flag that is neither 0 nor 1": flags,
            "a load that is none of 0, 1, 2": (t[:, LOAD] >= 0) & (t[:, LOAD] <= 2),
            "a pass without a stream that is no epilogue": standing | streams,
        }
        for message, holds in claims.items():
            self.require(bool(np.all(holds)), f"a pass has {message}")
        ahead = bool(np.any(t[:, LOAD] == Load.AHEAD))
        self.require(not ahead or machine.double_buffered, "a load ahead without a second plane of weights")
        self.require(not ahead or layer.b is None, "a load ahead from the activation memory")

    def loads(self, layer: ArrayLayer, t: Ints) -> None:
        """A pass that loads nothing finds its tile where the pass before has left it."""
        streams = t[t[:, K] >= 0]
        if not len(streams):
            return
        self.require(bool(streams[0, LOAD] != Load.NONE), "the first pass of a layer loads no tile")
        tile = streams[:, [TILE]] if layer.b is None else streams[:, [K, N]]
        same = np.all(tile[1:] == tile[:-1], axis=1)
        self.require(bool(np.all(same | (streams[1:, LOAD] != Load.NONE))), "a pass has a tile that is not loaded")

    def accumulators(self, t: Ints) -> None:
        """What is added to has been set in the same layer."""
        if not len(t) or np.all((t[:, FIRST] == 1) | (t[:, K] < 0)):
            return
        ready = np.zeros(self.program.machine.accumulator_rows, np.bool_)
        for step in t[t[:, K] >= 0].tolist():
            rows = ready[step[ACC] : step[ACC] + step[ROWS]]
            if step[FIRST]:
                rows[:] = True
            elif not rows.all():
                self.require(False, f"pass {step[ID]} adds to accumulators that hold nothing")


def excesses(program: Program) -> Iterator[str]:
    """What of a program is larger than a memory of its machine."""
    machine = program.machine
    needs = (
        ("activation", program.used_bytes, machine.activation_bytes, "bytes"),
        ("weight", len(program.tiles) * machine.tile_bytes, machine.weight_bytes, "bytes"),
        ("parameter", len(program.parameters), machine.parameter_words, "words"),
    )
    for name, need, has, unit in needs:
        if need > has:
            yield f"needs {need:,} {unit} of {name} memory, {need - has:,} more than the machine's {has:,}"


def _positions(view: View, axis: int) -> tuple[int, int]:
    """The first and last index along an axis of the image that a view may read; empty where it reads padding alone."""
    last = (view.out[axis] - 1) * view.stride[axis] + (view.kernel[axis] - 1) * view.dilation[axis]
    return max(0, -view.pads[axis]), min(view.image[axis] - 1, last - view.pads[axis])


def _numbers(target: Target) -> tuple[int, ...]:
    return target.offset, target.row_step, target.line, target.line_step
