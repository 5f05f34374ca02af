"""Every check of the loader, as a plan that only this check refuses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
from patches import Body, Options, Patch, patched, rebuilt
from plans import QUANT, lookup_node, lookups, sequential, streamed

from int8_networks import Builder
from trivet.backends.plan import format as f
from trivet.backends.plan.kernels.exact import MATMUL_I32
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.weights import Weights
from trivet.backends.plan.writer import write
from trivet.core.dtype import I8, I32
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics, Overflow
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Port
from trivet.ir.types import TensorType
from trivet.ops import movement as m
from trivet.ops.border import Receive, Send
from trivet.ops.conv import Conv2D
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul
from trivet.ops.resize import ResizeBilinear, ResizeNearest
from trivet.passes.border_rows import BorderRows
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import ExecutionPlan, Region
from trivet.planning.planner import plan

NONE = f.NONE


@dataclass(frozen=True)
class Case:
    title: str
    plan: str
    status: str
    patches: tuple[Patch, ...]
    bodies: Mapping[str, Body] = field(default_factory=dict)

    def data(self) -> bytes:
        return patched(rebuilt(base(self.plan), self.bodies), *self.patches)


@cache
def base(name: str) -> bytes:
    """A plan that the loader accepts."""
    match name:
        case "layers" | "batch":  # x -> y0 -> y1, 72 bytes each at 0, 80, 160, or the same with two images
            return write(sequential(lookups() if name == "layers" else lookups((2, 6, 4, 3))))
        case "states":
            return write(sequential(two_states()))
        case "stream":  # conv0 -> conv1 -> y, conv0 in a ring of 3 rows, conv1 in one of 1
            return write(streamed(convolutions(), {"conv0": 3, "conv1": 1}))
        case "conv":
            return write(sequential(convolutions()))
        case "packed" | "warm":  # "conv" with its constants in blocks, or in a copy
            where = {"packed": Weights(frozenset({0, 1}), 8192), "warm": Weights(is_warm=True)}
            return write(sequential(convolutions()), weights=where[name])
        case "rows":  # "layers" whose first step makes one row after the other
            return rebuilt(patched(base("layers"), *ROW_BY_ROW), {"edges": lambda _: f.EDGE.pack(POINTWISE)})
        case "long":  # a stream of 40 steps
            return write(streamed(lookups(count=40), {}))
        case "endless":  # a stream of more steps than there may be
            return write(streamed(lookups(count=f.MAX_STREAM_STEPS + 1), {}))
        case "exact" | "product":  # y = x + x, where x accepts [-3, 5]; or y = x @ w + b
            return write(sequential(exact_sum() if name == "exact" else exact_product()))
    return write(OTHERS[name]())


POINTWISE: Options = {
    "operand": 0, "source": f.NO_SOURCE, "stride": 1, "before": 0, "taps": 1, "dilation": 1, "divisor": 1, "column": 0,
    "width": 0, "clamped": 0,
}  # fmt: skip
ROW_BY_ROW: tuple[Patch, ...] = (
    ("steps", 0, "firings", 6), ("steps", 0, "rows", 1), ("steps", 0, "edge_count", 1), ("streams", 0, "counters", 228),
)  # fmt: skip
OTHER_HEIGHT: Mapping[str, Body] = {
    "dims": lambda b: b + struct.pack("<4I", 1, 3, 8, 3),
    "tensors": lambda b: b + b[f.TENSOR.size_bytes : 2 * f.TENSOR.size_bytes],
}
"""One more shape of as many elements, and one more tensor in the place of tensor 1."""
ONE_STREAM = f.STREAM.pack(
    {"first_step": 0, "step_count": 2, "counters": 0, "block": 0, "block_bytes": 0, "decoded_bytes": 0}
)


def convolutions(batch: int = 1, height: int = 9) -> Graph:
    """3x3 stride 1, then 3x3 stride 2, both padded, then a table."""
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (batch, height, 5, 3), QUANT))
    for index, stride in enumerate((1, 2)):
        rng = np.random.default_rng(index)
        weights = rng.integers(-127, 128, (4, 3, 3, x.type.shape[3])).astype(np.int8)
        w = graph.constant(weights, TensorType(I8, weights.shape, Quant.per_tensor(0.01, 0)))
        op = Conv2D(stride=(stride, stride), pads=((1, 1), (1, 1)), out=QUANT, numerics=Numerics.TFLM)
        x = graph.emit(op, x, w, name=f"conv{index}")
    graph.add_output(lookup_node(graph, x, "y"))
    return graph


def border() -> Graph:
    """receive -> table -> send, six rows."""
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (1, 6, 4, 3), QUANT))
    y = lookup_node(graph, graph.emit(Receive(0), x, name="x_rows"), "y")
    graph.add_output(graph.emit(Send(0), y, name="sent"))
    return graph


def sent_twice() -> Graph:
    """What is received is sent as two outputs."""
    graph = Graph()
    rows = graph.emit(Receive(0), graph.add_input("x", TensorType(I8, (1, 6, 4, 3), QUANT)), name="x_rows")
    for port in range(2):
        graph.add_output(graph.emit(Send(port), rows, name=f"sent{port}"))
    return graph


def two_memories() -> ExecutionPlan:
    """Slow x -> copy -> table -> copy -> slow output, 72 bytes each."""
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (1, 6, 4, 3), QUANT))
    y = lookup_node(graph, graph.emit(m.Copy(), x, name="loaded"), "y")
    graph.add_output(graph.emit(m.Copy(), y, name="stored"))
    made = sequential(graph)
    slow = {made.view(x).buffer: 0, made.view(graph.outputs[0]).buffer: 80}
    buffers = [replace(b, region="slow", offset=slow[i]) if i in slow else b for i, b in enumerate(made.buffers)]
    return replace(made, buffers=tuple(buffers), regions=(*made.regions, Region("slow", None, is_fast=False)))


@cache
def chunks() -> ExecutionPlan:
    """32 features in chunks of 8 -> 8 sums, with the result over them -> 32 features in chunks."""
    b = Builder()
    graph = b.finish(b.dense(b.dense(b.input(1, 32), 8), 32))
    BorderRows(True, True).run(graph)
    return plan(graph, None, None, Selection(), PlanOptions(Objective.MEMORY))


@cache
def mean_of_rows() -> ExecutionPlan:
    """A layer and the mean of its rows, which keeps sums."""
    b = Builder()
    graph = b.finish(b.mean(b.conv(b.input(1, 8, 4, 4), 4)))
    return plan(graph, None, None, Selection(), PlanOptions(Objective.MEMORY))


OTHERS: Mapping[str, Callable[[], ExecutionPlan]] = {
    "constant": lambda: sequential(constant_output()),
    "movement": lambda: sequential(movements()),
    "border": lambda: streamed(border(), {"x_rows": 3, "y": 1}),
    "two memories": two_memories,
    "sent twice": lambda: streamed(sent_twice(), {}),
    "chunks": chunks,
    "mean": mean_of_rows,
}


def two_states() -> Graph:
    """Two states of four bytes; the input has a permutation."""
    graph = Graph()
    type_ = TensorType(I8, (1, 2, 2, 1), QUANT)
    x = graph.add_input("x", type_, Port("x", TensorType(I8, (1, 1, 2, 2), QUANT), (0, 3, 1, 2)))
    for index in range(2):
        state = graph.add_state(f"s{index}", type_, np.full(type_.shape, index, np.int8))
        graph.set_state(state, lookup_node(graph, state, f"n{index}", index))
    graph.add_output(lookup_node(graph, x, "y", 3))
    return graph


def constant_output() -> Graph:
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (4,), QUANT))
    graph.add_output(lookup_node(graph, x, "y"))
    graph.add_output(graph.constant(np.arange(32, dtype=np.int8), TensorType(I8, (32,))))
    return graph


def exact_sum() -> Graph:
    graph = Graph()
    type_ = TensorType(I32, (2, 3))
    x = graph.add_input("x", type_, Port("x", type_, accepts=Interval(-3, 5)))
    graph.add_output(graph.emit(Add(overflow=Overflow.EXACT), x, x, name="y"))
    return graph


def exact_product() -> Graph:
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (2, 3)))
    w = graph.constant(np.arange(12, dtype=np.int8).reshape(3, 4), TensorType(I8, (3, 4)))
    b = graph.constant(np.arange(4, dtype=np.int32), TensorType(I32, (4,)))
    graph.add_output(graph.emit(MatMul(bias=True), x, w, b, name="y"))
    return graph


def movements() -> Graph:
    """Every kernel that moves int8 elements, with tables among the constants; the last one's indices are an input."""
    graph = Graph()
    x = graph.add_input("x", TensorType(I8, (1, 4, 4, 4), QUANT))
    tokens = graph.add_input("tokens", TensorType(I32, (3,)))
    part = graph.constant(np.arange(36, dtype=np.int8).reshape(1, 4, 3, 3), TensorType(I8, (1, 4, 3, 3), QUANT))
    x = graph.emit(m.Pad((0, 1, 1, 0), (0, 1, 1, 0), 0, m.PadMode.REFLECT), x)
    x = graph.emit(m.Pad((0, 0, 1, 0), (0, 1, 0, 0), 7), x)
    x = graph.emit(m.Slice((0, 5, 0, 0), (1, 3, 3, 4), (1, -2, 2, 1)), x)
    x = graph.emit(m.Transpose((0, 3, 1, 2)), x)
    x = graph.emit(m.Concat(3), x, part)
    x = graph.emit(m.Concat(1), x, x)
    x = graph.emit(ResizeNearest((5, 4)), x)
    x = graph.emit(ResizeBilinear((7, 5), numerics=Numerics.TFLM), x)
    x = graph.emit(ResizeBilinear((3, 4), numerics=Numerics.ONNX), x)
    x = graph.emit(m.Gather(3), x, graph.constant(np.array([0, 5, 2], np.int32), TensorType(I32, (3,))))
    graph.add_output(graph.emit(m.Gather(2), x, tokens))
    return graph


def cases() -> Iterator[Case]:
    for base_plan, status, rows in (
        ("layers", "", HEADER), ("layers", "", REGIONS), ("layers", "ERR_TENSOR", TENSORS), ("states", "", PORTS),
        ("layers", "ERR_STEP", STEPS), ("layers", "", KERNELS), ("stream", "ERR_STREAM", EDGES),
        ("layers", "ERR_STREAM", STREAMS), ("border", "ERR_PORT", BORDER),
        ("two memories", "", TWO_MEMORIES),
    ):  # fmt: skip
        for title, options, *patches in rows:
            bodies = options.get("bodies", {})
            yield Case(title, options.get("plan", base_plan), options.get("status", status), tuple(patches), bodies)


HEADER = [
    ("not the magic number", {"status": "ERR_MAGIC"}, ("header", 0, "magic", 1)),
    ("the magic number of the other endianness", {"status": "ERR_ENDIAN"},
     ("header", 0, "magic", int.from_bytes(b"TGRS", "big"))),
    ("another version", {"status": "ERR_VERSION"}, ("header", 0, "version", f.VERSION + 1)),
    ("unknown flags", {"status": "ERR_VERSION"}, ("header", 0, "flags", 1)),
    ("shorter than it says", {"status": "ERR_TRUNCATED"}, ("header", 0, "size_bytes", lambda n: n + 16)),
    *((f"section {s.name} after a gap", {"status": "ERR_SECTION"}, ("header", 0, f"{s.name}:0", lambda n: n + 16))
      for s in f.SECTIONS),
    *((f"section {s.name} over the one before", {"status": "ERR_SECTION"},
       ("header", 0, f"{s.name}:0", lambda n: n - 16)) for s in f.SECTIONS),
    *((f"section {s.name} behind the end", {"status": "ERR_SECTION"}, ("header", 0, f"{s.name}:1", lambda n: n + 99999))
      for s in f.SECTIONS),
    ("section whose size overflows 32 bits", {"status": "ERR_SECTION"},
     ("header", 0, "tensors:1", lambda n: n + (1 << 32) // 8)),
    ("bytes that belong to no section", {"status": "ERR_SECTION", "bodies": {"names": lambda b: b + bytes(16)}},
     ("header", 0, "names:1", 13)),
]  # fmt: skip

BORDER = [
    ("rows of a port that is no flag", {}, ("inputs", 0, "by_rows", 3)),
    ("chunks of an image", {}, ("inputs", 0, "by_rows", 2)),
    ("chunks in another order of axes", {"plan": "chunks"}, ("inputs", 0, "has_perm", 1), ("inputs", 0, "perm:1", 1),
     ("inputs", 0, "perm:2", 2), ("inputs", 0, "perm:3", 3)),
    ("rows through a tensor that is not there", {}, ("inputs", 0, "tensor", 99)),
    ("rows that nobody receives", {"plan": "layers"}, ("inputs", 0, "by_rows", 1)),
    ("rows that nobody sends", {"plan": "layers"}, ("outputs", 0, "by_rows", 1)),
    ("rows of a port that is not there", {"bodies": {"params": lambda b: b + struct.pack("<I", 7)}},
     ("steps", 0, "params", 12)),
    ("rows of a port that does not go by rows", {"plan": "sent twice"}, ("outputs", 0, "by_rows", 0)),
    ("rows through another tensor", {}, ("inputs", 0, "tensor", 1)),
    ("fewer rows than are sent", {}, ("steps", 2, "firings", 5)),
    ("rows that are sent twice", {"plan": "sent twice"}, ("steps", 2, "params", 0), ("outputs", 1, "by_rows", 0)),
    ("a table that receives", {"status": "ERR_PARAMS"}, ("steps", 1, "kernel", f.RECEIVE_KERNEL)),
    ("a receiver that sends", {"status": "ERR_PARAMS"}, ("steps", 0, "kernel", f.SEND_KERNEL)),
    ("a sender that receives", {"status": "ERR_STEP"}, ("steps", 2, "kernel", f.RECEIVE_KERNEL)),
]  # fmt: skip

REGIONS = [
    ("names that do not end", {"status": "ERR_NAME", "bodies": {"names": lambda b: b[:-1] + b"x"}}),
    ("no region", {"status": "ERR_REGION", "bodies": {"regions": lambda b: b""}}),
    ("more regions than there may be", {"status": "ERR_REGION", "bodies": {"regions": lambda b: b * 5}}),
    ("alignment below 16", {"status": "ERR_REGION"}, ("regions", 0, "alignment", 8)),
    ("alignment no power of two", {"status": "ERR_REGION"}, ("regions", 0, "alignment", 48)),
    ("name of a region outside", {"status": "ERR_NAME"}, ("regions", 0, "name", 9999)),
    ("name of a tensor outside", {"status": "ERR_NAME"}, ("tensors", 0, "name", 9999)),
    ("name of a step outside", {"status": "ERR_NAME"}, ("steps", 0, "name", 9999)),
    ("name of an input outside", {"status": "ERR_NAME"}, ("inputs", 0, "name", 9999)),
    ("name of an output outside", {"status": "ERR_NAME"}, ("outputs", 0, "name", 9999)),
]  # fmt: skip


def _first_region(regions: bytes) -> bytes:
    return regions[: f.REGION.size_bytes]


TWO_MEMORIES = [
    ("a second memory that is too small", {"status": "ERR_TENSOR"}, ("regions", 1, "size_bytes", 100)),
    ("a tensor behind the end of the second memory", {"status": "ERR_TENSOR"}, ("tensors", 3, "offset", 96)),
    ("a second memory that is not there", {"status": "ERR_TENSOR", "bodies": {"regions": _first_region}}),
    ("one offset in two memories", {"status": "OK"}, ("tensors", 3, "offset", 160), ("regions", 1, "size_bytes", 240)),
    ("a copy to the place partly over its source", {"status": "ERR_STEP"}, ("tensors", 1, "region", 1),
     ("tensors", 1, "offset", 8)),
    ("a copy of longer rows", {"status": "ERR_PARAMS", "bodies": {"params": lambda b: struct.pack("<I", 13) + b[4:]}}),
    ("a copy to other rows", {"status": "ERR_PARAMS", "bodies": OTHER_HEIGHT}, ("operands", 1, "tensor", 4),
     ("tensors", 4, "dims", 4), ("tensors", 4, "depth", 3)),
    ("a copy that adds up", {"status": "ERR_PARAMS"}, ("steps", 0, "flags", 1), ("steps", 0, "rows", 6)),
]  # fmt: skip

ROOMY: Patch = ("regions", 0, "size_bytes", 1 << 20)

TENSORS = [
    ("no element type", {}, ("tensors", 0, "dtype", 0)),
    ("unknown element type", {}, ("tensors", 0, "dtype", 13)),
    ("no element type of a scalar", {}, ("tensors", 0, "dtype", 0), ("tensors", 0, "rank", 0),
     ("tensors", 0, "depth", 1)),
    ("rank too large", {"bodies": {"dims": lambda b: b + struct.pack("<9I", *[1] * 9)}}, ("tensors", 0, "rank", 9),
     ("tensors", 0, "dims", 4), ("tensors", 0, "depth", 1)),
    ("more dims than there are", {}, ("tensors", 0, "rank", 5), ("tensors", 0, "depth", 1), ROOMY),
    ("dims outside", {}, ("tensors", 0, "dims", 1)),
    ("dims index that overflows", {}, ("tensors", 0, "dims", 0xFFFFFFFC)),
    ("an extent of 0", {}, ("dims", 3, "size", 0)),
    ("a size that overflows", {}, ("dims", 2, "size", 1 << 30), ("dims", 3, "size", 1 << 30)),
    ("a size that overflows to a small one", {}, ("dims", 2, "size", 1 << 16), ("dims", 3, "size", 1 << 16)),
    ("unknown region", {}, ("tensors", 0, "region", 5)),  # the bytes there look like a region of 80 bytes
    ("depth 0", {}, ("tensors", 0, "depth", 0)),
    ("depth above the height", {}, ("tensors", 0, "depth", 7)),
    ("offset behind the region", {}, ("tensors", 0, "offset", 100000)),
    ("end behind the region", {}, ("tensors", 2, "offset", lambda n: n + 16)),
    ("end that overflows", {}, ("tensors", 0, "offset", 0xFFFFFFF0)),
    ("misaligned for its type", {}, ("tensors", 0, "dtype", 3), ("tensors", 0, "offset", 1)),
    ("producer that is no step", {"status": "ERR_INDEX"}, ("tensors", 1, "producer", 2)),
]  # fmt: skip

PORTS = [
    ("input that is no tensor", {"status": "ERR_PORT"}, ("inputs", 0, "tensor", 99)),
    ("output that is no tensor", {"status": "ERR_PORT"}, ("outputs", 0, "tensor", 99)),
    ("output right behind the tensors", {"status": "ERR_PORT", "plan": "layers"}, ("outputs", 0, "tensor", 3)),
    ("input that a step makes", {"status": "ERR_PORT", "plan": "layers"}, ("inputs", 0, "tensor", 1)),
    ("output in a ring", {"status": "ERR_PORT", "plan": "stream"}, ("outputs", 0, "tensor", 1)),
    ("order of axes with an axis outside", {"status": "ERR_PORT"}, ("inputs", 0, "perm:0", 4)),
    ("order of axes with an axis twice", {"status": "ERR_PORT"}, ("inputs", 0, "perm:0", 1)),
    ("flag that is neither 0 nor 1", {"status": "ERR_PORT"}, ("inputs", 0, "has_perm", 2)),
    ("range of an int8 input", {"status": "ERR_PORT"}, ("inputs", 0, "lowest", -1)),
    ("range of an output", {"status": "ERR_PORT", "plan": "exact"}, ("outputs", 0, "highest", 7)),
    ("input that accepts nothing", {"status": "ERR_PORT", "plan": "exact"}, ("inputs", 0, "lowest", 6)),
    ("input that accepts one value, which zeros are not", {"status": "ERR_RANGE", "plan": "exact"},
     ("inputs", 0, "lowest", 5)),
    ("state that is no tensor", {"status": "ERR_STATE"}, ("states", 0, "tensor", 99)),
    ("state in a ring", {"status": "ERR_STATE"}, ("tensors", 1, "depth", 1)),
    ("a state below the one before", {"status": "OK"}, *((("tensors", i, "offset", 16 * (2 if i in (1, 6) else 1)))
                                                         for i in (1, 2, 6, 7))),
    ("states at one offset of two regions", {"status": "OK", "bodies": {"regions": lambda b: b * 2}},
     *(("tensors", i, "offset", 16) for i in (1, 2, 6, 7)), *(("tensors", i, "region", 1) for i in (2, 7))),
    ("state that a step makes", {"status": "ERR_STATE"}, ("states", 0, "tensor", 3)),
    ("initial values behind the constants", {"status": "ERR_STATE"}, ("states", 0, "initial", 99999)),
    ("initial values that end behind the constants", {"status": "ERR_STATE"}, ("states", 0, "initial", 797)),
    ("the same state twice", {"status": "ERR_STATE"}, ("states", 1, "tensor", 1)),
    ("states that overlap", {"status": "ERR_STATE"}, ("tensors", 2, "offset", lambda n: n - 13)),
]  # fmt: skip

TWO_RESULTS: tuple[Patch, ...] = (
    ("steps", 0, "outputs", 2), ("operands", 2, "tensor", 2), ("tensors", 2, "producer", 0), ("tensors", 2, "rank", 3),
    ("tensors", 2, "depth", 1),
)  # fmt: skip
"""The second has one row."""


def work_space(offset: int, size: int) -> tuple[Patch, ...]:
    return ("steps", 0, "scratch_offset", offset), ("steps", 0, "scratch_bytes", size)


STEPS = [
    ("no result", {}, ("steps", 0, "inputs", 2), ("steps", 0, "outputs", 0)),
    ("too many operands", {"bodies": {"operands": lambda _: struct.pack("<35I", *[0] * 32, 1, 1, 2)}},
     ("steps", 0, "inputs", 32), ("steps", 1, "operands", 33)),
    ("no image", {}, ("steps", 0, "images", 0)),
    ("operands outside", {}, ("steps", 0, "operands", 3)),
    ("operands whose index overflows", {}, ("steps", 0, "operands", 0xFFFFFFFE)),
    ("operand that is no tensor", {}, ("operands", 0, "tensor", 99)),
    ("result that is no tensor", {}, ("operands", 1, "tensor", 99)),
    ("more images than the operand has", {}, ("steps", 0, "images", 2)),
    ("fewer images than the batch", {"plan": "batch"}, ("steps", 0, "images", 3)),
    ("a batch taken as one in a ring", {"plan": "batch"}, ("steps", 0, "images", 1), ("tensors", 1, "depth", 3)),
    ("no firing", {}, ("steps", 0, "firings", 0)),
    ("a result over sums without sums", {}, ("steps", 0, "flags", f.STEP_OVER_SUMS)),
    ("a flag of steps that is none", {"plan": "chunks"}, ("steps", 1, "flags", 4)),
    ("a result over its sums of a kernel that writes while it reads them", {"plan": "mean"}, ("steps", 1, "flags", 3)),
    ("a result over its sums from after their start", {"plan": "chunks"}, ("tensors", 1, "offset", 8), ROOMY),
    ("no rows", {}, ("steps", 0, "rows", 0)),
    ("unknown flag", {}, ("steps", 0, "flags", 2)),
    ("firings behind the last row", {}, ("steps", 0, "firings", 2), ("steps", 0, "rows", 6)),
    ("firings whose rows overflow", {}, ("steps", 0, "firings", 0x10001), ("steps", 0, "rows", 0x10000)),
    ("sums that miss the last row", {}, ("steps", 0, "flags", 1), ("steps", 0, "firings", 5), ("steps", 0, "rows", 1)),
    ("sums of nothing", {}, ("steps", 0, "flags", 1), ("steps", 0, "inputs", 0), ("steps", 0, "operands", 1)),
    ("rows of results with different heights", {}, *TWO_RESULTS, ("steps", 0, "firings", 2), ("steps", 0, "rows", 3)),
    ("part of results with different heights", {}, *TWO_RESULTS, ("steps", 0, "rows", 3)),
    ("work space of no bytes", {}, ("steps", 0, "scratch_offset", 0)),
    ("work space nowhere", {}, ("steps", 0, "scratch_bytes", 16)),
    ("work space misaligned", {}, *work_space(1000, 16), ROOMY),
    ("work space behind the arena", {}, *work_space(240, 16)),
    ("work space larger than the arena", {}, *work_space(240, 99999)),
    ("work space over an operand", {}, *work_space(0, 16)),
    ("work space over a result", {}, *work_space(80, 16)),
    ("result partly over its operand", {}, ("tensors", 1, "offset", 64)),
    ("results that overlap", {}, ("steps", 0, "inputs", 0), ("steps", 0, "outputs", 2), ("tensors", 1, "offset", 64)),
    ("operand that is made later", {"status": "ERR_ORDER"}, ("operands", 0, "tensor", 2)),
    ("operand that the step makes itself", {"status": "ERR_ORDER"}, ("operands", 0, "tensor", 1)),
    ("result that is an input", {"status": "ERR_ORDER"}, ("operands", 1, "tensor", 0), ("operands", 0, "tensor", 0)),
    ("result of another step", {"status": "ERR_ORDER"}, ("tensors", 1, "producer", 1), ("operands", 2, "tensor", 0)),
]  # fmt: skip


def _resized(blob: str, change: int, params: bytes) -> bytes:
    """Parameters of a product with another size of one of its constants."""
    at = MATMUL_I32.params.offset_of(blob) + 4
    return params[:at] + struct.pack("<I", int.from_bytes(params[at : at + 4], "little") + change) + params[at + 4 :]


KERNELS = [
    ("kernel 0", {"status": "ERR_KERNEL"}, ("steps", 0, "kernel", 0)),
    ("kernel behind the last", {"status": "ERR_KERNEL"}, ("steps", 0, "kernel", 0xFFFF)),
    ("parameters misaligned", {"status": "ERR_PARAMS", "bodies": {"params": lambda b: bytes(2) + b}},
     ("steps", 0, "params", 2), ("steps", 1, "params", 10)),
    ("parameters outside", {"status": "ERR_PARAMS"}, ("steps", 0, "params", 12)),
    ("parameters whose end overflows", {"status": "ERR_PARAMS"}, ("steps", 0, "params", 0xFFFFFFFC)),
    ("parameters that the kernel refuses", {"status": "ERR_PARAMS"}, ("steps", 0, "kernel", 3)),
    ("constant misaligned", {"status": "ERR_PARAMS", "bodies": {"params": lambda b: b"\x08" + b[1:]}}),
    ("constant behind the end", {"status": "ERR_PARAMS", "bodies": {"params": lambda b: b"\0\xF0" + b[2:]}}),
    ("constant whose end overflows", {"status": "ERR_PARAMS", "bodies": {"params": lambda b: b"\xF0" * 4 + b[4:]}}),
    *((f"a constant {blob} of a product that is {change:+} bytes", {"status": "ERR_PARAMS", "plan": "product",
       "bodies": {"params": partial(_resized, blob, change)}}) for blob in ("b", "bias") for change in (-1, 1, -4)),
    ("rows from a kernel that makes all at once", {"status": "ERR_STEP", "plan": "movement"}, ("steps", 3, "rows", 1)),
    ("a ring from a kernel that makes all at once", {"status": "ERR_STEP", "plan": "movement"},
     ("tensors", 5, "depth", 1)),
    ("sums from a kernel that makes all at once", {"status": "ERR_STEP", "plan": "movement"}, ("steps", 3, "flags", 1)),
]  # fmt: skip

HUGE: tuple[Patch, ...] = (
    ("dims", 1, "size", 1 << 23), ("dims", 2, "size", 1), ("dims", 3, "size", 1), ("regions", 0, "size_bytes", 1 << 30),
    *(("tensors", i, "depth", 1 << 23) for i in range(3)),
)  # fmt: skip
"""Tensors of many rows."""

EDGES = [
    ("edges outside", {"status": "ERR_INDEX"}, ("steps", 0, "edges", 99)),
    ("edge of no operand", {}, ("edges", 0, "operand", 1)),
    ("stride too large", {}, ("edges", 0, "stride", f.MAX_WINDOW + 1)),
    ("no taps", {}, ("edges", 0, "taps", 0)),
    ("too many taps", {}, ("edges", 0, "taps", f.MAX_WINDOW + 1)),
    ("dilation 0", {}, ("edges", 0, "dilation", 0)),
    ("dilation too large", {"plan": "long"}, *HUGE, *(("tensors", i, "depth", 1 << 23) for i in range(41)),
     ("edges", 0, "dilation", f.MAX_WINDOW + 1)),
    ("dilation with long gaps", {}, ("edges", 0, "dilation", f.MAX_GAP + 1)),
    ("divisor 0", {}, ("edges", 0, "divisor", 0)),
    ("divisor too large", {}, ("edges", 0, "divisor", f.MAX_WINDOW + 1)),
    ("clamped that is neither 0 nor 1", {}, ("edges", 0, "clamped", 2)),
    ("columns", {}, ("edges", 0, "column", 1)),
    ("widths", {}, ("edges", 0, "width", 1)),
    ("source that comes later", {}, ("edges", 1, "source", 1)),
    ("source in a later stream", {"plan": "rows"}, ("edges", 0, "source", 1), ("operands", 0, "tensor", 2)),
    ("source that is the step itself", {"plan": "long"}, ("edges", 1, "source", 1), ("operands", 2, "tensor", 2)),
    ("source that does not make the operand", {}, ("edges", 2, "source", 0)),
    ("operand of the stream without an edge", {"status": "ERR_ORDER"}, ("steps", 2, "edge_count", 0)),
    ("operand of the stream that has no source", {"status": "ERR_ORDER"}, ("edges", 1, "source", f.NO_SOURCE)),
    ("ring from outside of the stream", {"status": "ERR_ORDER", "plan": "layers"},
     ("tensors", 1, "depth", 5)),
    ("no counters", {}, ("streams", 0, "counters", NONE)),
    ("no counters for several steps", {"plan": "long"}, ("streams", 0, "counters", NONE), ("steps", 0, "firings", 1)),
    ("counters misaligned", {}, ("streams", 0, "counters", lambda n: n + 2), ROOMY),
    ("counters behind the arena", {}, ("streams", 0, "counters", lambda n: n + 8)),
    ("rows that never come", {}, ("edges", 1, "taps", 99), ("edges", 1, "before", 0)),
    ("a ring that is too shallow", {}, ("tensors", 1, "depth", 2)),
    ("steps with different batches", {"plan": "batch", "bodies": {"streams": lambda _: ONE_STREAM}},
     ("steps", 1, "images", 1)),
    ("source of another height", {"plan": "long", "bodies": OTHER_HEIGHT}, ("operands", 2, "tensor", 41),
     ("tensors", 41, "dims", 4), ("tensors", 41, "depth", 3), ("tensors", 41, "producer", 0),
     ("tensors", 2, "dims", 4), ("tensors", 2, "depth", 3), ("steps", 1, "firings", 3)),
    ("result partly over the row that is read", {"plan": "rows"}, ("tensors", 1, "offset", 8)),
    ("result over a row that is read later", {"plan": "rows"}, ("tensors", 1, "offset", 0), ("edges", 0, "taps", 2)),
    ("too many firings", {"plan": "layers", "status": "ERR_LIMIT"}, *HUGE, ("steps", 0, "firings", f.MAX_FIRINGS + 1),
     ("steps", 0, "rows", 1), ("streams", 0, "counters", 0)),
    ("steps times firings too many", {"plan": "long", "status": "ERR_LIMIT"}, *HUGE,
     *(("tensors", i, "depth", 1 << 23) for i in range(41)), *(("steps", i, "firings", 100_000) for i in range(40))),
    ("too many steps", {"plan": "endless"}),
]  # fmt: skip

STREAMS = [
    ("a stream of no steps", {"bodies": {"streams": lambda b: b + struct.pack("<6I", 2, 0, 0, 0, 0, 0)}},
     ("stages", 0, "stream_count", 3)),
    ("a step left out", {}, ("streams", 1, "first_step", 2)),
    ("a step in two streams", {}, ("streams", 1, "first_step", 0)),
    ("steps behind the last", {}, ("streams", 1, "step_count", 2)),
    ("steps that no stream runs", {}, ("header", 0, "steps:1", 2), ("streams", 1, "step_count", 0)),
    ("stages with a gap", {"status": "ERR_INDEX"}, ("stages", 0, "first_stream", 1)),
    ("streams that no stage runs", {"status": "ERR_INDEX"}, ("stages", 0, "stream_count", 1)),
    ("one firing of several without counters", {}, ("steps", 0, "firings", 2), ("steps", 0, "rows", 3)),
]  # fmt: skip
