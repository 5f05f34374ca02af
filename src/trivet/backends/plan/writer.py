"""ExecutionPlan -> `.tgrs` bytes. The same plan gives the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trivet.analysis.storage import is_callers
from trivet.backends.ckernels import Call, images_of
from trivet.backends.plan import format as f
from trivet.backends.plan.kernels.copy import CONSTANT, copy_call
from trivet.backends.plan.pool import ConstantPool, pack_params
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.weights import WARM, Weights, packed
from trivet.backends.records import FieldValue, Record, align
from trivet.core.dtype import I32
from trivet.core.record import dataclass
from trivet.errors import DoesNotFit
from trivet.ir.graph import Port, Value
from trivet.ops.border import Receive
from trivet.planning.plan import Edge, ExecutionPlan, Stage, Step, Stream, Transfer, View

_LIMIT = 1 << 32

_IN_PLACE: dict[str, FieldValue] = {"block": 0, "block_bytes": 0, "decoded_bytes": 0}
"""The fields of a stream whose constants are in no block."""


def write(
    plan: ExecutionPlan, selection: Selection | None = None, *, names: bool = True, weights: Weights | None = None
) -> bytes:
    """The plan as bytes that the C runtime reads in place.

    `names` keeps the names of steps and tensors, which only reports read. `selection` is the one that planning asked.
    `weights` says where constants are read; without it in place.
    Raises: DoesNotFit, where an offset exceeds 32 bits.
    """
    return _Writer(plan, selection or Selection(), names, weights or Weights()).write()


class _Table:
    """Records of one section, packed as they come; equal rows may be stored once."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows: list[bytes] = []
        self._index: dict[bytes, int] = {}

    def add(self, **values: FieldValue) -> int:
        self.rows.append(self.record.pack(values))
        return len(self.rows) - 1

    def intern(self, **values: FieldValue) -> int:
        data = self.record.pack(values)
        if data not in self._index:
            self._index[data] = len(self.rows)
            self.rows.append(data)
        return self._index[data]

    def extend(self, rows: Sequence[Mapping[str, FieldValue]]) -> int:
        """Index of the first of several rows in a row."""
        start = len(self.rows)
        self.rows.extend(self.record.pack(row) for row in rows)
        return start


@dataclass(frozen=True, slots=True)
class _Layer:
    """A step as it is written: the call, its results, and the schedule of its firings."""

    call: Call
    results: tuple[Value, ...]
    name: str
    step: Step | None = None


class _Writer:
    def __init__(self, plan: ExecutionPlan, selection: Selection, names: bool, weights: Weights) -> None:
        self.plan, self.selection, self.names_kept, self.weights = plan, selection, names, weights
        self.tables = {s.name: _Table(s.record) for s in f.SECTIONS if s.record is not None}
        self.constants = self.pool = ConstantPool()
        self.streams_written = 0
        self.params = bytearray()
        self.params_at: dict[bytes, int] = {}
        self.names = bytearray()
        self.names_at: dict[str, int] = {}
        self.dims_at: dict[tuple[int, ...], int] = {}
        self.regions = {region.name: index for index, region in enumerate(plan.memories)}
        self.moved: dict[int, View] = {}
        self.producers: dict[int, int] = {}

    def write(self) -> bytes:
        assert self.plan.memories, "a plan has at least one region"
        for region in self.plan.memories:
            size = self.plan.region_bytes(region.name) + self.reserved(region.name)
            self.tables["regions"].add(
                name=self.name(region.name),
                size_bytes=_checked(size, f"region {region.name}"),
                alignment=max(region.alignment, f.ALIGNMENT),
            )
        for value in self.plan.graph.inputs:
            if not is_callers(value):
                self.tensor(value)  # what the caller fills in comes first; what it gives by rows has a producer
        self.states()
        for stage in self.plan.stages:
            self.stage(stage)
        self.constant_outputs()
        self.ports("inputs", self.plan.graph.inputs, self.plan.graph.input_ports)
        self.ports("outputs", self.plan.graph.outputs, self.plan.graph.output_ports)
        return self.file()

    # Sections that hold plain bytes.

    def name(self, text: str) -> int:
        if text not in self.names_at:
            self.names_at[text] = len(self.names)
            self.names += text.replace("\0", " ").encode() + b"\0"
        return self.names_at[text]

    def optional_name(self, text: str) -> int:
        return self.name(text) if text and self.names_kept else f.NONE

    def packed_params(self, call: Call) -> int:
        data = pack_params(call, self.pool)
        if data not in self.params_at:
            self.params_at[data] = len(self.params)
            self.params += data
        return self.params_at[data]

    # Values.

    def dims(self, shape: tuple[int, ...]) -> int:
        if shape not in self.dims_at:
            self.dims_at[shape] = self.tables["dims"].extend([{"size": size} for size in shape])
        return self.dims_at[shape]

    def producer(self, value: Value) -> int:
        """The last step so far that wrote into a value; views have the producer of what they show."""
        if id(value) in self.producers:
            return self.producers[id(value)]
        node = value.producer
        if node is None:
            return f.EXTERNAL
        steps = [p for p in map(self.producer, node.inputs) if p != f.EXTERNAL]
        return max(steps, default=f.EXTERNAL)

    def tensor(self, value: Value) -> int:
        return self.tensor_at(value, self.moved.get(id(value)) or self.plan.view(value), self.producer(value))

    def tensor_at(self, value: Value, view: View, producer: int) -> int:
        _check_rows(value, view)
        buffer = self.plan.buffers[view.buffer]
        return self.tables["tensors"].intern(
            dtype=f.DTYPES[value.type.dtype],
            rank=value.type.rank,
            region=self.regions[buffer.region],
            dims=self.dims(value.type.shape),
            offset=_checked(buffer.offset + view.offset + self.reserved(buffer.region), value.name),
            depth=view.depth,
            producer=producer,
            name=self.optional_name(value.name),
        )

    def ports(self, section: str, values: Iterable[Value], ports: Iterable[Port]) -> None:
        for value, port in zip(values, ports, strict=True):
            quant = value.type.quant
            is_scaled = quant is not None and quant.is_per_tensor
            perm = port.perm or ()
            accepts = port.accepts if port.accepts is not None and value.type.dtype is I32 else f.ANYTHING
            self.tables[section].add(
                tensor=self.tensor(_kept(value)),
                name=self.name(port.name),
                scale=quant.scale if quant is not None and is_scaled else 0.0,
                zero_point=quant.zero_point if quant is not None and is_scaled else 0,
                lowest=accepts.lo,
                highest=accepts.hi,
                has_perm=int(port.perm is not None),
                perm=(*perm, *[0] * (f.MAX_RANK - len(perm))),
                by_rows=_by_rows(value),
            )

    def states(self) -> None:
        for state in self.plan.graph.states:
            initial, _ = self.constants.add(state.initial)
            self.tables["states"].add(tensor=self.tensor(state.read), initial=initial)

    # Steps.

    def stage(self, stage: Stage) -> None:
        first = len(self.tables["streams"].rows)
        self.moved = {}
        for load in stage.loads:
            self.transfer(load)
            self.moved[id(load.value)] = load.target
        for stream in stage.streams:
            self.stream(stream)
        for store in stage.stores:
            self.transfer(store)
        self.moved = {}
        self.tables["stages"].add(first_stream=first, stream_count=len(self.tables["streams"].rows) - first)

    def stream(self, stream: Stream) -> None:
        first = len(self.tables["steps"].rows)
        is_packed = self.streams_written in self.weights.packed_streams
        self.streams_written += 1
        self.pool = ConstantPool() if is_packed else self.constants
        for step in stream.steps:
            name = step.node.outputs[0].name
            call = self.selection.call(step.node)
            self.layer(_Layer(call, step.node.outputs if call.results else (), name, step))
        counters = f.NONE if stream.counters is None else self.offset_in_arena(stream.counters)
        block, block_bytes, decoded_bytes = self.block(is_packed)
        self.tables["streams"].add(
            first_step=first,
            step_count=len(stream.steps),
            counters=counters,
            block=block,
            block_bytes=block_bytes,
            decoded_bytes=decoded_bytes,
        )

    def block(self, is_packed: bool) -> tuple[int, int, int]:
        """The constants of the stream that was written last: offset and size of their block, and their own size."""
        decoded, self.pool = self.pool.bytes(), self.constants
        if not is_packed:
            return 0, 0, 0
        offset, size = self.constants.add(np.frombuffer(packed(decoded), np.uint8))
        return offset, size, len(decoded)

    def transfer(self, transfer: Transfer) -> None:
        """A copy is a stream of one step; the value lives at the target from then on."""
        value, index = transfer.value, len(self.tables["steps"].rows)
        call = copy_call(value)
        source = self.tensor_at(value, transfer.source, self.producer(value))
        target = self.tensor_at(value, transfer.target, index)
        self.step(_Layer(call, (value,), f"copy of {value.name}"), [source], [target])
        self.producers[id(value)] = index
        self.tables["streams"].add(first_step=index, step_count=1, counters=f.NONE, **_IN_PLACE)

    def constant_outputs(self) -> None:
        """Outputs that are constants are written by steps of their own, in a stage of their own."""
        constants = {id(v): v for v in self.plan.graph.outputs if v.data is not None}
        if not constants:
            return
        first = len(self.tables["streams"].rows)
        for value in constants.values():
            first_step = len(self.tables["steps"].rows)
            self.tables["streams"].add(first_step=first_step, step_count=1, counters=f.NONE, **_IN_PLACE)
            self.layer(_Layer(Call(CONSTANT, (), {"data": value.data}, images=1), (value,), value.name))
        self.tables["stages"].add(first_stream=first, stream_count=len(constants))

    def layer(self, layer: _Layer) -> None:
        index = len(self.tables["steps"].rows)
        inputs = [self.tensor(value) for value in layer.call.operands]
        for value in layer.results:
            self.producers[id(value)] = index
        outputs = [self.tensor(value) for value in layer.results]
        self.step(layer, inputs, outputs)

    def step(self, layer: _Layer, inputs: list[int], outputs: list[int]) -> None:
        call, step = layer.call, layer.step
        operands = self.tables["operands"].extend([{"tensor": index} for index in (*inputs, *outputs)])
        edges = self.edges(call, step)
        scratch = None if step is None or step.scratch is None else self.plan.buffers[step.scratch]
        assert scratch is None or self.regions[scratch.region] == 0, "scratch lives in the first region"
        self.tables["steps"].add(
            kernel=call.kernel.id,
            inputs=len(inputs),
            outputs=len(outputs),
            operands=operands,
            params=self.packed_params(call),
            scratch_offset=f.NONE if scratch is None else scratch.offset + self.weights.reserved_bytes,
            scratch_bytes=0 if scratch is None else scratch.size_bytes,
            images=images_of(call, layer.results),
            firings=1 if step is None else step.firings,
            rows=f.ALL_ROWS if step is None or step.rows is None else step.rows,
            edges=self.tables["edges"].extend(edges),
            edge_count=len(edges),
            flags=f.STEP_ACCUMULATES * call.accumulates | f.STEP_OVER_SUMS * call.over_sums,
            name=self.optional_name(layer.name),
        )

    def edges(self, call: Call, step: Step | None) -> list[dict[str, FieldValue]]:
        """Edges of the operands that the kernel reads; the plan counts the node's, the file the call's."""
        rows: list[dict[str, FieldValue]] = []
        if step is None:
            return rows
        for edge in step.edges:
            value = step.node.inputs[edge.operand]
            rows += [_edge(edge, index) for index, operand in enumerate(call.operands) if operand is value]
        return rows

    def offset_in_arena(self, index: int) -> int:
        buffer = self.plan.buffers[index]
        assert self.regions[buffer.region] == 0, f"{buffer.name} lives in the first region"
        return buffer.offset + self.weights.reserved_bytes

    def reserved(self, region: str) -> int:
        """Bytes at the start of a region that decoded blocks take."""
        return self.weights.reserved_bytes if self.regions[region] == 0 else 0

    def warm_region(self) -> int:
        """The index of the region that holds a copy of the constants, which is added."""
        if not self.weights.is_warm:
            return f.NONE
        size = len(self.constants.bytes())
        return self.tables["regions"].add(name=self.name(WARM), size_bytes=size, alignment=f.ALIGNMENT)

    # The file.

    def file(self) -> bytes:
        warm_region = self.warm_region()
        plain = {"params": bytes(self.params), "constants": self.constants.bytes(), "names": bytes(self.names)}
        data = bytearray(f.HEADER.size_bytes)
        places: dict[str, FieldValue] = {}
        for section in f.SECTIONS:
            body = plain[section.name] if section.record is None else b"".join(self.tables[section.name].rows)
            data += bytes(align(len(data), f.ALIGNMENT) - len(data))
            places[section.name] = (len(data), len(body) // section.item_bytes)
            data += body
        data += bytes(align(len(data), f.ALIGNMENT) - len(data))
        header: dict[str, FieldValue] = {
            "magic": f.MAGIC, "version": f.VERSION, "flags": 0, "size_bytes": _checked(len(data), "the plan"),
            "checksum": 0, "reserved_bytes": self.weights.reserved_bytes, "warm_region": warm_region, **places,
        }  # fmt: skip
        data[: f.HEADER.size_bytes] = f.HEADER.pack(header)
        return seal(bytes(data))


def seal(data: bytes) -> bytes:
    """The file with the right checksum."""
    at = f.HEADER.offset_of("checksum")
    body = data[:at] + bytes(4) + data[at + 4 :]
    return body[:at] + zlib.crc32(body).to_bytes(4, "little") + body[at + 4 :]


def _checked(size: int, what: str) -> int:
    if not 0 <= size < _LIMIT:
        raise DoesNotFit(f"{what} needs {size} bytes; a plan counts them in 32 bits")
    return size


def _kept(value: Value) -> Value:
    """The value in the plan's memory through which the rows of the caller's go."""
    if not is_callers(value):
        return value
    if value.producer is not None:
        return value.producer.inputs[0]
    return next(use.node.output for use in value.uses if isinstance(use.node.op, Receive))


def _by_rows(value: Value) -> int:
    """How a port goes between plan and caller: whole, by rows, or in chunks."""
    if not is_callers(value):
        return 0
    return f.BY_ROWS if value.type.rank == 4 else f.BY_CHUNKS


def _edge(edge: Edge, operand: int) -> dict[str, FieldValue]:
    return {
        "operand": operand, "source": f.NO_SOURCE if edge.source is None else edge.source, "stride": edge.stride,
        "before": edge.before, "taps": edge.taps, "dilation": edge.dilation, "divisor": edge.divisor,
        "column": edge.column, "width": edge.width, "clamped": int(edge.clamped),
    }  # fmt: skip


def _check_rows(value: Value, view: View) -> None:
    """A tensor's rows follow from its shape; the plan must agree."""
    type_ = value.type
    rows = type_.shape[1] if type_.rank == 4 else 1
    batch = type_.shape[0] if type_.rank == 4 else 1
    row_bytes = type_.size_bytes // max(rows * batch, 1)
    assert (view.height, view.row_bytes) == (rows, row_bytes), f"{value!r} has {rows} rows of {row_bytes}, not {view}"


__all__ = ["seal", "write"]
