"""What a proof needs of a plan file: places, steps, the rows that they read, streams, ports."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trivet.backends.plan import format as f
from trivet.backends.records import FieldValue
from trivet.core.record import dataclass
from trivet.errors import InvalidModel

Row = dict[str, FieldValue]

_ELEMENT_BYTES = {code: dtype.size_bytes(1) for dtype, code in f.DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A place of a value; `producer` None: it is there before the first step."""

    name: str
    region: int
    offset: int
    shape: tuple[int, ...]
    element_bytes: int
    depth: int
    producer: int | None

    @property
    def height(self) -> int:
        return self.shape[1] if len(self.shape) == 4 else 1

    @property
    def batch(self) -> int:
        return self.shape[0] if len(self.shape) == 4 else 1

    @property
    def row_bytes(self) -> int:
        return self.element_bytes * math.prod(self.shape[2:] if len(self.shape) == 4 else self.shape)

    @property
    def is_ring(self) -> bool:
        return self.depth < self.height

    @property
    def size_bytes(self) -> int:
        return self.row_bytes * (self.depth if self.is_ring else self.batch * self.height)

    @property
    def extent(self) -> range:
        return range(self.offset, self.offset + self.size_bytes)


@dataclass(frozen=True, slots=True)
class Edge:
    """Row r of a step reads rows floor((r*stride - before) / divisor) + k*dilation, k < taps, of operand `operand`."""

    operand: int
    source: int | None
    stride: int
    before: int
    taps: int
    dilation: int
    divisor: int
    clamped: bool

    def rows(self, row: int, height: int) -> range:
        """From the first to past the last operand row that one row reads; empty if it reads none."""
        start = (row * self.stride - self.before) // self.divisor
        taps = range(start, start + self.taps * self.dilation, self.dilation)
        if self.clamped:
            inside = [min(max(start, 0), height - 1), min(max(taps[-1], 0), height - 1)]
        else:
            first = start if start >= 0 else start % self.dilation
            last = taps[-1] if taps[-1] < height else height - 1 - (height - 1 - start) % self.dilation
            if first >= height or last < 0 or first > taps[-1] or last < start:
                return range(0)
            inside = [first, last]
        return range(inside[0], inside[1] + 1)


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel of a stream; `rows` None: its one firing makes everything."""

    index: int
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scratch: range
    images: int
    firings: int
    rows: int | None
    edges: tuple[Edge, ...]
    accumulates: bool
    over_sums: bool

    @property
    def counted(self) -> Tensor:
        """The tensor whose rows the firings count."""
        return self.inputs[0] if self.accumulates or not self.outputs else self.outputs[0]


@dataclass(frozen=True, slots=True)
class Stream:
    """Steps that run interleaved; `counters` is empty for one step that fires once.

    `decoded_bytes` of constants are put to the start of the arena before.
    """

    steps: tuple[Step, ...]
    counters: range
    decoded_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A whole file. `given` are the places of inputs and states, `taken` those of outputs.

    The first `reserved_bytes` of the arena hold decoded constants; region `warm` holds `warm_bytes` of them.
    """

    regions: tuple[tuple[str, int], ...]
    streams: tuple[Stream, ...]
    given: tuple[Tensor, ...]
    taken: tuple[Tensor, ...]
    reserved_bytes: int = 0
    warm: int | None = None
    warm_bytes: int = 0

    def steps(self) -> Iterator[Step]:
        for stream in self.streams:
            yield from stream.steps


def read_plan(data: bytes) -> PlanFile:
    """Raises: InvalidModel, where the bytes are no plan or refer to what is not there."""
    if len(data) < f.HEADER.size_bytes or data[:4] != f.MAGIC.to_bytes(4, "little"):
        raise InvalidModel("this is no .tgrs plan", hint="make one with `trivet compile`")
    header = f.HEADER.unpack(data)
    if header["version"] != f.VERSION:
        raise InvalidModel(f"the plan has format version {header['version']}, this is version {f.VERSION}")
    try:
        return _Reader(data, header).plan()
    except IndexError:
        raise InvalidModel("the plan refers to what is not there") from None


class _Reader:
    def __init__(self, data: bytes, header: Row) -> None:
        self.data, self.header = data, header
        self.rows = {section.name: self._records(section) for section in f.SECTIONS if section.record is not None}

    def _records(self, section: f.Section) -> list[Row]:
        place = self.header[section.name]
        assert isinstance(place, tuple) and section.record is not None
        offset, count = int(place[0]), int(place[1])
        if offset + count * section.item_bytes > len(self.data):
            raise InvalidModel(f"section {section.name} of the plan ends behind the file")
        return [section.record.unpack(self.data, offset + i * section.item_bytes) for i in range(count)]

    def plan(self) -> PlanFile:
        steps = [self._step(index, row) for index, row in enumerate(self.rows["steps"])]
        streams = tuple(self._stream(row, steps) for row in self.rows["streams"])
        resident = [row for row in self.rows["inputs"] if not row.get("by_rows", 0)]
        given = [self._tensor(_int(row, "tensor")) for row in (*resident, *self.rows["states"])]
        taken = [self._tensor(_int(row, "tensor")) for row in self.rows["outputs"] if not row.get("by_rows", 0)]
        regions = tuple((self._name(_int(row, "name")), _int(row, "size_bytes")) for row in self.rows["regions"])
        warm, constants = _int(self.header, "warm_region"), self.header["constants"]
        assert isinstance(constants, tuple)
        return PlanFile(
            regions=regions,
            streams=streams,
            given=tuple(given),
            taken=tuple(taken),
            reserved_bytes=_int(self.header, "reserved_bytes"),
            warm=None if warm == f.NONE else warm,
            warm_bytes=int(constants[1]),
        )

    def _stream(self, row: Row, steps: list[Step]) -> Stream:
        first, count, counters = (_int(row, name) for name in ("first_step", "step_count", "counters"))
        if first + count > len(steps):
            raise InvalidModel("a stream of the plan has steps that are not there")
        place = range(0) if counters == f.NONE else range(counters, counters + 4 * count)
        return Stream(tuple(steps[first : first + count]), place, _int(row, "decoded_bytes"))

    def _step(self, index: int, row: Row) -> Step:
        inputs, outputs, first = (_int(row, name) for name in ("inputs", "outputs", "operands"))
        tensors = [self._tensor(_int(self.rows["operands"][first + i], "tensor")) for i in range(inputs + outputs)]
        edges = [self._edge(self.rows["edges"][_int(row, "edges") + i]) for i in range(_int(row, "edge_count"))]
        scratch, rows = _int(row, "scratch_offset"), _int(row, "rows")
        return Step(
            index=index,
            name=self._name(_int(row, "name")) or f"step {index}",
            inputs=tuple(tensors[:inputs]),
            outputs=tuple(tensors[inputs:]),
            scratch=range(0) if scratch == f.NONE else range(scratch, scratch + _int(row, "scratch_bytes")),
            images=_int(row, "images"),
            firings=_int(row, "firings"),
            rows=None if rows == f.ALL_ROWS else rows,
            edges=tuple(edges),
            accumulates=bool(_int(row, "flags") & f.STEP_ACCUMULATES),
            over_sums=bool(_int(row, "flags") & f.STEP_OVER_SUMS),
        )

    def _edge(self, row: Row) -> Edge:
        source = _int(row, "source")
        numbers = {name: _int(row, name) for name in ("operand", "stride", "before", "taps", "dilation", "divisor")}
        if min(numbers["taps"], numbers["dilation"], numbers["divisor"]) < 1:
            raise InvalidModel("an edge of the plan has no window")
        return Edge(source=None if source == f.NO_SOURCE else source, clamped=bool(_int(row, "clamped")), **numbers)

    def _tensor(self, index: int) -> Tensor:
        row = self.rows["tensors"][index]
        first, rank, producer = _int(row, "dims"), _int(row, "rank"), _int(row, "producer")
        if _int(row, "dtype") not in _ELEMENT_BYTES:
            raise InvalidModel(f"the plan has a tensor of the unknown element type {row['dtype']}")
        return Tensor(
            name=self._name(_int(row, "name")) or f"tensor {index}",
            region=_int(row, "region"),
            offset=_int(row, "offset"),
            shape=tuple(_int(self.rows["dims"][first + axis], "size") for axis in range(rank)),
            element_bytes=_ELEMENT_BYTES[_int(row, "dtype")],
            depth=_int(row, "depth"),
            producer=None if producer == f.EXTERNAL else producer,
        )

    def _name(self, offset: int) -> str:
        place = self.header["names"]
        assert isinstance(place, tuple)
        start, size = int(place[0]), int(place[1])
        if offset == f.NONE or offset >= size:
            return ""
        end = self.data.find(b"\0", start + offset, start + size)
        return self.data[start + offset : end if end >= 0 else start + size].decode(errors="replace")


def _int(row: Row, field: str) -> int:
    value = row[field]
    assert isinstance(value, int), field
    return value
