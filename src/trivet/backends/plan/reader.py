"""`.tgrs` bytes -> records, for inspection: total over any bytes, like the loader, but it does not judge the plan."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trivet.backends.ckernels import CKernel
from trivet.backends.plan import format as f
from trivet.backends.plan.kernels.table import all_kernels
from trivet.backends.records import FieldValue
from trivet.core.dtype import DType
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.errors import InvalidModel

Row = Mapping[str, FieldValue]

_DTYPES: dict[int, DType] = {code: dtype for dtype, code in f.DTYPES.items()}
_KERNELS: dict[int, CKernel] = {kernel.id: kernel for kernel in all_kernels()}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a plan: what it is and where it lies."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    region: int
    offset: int
    depth: int
    producer: int | None

    @property
    def height(self) -> int:
        return self.shape[1] if len(self.shape) == 4 else 1

    @property
    def row_bytes(self) -> int:
        elements = 1
        for extent in self.shape[2:] if len(self.shape) == 4 else self.shape:
            elements *= extent
        return self.dtype.size_bytes(elements)

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that it takes: a ring keeps `depth` rows of one image."""
        if self.depth < self.height:
            return self.depth * self.row_bytes
        batch = self.shape[0] if len(self.shape) == 4 else 1
        return batch * self.height * self.row_bytes


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A step of a plan; `params` are the fields of its kernel's record."""

    name: str
    kernel: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Row
    scratch_offset: int | None
    scratch_bytes: int
    images: int
    firings: int
    rows: int
    edges: tuple[Row, ...]
    accumulates: bool


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input or output; `perm` maps model axes to storage axes, `accepts` is what an input may hold (None: all).

    The tensor of a vector that goes in chunks has the vector's shape.
    """

    name: str
    tensor: TensorInfo
    scale: float
    zero_point: int
    perm: tuple[int, ...] | None
    accepts: Interval | None = None
    by_rows: bool = False


@dataclass(frozen=True, slots=True)
class RegionInfo:
    name: str
    size_bytes: int
    alignment: int


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What survives a run: its tensor, and where in the constants its initial bytes are."""

    tensor: int
    initial: int


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """Everything in a plan file, with indices into these tuples; `streams` and `stages` are ranges.

    `warm_region` holds a copy of the constants, None where they are read in place.
    """

    size_bytes: int
    section_bytes: Mapping[str, int]
    regions: tuple[RegionInfo, ...]
    tensors: tuple[TensorInfo, ...]
    steps: tuple[StepInfo, ...]
    streams: tuple[range, ...]
    stages: tuple[range, ...]
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    states: tuple[StateInfo, ...]
    constants: bytes
    warm_region: int | None = None

    @property
    def has_rows(self) -> bool:
        """True iff an input or output goes by rows."""
        return any(port.by_rows for port in (*self.inputs, *self.outputs))


def read_file(path: Path) -> PlanInfo:
    """Raises: InvalidModel."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidModel(f"cannot read the plan: {error.strerror}", where=path) from error
    try:
        return read(data)
    except InvalidModel as error:
        raise InvalidModel(error.message, where=path, hint=error.hint) from error


def read(data: bytes) -> PlanInfo:
    """Raises: InvalidModel, where the bytes are no whole and undamaged plan."""
    header = _header(data)
    reader = _Reader(data, {s.name: _place(data, header, s) for s in f.SECTIONS})
    return reader.plan(_int(header, "warm_region"))


def _header(data: bytes) -> Row:
    if len(data) < f.HEADER.size_bytes or data[:4] != f.MAGIC.to_bytes(4, "little"):
        raise InvalidModel("this is no .tgrs plan", hint="make one with `trivet compile`")
    header = f.HEADER.unpack(data)
    if header["version"] != f.VERSION:
        raise InvalidModel(f"the plan has format version {header['version']}, this is version {f.VERSION}")
    if header["size_bytes"] != len(data):
        raise InvalidModel(f"the plan should have {header['size_bytes']} bytes, the file has {len(data)}")
    at = f.HEADER.offset_of("checksum")
    if zlib.crc32(data[at + 4 :], zlib.crc32(data[:at] + bytes(4))) != header["checksum"]:
        raise InvalidModel("the plan is damaged: its checksum differs")
    return header


def _place(data: bytes, header: Row, section: f.Section) -> tuple[int, int]:
    place = header[section.name]
    assert isinstance(place, tuple)
    offset, count = int(place[0]), int(place[1])
    if offset + count * section.item_bytes > len(data):
        raise InvalidModel(f"section {section.name} of the plan ends behind the file")
    return offset, count


class _Reader:
    def __init__(self, data: bytes, places: Mapping[str, tuple[int, int]]) -> None:
        self.data, self.places = data, places
        self.rows = {s.name: self.records(s) for s in f.SECTIONS if s.record is not None}

    def records(self, section: f.Section) -> list[Row]:
        offset, count = self.places[section.name]
        assert section.record is not None
        return [section.record.unpack(self.data, offset + i * section.item_bytes) for i in range(count)]

    def plan(self, warm_region: int) -> PlanInfo:
        tensors = tuple(self.tensor(row) for row in self.rows["tensors"])
        return PlanInfo(
            size_bytes=len(self.data),
            section_bytes={s.name: self.places[s.name][1] * s.item_bytes for s in f.SECTIONS},
            regions=tuple(
                RegionInfo(self.name(_int(r, "name")), _int(r, "size_bytes"), _int(r, "alignment"))
                for r in self.rows["regions"]
            ),
            tensors=tensors,
            steps=tuple(self.step(row) for row in self.rows["steps"]),
            streams=tuple(_range(row, "first_step", "step_count") for row in self.rows["streams"]),
            stages=tuple(_range(row, "first_stream", "stream_count") for row in self.rows["stages"]),
            inputs=tuple(self.port(row, tensors) for row in self.rows["inputs"]),
            outputs=tuple(self.port(row, tensors) for row in self.rows["outputs"]),
            states=tuple(StateInfo(_int(r, "tensor"), _int(r, "initial")) for r in self.rows["states"]),
            constants=self.bytes("constants"),
            warm_region=None if warm_region == f.NONE else warm_region,
        )

    def bytes(self, section: str) -> bytes:
        start, size = self.places[section]
        return self.data[start : start + size]

    def name(self, offset: int) -> str:
        start, size = self.places["names"]
        if offset == f.NONE:
            return ""
        if offset >= size:
            raise InvalidModel("a name of the plan lies outside of its section")
        end = self.data.find(b"\0", start + offset, start + size)
        return self.data[start + offset : end if end >= 0 else start + size].decode(errors="replace")

    def slice(self, section: str, first: int, count: int) -> list[Row]:
        rows = self.rows[section]
        if first + count > len(rows):
            raise InvalidModel(f"the plan refers to {section} {first}..{first + count} of {len(rows)}")
        return rows[first : first + count]

    def tensor(self, row: Row) -> TensorInfo:
        dtype = _DTYPES.get(_int(row, "dtype"))
        if dtype is None:
            raise InvalidModel(f"the plan has a tensor of the unknown element type {row['dtype']}")
        shape = tuple(_int(dim, "size") for dim in self.slice("dims", _int(row, "dims"), _int(row, "rank")))
        producer = _int(row, "producer")
        return TensorInfo(
            self.name(_int(row, "name")), dtype, shape, _int(row, "region"), _int(row, "offset"), _int(row, "depth"),
            None if producer == f.EXTERNAL else producer,
        )  # fmt: skip

    def step(self, row: Row) -> StepInfo:
        inputs, outputs = _int(row, "inputs"), _int(row, "outputs")
        operands = [_int(r, "tensor") for r in self.slice("operands", _int(row, "operands"), inputs + outputs)]
        if any(index >= len(self.rows["tensors"]) for index in operands):
            raise InvalidModel("a step of the plan refers to a tensor that is not there")
        kernel = _KERNELS.get(_int(row, "kernel"))
        return StepInfo(
            name=self.name(_int(row, "name")),
            kernel=kernel.name if kernel else f"unknown kernel {row['kernel']}",
            inputs=tuple(operands[:inputs]),
            outputs=tuple(operands[inputs:]),
            params=self.params(kernel, _int(row, "params")) if kernel else {},
            scratch_offset=None if _int(row, "scratch_offset") == f.NONE else _int(row, "scratch_offset"),
            scratch_bytes=_int(row, "scratch_bytes"),
            images=_int(row, "images"),
            firings=_int(row, "firings"),
            rows=_int(row, "rows"),
            edges=tuple(self.slice("edges", _int(row, "edges"), _int(row, "edge_count"))),
            accumulates=bool(_int(row, "flags") & f.STEP_ACCUMULATES),
        )

    def params(self, kernel: CKernel, offset: int) -> Row:
        start, size = self.places["params"]
        if offset + kernel.params.size_bytes > size:
            raise InvalidModel(f"the parameters of {kernel.name} lie outside of their section")
        return kernel.params.unpack(self.data, start + offset)

    def port(self, row: Row, tensors: tuple[TensorInfo, ...]) -> PortInfo:
        index, perm, scale = _int(row, "tensor"), row["perm"], row["scale"]
        if index >= len(tensors):
            raise InvalidModel("an input or output of the plan refers to a tensor that is not there")
        assert isinstance(perm, tuple) and isinstance(scale, float)
        rank = len(tensors[index].shape)
        axes = tuple(int(axis) for axis in perm[:rank]) if _int(row, "has_perm") else None
        if axes is not None and sorted(axes) != list(range(rank)):
            raise InvalidModel("an input or output of the plan has no valid order of axes")
        lowest, highest = _int(row, "lowest"), _int(row, "highest")
        if lowest > highest:
            raise InvalidModel("an input of the plan accepts nothing")
        accepts, tensor = Interval(lowest, highest), tensors[index]
        if _int(row, "by_rows") == f.BY_CHUNKS:
            tensor = replace(tensor, shape=(1, math.prod(tensor.shape)))
        return PortInfo(
            self.name(_int(row, "name")), tensor, scale, _int(row, "zero_point"), axes,
            None if accepts == f.ANYTHING else accepts, bool(_int(row, "by_rows")),
        )  # fmt: skip


def _int(row: Row, field: str) -> int:
    value = row[field]
    assert isinstance(value, int), field
    return value


def _range(row: Row, first: str, count: str) -> range:
    return range(_int(row, first), _int(row, first) + _int(row, count))
