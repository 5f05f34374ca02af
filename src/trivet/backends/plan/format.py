"""The `.tgrs` format, declared once: writer, reader, the C header and the docs table derive from these records.

A plan is one block of bytes, little endian, read in place: the header, then sections that start at multiples of 16.
Tensors name their place by region and offset, and a tensor's rows follow from its shape: rank 4 has `shape[1]` rows
of `shape[2] * shape[3]` elements, every other rank is one row.
"""

from __future__ import annotations

from trivet.backends.records import F32, I32, SECTION, U8, U16, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.interval import Interval
from trivet.core.record import dataclass

MAGIC = int.from_bytes(b"TGRS", "little")
VERSION = 3
ALIGNMENT = 16
"""Sections and constants start at multiples of this many bytes from the start of the file."""

NONE = 0xFFFFFFFF
"""An index or offset that is absent."""
ALL_ROWS = 0xFFFFFFFF
"""`rows` of a step whose one firing makes everything."""
EXTERNAL = 0xFFFFFFFF
"""`producer` of a tensor that is there before the first step: an input or a state."""

MAX_RANK = 8
MAX_OPERANDS = 32
MAX_REGIONS = 4
MAX_STREAM_STEPS = 1024
MAX_WINDOW = 1 << 20
"""Largest stride, taps, dilation and divisor of an edge: products stay in 64 bits."""
MAX_GAP = 256
"""Largest dilation of an edge whose operand has fewer rows than that."""
MAX_FIRINGS = 1 << 22
"""Kernel calls of one run of a plan, images left out: bounds the time of the loader's proof."""
MAX_SWEEP = 1 << 26
"""Steps times firings of one stream: bounds the time of the loader's proof."""

ANYTHING = Interval(d.I32.min, d.I32.max)
"""What a port accepts that states no range."""

NO_SOURCE = 0xFFFF
"""`source` of an edge whose operand is complete before the stream."""
RECEIVE_KERNEL, SEND_KERNEL = 4, 5
"""Ids of the kernels that call the caller for rows of a port."""
BY_ROWS, BY_CHUNKS = 1, 2
"""How a port goes that is not whole: an image by rows, a vector in chunks."""
STEP_ACCUMULATES = 1
"""Step flag: rows of firings count rows of input 0, and the result exists after the last one."""
STEP_OVER_SUMS = 2
"""Step flag of one that accumulates: its results may lie over its work space, from before the start of that."""

DTYPES: dict[d.DType, int] = {
    d.I8: 1, d.U8: 2, d.I16: 3, d.U16: 4, d.I32: 5, d.U32: 6, d.I64: 7, d.U64: 8, d.F16: 9, d.F32: 10, d.F64: 11,
    d.BOOL: 12,
}  # fmt: skip
"""Element types of tensors in memory, with their codes."""

REGION = Record(
    "region",
    (
        Field("name", U32, "offset into names"),
        Field("size_bytes", U32, "memory that the plan needs here"),
        Field("alignment", U32, "of the start of the memory; a power of two, at least 16"),
    ),
    "A memory that the caller provides. Region 0 is the arena.",
)
TENSOR = Record(
    "tensor",
    (
        Field("dtype", U8, "element type"),
        Field("rank", U8, "number of dimensions"),
        Field("region", U16, "where it lives"),
        Field("dims", U32, "index of the first dimension in dims"),
        Field("offset", U32, "bytes from the start of the region"),
        Field("depth", U32, "rows of an image that are kept: the height of the tensor, or less for a ring"),
        Field("producer", U32, "the last step that writes into it, or 0xFFFFFFFF: an input or a state"),
        Field("name", U32, "offset into names, or 0xFFFFFFFF"),
    ),
    "A value in memory. Row r of an image lies in slot r mod depth; whole images follow each other.",
)
STEP = Record(
    "step",
    (
        Field("kernel", U16, "kernel id"),
        Field("inputs", U8, "number of operands"),
        Field("outputs", U8, "number of results"),
        Field("operands", U32, "index of the first of inputs + outputs entries in operands"),
        Field("params", U32, "byte offset of the kernel's record in params"),
        Field("scratch_offset", U32, "work space in region 0, or 0xFFFFFFFF"),
        Field("scratch_bytes", U32, "bytes of work space"),
        Field("images", U32, "the step runs once for each image of the batch"),
        Field("firings", U32, "how often it fires for an image"),
        Field("rows", U32, "output rows of one firing, 0xFFFFFFFF: all; the last may make fewer"),
        Field("edges", U32, "index of the first edge"),
        Field("edge_count", U16, "0: every operand is complete before the step"),
        Field("flags", U16, "1: accumulates; 2: and its results may lie over its sums"),
        Field("name", U32, "offset into names, or 0xFFFFFFFF"),
    ),
    "One kernel of a stream.",
)
EDGE = Record(
    "edge",
    (
        Field("operand", U16, "index of the input within the step"),
        Field("source", U16, "step of the stream that makes it, or 0xFFFF: it is complete before the stream"),
        Field("stride", U32, "rows that the window moves with each row, times divisor"),
        Field("before", I32, "rows that the window of row 0 starts before the operand, times divisor"),
        Field("taps", U32, "rows of a window"),
        Field("dilation", U32, "distance of neighbouring taps"),
        Field("divisor", U32, "1, or the denominator of a rational rule"),
        Field("column", U32, "first pixel of each row; 0"),
        Field("width", U32, "pixels of each row; 0: all"),
        Field("clamped", U32, "1: taps outside read the nearest row; 0: they read nothing"),
    ),
    "Row r of a step reads rows floor((r*stride - before) / divisor) + k*dilation, k < taps, of an operand.",
)
STREAM = Record(
    "stream",
    (
        Field("first_step", U32, "index of its first step"),
        Field("step_count", U32, "steps in topological order"),
        Field("counters", U32, "offset in region 0 of 4 bytes a step; 0xFFFFFFFF: one step that fires once"),
        Field("block", U32, "offset in constants of the LZ4 block that holds the constants of its steps; 0: none"),
        Field("block_bytes", U32, "size of the block; 0: none"),
        Field("decoded_bytes", U32, "size of what it decodes to, from the start of region 0 on; 0: none"),
    ),
    "Steps that run interleaved: a step fires when its rows exist and its slot is free.",
)
STAGE = Record(
    "stage",
    (Field("first_stream", U32, "index of its first stream"), Field("stream_count", U32, "streams in order")),
    "Streams that share one life of the fast memory.",
)
PORT = Record(
    "port",
    (
        Field("tensor", U32, "where the array lies, in storage order; by rows: the ring that they go through"),
        Field("name", U32, "offset into names"),
        Field("scale", F32, "real = scale * (stored - zero_point); 0: not quantized"),
        Field("zero_point", I32, "stored integer that means 0"),
        Field("lowest", I32, "least value that an i32 input accepts; -2^31 in every other port"),
        Field("highest", I32, "greatest value that an i32 input accepts; 2^31 - 1 in every other port"),
        Field("has_perm", U8, "1: model array = storage array transposed by perm"),
        Field("perm", U8, "storage axis of each model axis", count=MAX_RANK),
        Field(
            "by_rows",
            U8,
            "1: a receive or send kernel calls the caller with rows of the tensor; 2: they are a vector's chunks",
        ),
    ),
    "An input or output of the plan. A run refuses an input that holds what it does not accept.",
)
STATE = Record(
    "state",
    (
        Field("tensor", U32, "where the state lies from one run to the next"),
        Field("initial", U32, "offset of its initial bytes in constants"),
    ),
    "What survives a run; the plan's own steps write its next value.",
)
DIM = Record("dim", (Field("size", U32, "extent of one axis, at least 1"),), "Shapes, one after the other.")
OPERAND = Record("operand", (Field("tensor", U32, "index of the tensor"),), "Operands, then results, of a step.")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the file: `count` records, or plain bytes (`record` None)."""

    name: str
    record: Record | None
    doc: str

    @property
    def item_bytes(self) -> int:
        return 1 if self.record is None else self.record.size_bytes


SECTIONS: tuple[Section, ...] = (
    Section("regions", REGION, "memories"),
    Section("dims", DIM, "extents of all shapes"),
    Section("tensors", TENSOR, "values in memory"),
    Section("operands", OPERAND, "operands and results of the steps"),
    Section("edges", EDGE, "rows that firings read"),
    Section("steps", STEP, "kernel calls in order"),
    Section("streams", STREAM, "cover the steps without gaps"),
    Section("stages", STAGE, "cover the streams without gaps"),
    Section("inputs", PORT, "what the caller provides"),
    Section("outputs", PORT, "what the caller gets"),
    Section("states", STATE, "what survives a run"),
    Section("params", None, "parameter records of the kernels, each at a multiple of 4"),
    Section("constants", None, "weights and tables, each at a multiple of 16, and LZ4 blocks of such"),
    Section("names", None, "UTF-8 strings that end with a zero byte"),
)

HEADER = Record(
    "header",
    (
        Field("magic", U32, '"TGRS"; another order of bytes is another endianness'),
        Field("version", U16, "of this format"),
        Field("flags", U16, "0"),
        Field("size_bytes", U32, "of the whole file"),
        Field("checksum", U32, "CRC-32 (IEEE 802.3) of the file with this field as 0"),
        Field("reserved_bytes", U32, "of region 0 from its start, where nothing but decoded blocks lies"),
        Field("warm_region", U32, "region that the constants are copied to when memory is bound; 0xFFFFFFFF: none"),
        *(Field(section.name, SECTION, section.doc) for section in SECTIONS),
    ),
    "At offset 0.",
)

RECORDS: tuple[Record, ...] = (
    HEADER, REGION, DIM, TENSOR, OPERAND, EDGE, STEP, STREAM, STAGE, PORT, STATE,
)  # fmt: skip
