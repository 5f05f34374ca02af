"""Tile IR: what the machine does, layer by layer and pass by pass.

A program holds buffers of the activation memory, weight tiles, epilogue parameters, and layers in execution order. The
JSON schedule is this program written down, so both have one verifier and one interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from trivet.backends.tpu.machine import Machine
from trivet.core.dtype import F32, I8, I32, U8, DType
from trivet.core.record import dataclass
from trivet.ir.op import Array
from trivet.ir.types import Shape

Ints = npt.NDArray[np.int64]

ELEMENTS: dict[str, DType] = {"i8": I8, "u8": U8, "i32": I32, "f32": F32}
"""Element types of buffers. Only the scalar unit reads and writes f32."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in the activation memory, elements in row-major order. `address` counts bytes.

    `cleared`: some elements are never written and must read as zero, so its bytes belong to it from the start.
    """

    name: str
    dtype: DType
    elements: int
    address: int = 0
    cleared: bool = False

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.bits // 8

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.size_bytes

    def meets(self, other: Buffer) -> bool:
        """True iff both have a byte in common."""
        return self.address < other.end and other.address < self.end


@dataclass(frozen=True, slots=True)
class View:
    """A matrix [rows, columns] of elements of a buffer, made by address generation.

    Row m is the window (b, oy, ox) of `batch`, `out`; column k is the tap (ky, kx, c) of `kernel`, `channels`, both in
    row-major order. With y = oy*stride + ky*dilation - pads and x alike, the element is number
    offset + b*steps[0] + y*steps[1] + x*steps[2] + c*steps[3] of the buffer, or `fill` where y or x is outside `image`.
    """

    buffer: int
    offset: int
    steps: tuple[int, int, int, int]
    batch: int
    image: tuple[int, int]
    channels: int
    out: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    fill: int = 0

    @property
    def rows(self) -> int:
        return self.batch * self.out[0] * self.out[1]

    @property
    def columns(self) -> int:
        return self.taps * self.channels

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @staticmethod
    def matrix(buffer: int, rows: int, columns: int, offset: int = 0, row_step: int | None = None) -> View:
        """Consecutive rows, `row_step` elements apart."""
        step = columns if row_step is None else row_step
        return View(buffer, offset, (0, step, step, 1), 1, (rows, 1), columns, (rows, 1))


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go, in lines of `line` rows.

    Element (m, n) is number offset + (m // line)*line_step + (m % line)*row_step + n of the buffer.
    """

    buffer: int
    offset: int
    row_step: int
    line: int
    line_step: int

    @staticmethod
    def matrix(buffer: int, rows: int, columns: int, offset: int = 0, row_step: int | None = None) -> Target:
        """Consecutive rows, `row_step` elements apart."""
        step = columns if row_step is None else row_step
        return Target(buffer, offset, step, max(rows, 1), 0)


class Operation(IntEnum):
    """How a join combines the value with its operand."""

    ADD = 0
    SUB = 1
    MUL = 2
    MIN = 3
    MAX = 4


@dataclass(frozen=True, slots=True)
class Bias:
    """v = v + P[at + n]."""

    at: int


@dataclass(frozen=True, slots=True)
class Relu:
    """v = max(v, 0)."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """v = v * P[at + n] * 2^(P[at + columns + n] - 31), rounded twice."""

    at: int


@dataclass(frozen=True, slots=True)
class Scale:
    """v = (v << left) * multiplier * 2^(shift - 31), rounded twice."""

    left: int
    multiplier: int
    shift: int


class Rounding(IntEnum):
    """Where halves go."""

    AWAY = 0
    EVEN = 1


@dataclass(frozen=True, slots=True)
class Round:
    """v = (v / divisor) * d in float64, rounded to an integer; d is the double in P[at + 2n], P[at + 2n + 1]."""

    at: int
    divisor: int
    rounding: Rounding


@dataclass(frozen=True, slots=True)
class Offset:
    """v = v + value."""

    value: int


@dataclass(frozen=True, slots=True)
class Clamp:
    """v = min(max(v, lo), hi)."""

    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Divide:
    """v = v / by, halves away from zero."""

    by: int


@dataclass(frozen=True, slots=True)
class Table:
    """v = P[at + v + 128], for v in [-128, 127]."""

    at: int


@dataclass(frozen=True, slots=True)
class Join:
    """v = v (operation) r; r is the element (m, n) of `operand`, plus `offset`, then scaled if `scale` is given."""

    operation: Operation
    operand: View
    offset: int = 0
    scale: Scale | None = None


Step = Bias | Relu | Rescale | Round | Scale | Offset | Clamp | Divide | Table | Join


class Load(IntEnum):
    """How a pass gets its weight tile."""

    NONE = 0
    AFTER = 1
    AHEAD = 2


PASS_FIELDS = ("id", "row", "rows", "k", "tile", "n", "acc", "first", "epilogue", "load")
"""Columns of a pass table. `k` -1: rows of zeros stream instead of A. `tile` -1: the tile of B at (k, n)."""

ID, ROW, ROWS, K, TILE, N, ACC, FIRST, EPILOGUE, LOAD = range(len(PASS_FIELDS))


@dataclass(frozen=True, slots=True)
class ArrayLayer:
    """A product on the array. A: [M, K] times tiles of B -> [M, columns], through the epilogue, to `target`.

    `b` is the view that tiles come from, None where they are in the weight memory. `after` is the layer whose results
    must be in memory before this one begins, -1 for none. `macs` are the useful ones, for reports.
    """

    name: str
    a: View
    b: View | None
    columns: int
    epilogue: tuple[Step, ...]
    target: Target
    passes: Ints = field(compare=False)
    after: int = -1
    macs: int = 0


class Reduce(IntEnum):
    """How the vector unit combines the taps of a window."""

    SUM = 0
    MAX = 1


@dataclass(frozen=True, slots=True)
class VectorLayer:
    """N lanes on the read port: the taps of each window, channel by channel, reduced, then through the epilogue."""

    name: str
    a: View
    reduce: Reduce
    epilogue: tuple[Step, ...]
    target: Target
    after: int = -1

    @property
    def columns(self) -> int:
        return self.a.channels


@dataclass(frozen=True, slots=True)
class SoftmaxLayer:
    """The scalar unit: softmax of each row of A; P[table ...] are 256 exponentials."""

    name: str
    a: View
    table: int
    target: Target
    after: int = -1

    @property
    def columns(self) -> int:
        return self.a.columns


@dataclass(frozen=True, slots=True)
class QuotientLayer:
    """The scalar unit: softmax of each row of A as ONNX rounds it, in float64; P[table ...] are 256 exponentials."""

    name: str
    a: View
    table: int
    scale: float
    zero_point: int
    target: Target
    after: int = -1

    @property
    def columns(self) -> int:
        return self.a.columns


@dataclass(frozen=True, slots=True)
class QuantizeLayer:
    """The scalar unit: float32 elements of A to stored integers, round(x / scale) + zero_point."""

    name: str
    a: View
    scale: float
    zero_point: int
    rounding: Rounding
    target: Target
    after: int = -1

    @property
    def columns(self) -> int:
        return self.a.columns


@dataclass(frozen=True, slots=True)
class DequantizeLayer:
    """The scalar unit: stored integers of A to float32, scale * (x - zero_point)."""

    name: str
    a: View
    scale: float
    zero_point: int
    target: Target
    after: int = -1

    @property
    def columns(self) -> int:
        return self.a.columns


ScalarLayer = SoftmaxLayer | QuotientLayer | QuantizeLayer | DequantizeLayer

Layer = ArrayLayer | VectorLayer | SoftmaxLayer | QuotientLayer | QuantizeLayer | DequantizeLayer


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: its shape as stored; the source model's array is the stored one transposed by `perm`.

    `accepts` is the closed range of what an input may hold, where that is less than its type. `scale` and `zero_point`
    say which real numbers the integers stand for, where they do.
    """

    name: str
    buffer: int
    shape: Shape
    perm: tuple[int, ...] | None = None
    accepts: tuple[int, int] | None = None
    scale: float | None = None
    zero_point: int = 0


@dataclass(slots=True)
class Program:
    """Everything that the machine needs. `tiles`: int8 [T, N, N]; `parameters`: int32 words.

    `constants` fill buffers at the start of every run. `states` fill theirs once, before the first run; from then on
    these buffers keep what a run leaves in them.
    """

    name: str
    machine: Machine
    buffers: list[Buffer]
    constants: dict[int, Array]
    states: dict[int, Array]
    tiles: npt.NDArray[np.int8]
    parameters: npt.NDArray[np.int32]
    inputs: list[Port]
    outputs: list[Port]
    layers: list[Layer]

    @property
    def used_bytes(self) -> int:
        """One past the last byte of the activation memory that a buffer has."""
        return max((buffer.end for buffer in self.buffers), default=0)

    def with_layers(self, layers: list[Layer]) -> Program:
        """The same program with other layers, each waiting for the last one whose results it reads."""
        program = replace(self, layers=layers)
        program.layers = [replace(layer, after=last_writer(program, i)) for i, layer in enumerate(layers)]
        return program


def operands(layer: Layer) -> Iterator[View]:
    """Every view that a layer reads."""
    yield layer.a
    if isinstance(layer, ArrayLayer) and layer.b is not None:
        yield layer.b
    yield from (step.operand for step in steps(layer) if isinstance(step, Join))


def steps(layer: Layer) -> tuple[Step, ...]:
    """The epilogue; the scalar unit has none."""
    return layer.epilogue if isinstance(layer, ArrayLayer | VectorLayer) else ()


def last_writer(program: Program, index: int) -> int:
    """The last layer before `index` that wrote a byte of what layer `index` reads, -1 if none did."""
    read = [program.buffers[view.buffer] for view in operands(program.layers[index])]
    for earlier in range(index - 1, -1, -1):
        written = program.buffers[program.layers[earlier].target.buffer]
        if any(written.meets(buffer) for buffer in read):
            return earlier
    return -1
