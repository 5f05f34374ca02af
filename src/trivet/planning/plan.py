"""The execution plan: the narrow waist between planning and the backends that emit C.

A plan is a list of stages. A stage is a list of streams that run one after the other while the fast memory is its own.
A stream is a connected run of steps that execute row by row; a stream of one step with one firing is a layer executed
whole. Every tensor is a view into a buffer, and every buffer has an address in a region.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value

FAST = "fast"
"""The name of the region that holds everything when there is one memory."""

SLOW = "slow"
"""The name of the memory beside it that holds inputs and outputs, and what does not fit."""


@dataclass(frozen=True, slots=True)
class Region:
    """A memory that buffers live in; `size_bytes` None means unbounded."""

    name: str
    size_bytes: int | None
    alignment: int = 16
    is_fast: bool = True


CALLER = "caller"
"""The region of inputs and outputs that go by rows: the caller's own memory, which no plan counts or addresses."""


class BufferKind(Enum):
    """Why a buffer exists; reports sum bytes by kind."""

    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    RING = "ring"
    SCRATCH = "scratch"
    COUNTERS = "counters"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of a region that are in use from stream `birth` to stream `death`, both included.

    Streams are counted over all stages. `offset` counts from the start of the region.
    """

    name: str
    kind: BufferKind
    size_bytes: int
    alignment: int
    birth: int
    death: int
    region: str
    offset: int


@dataclass(frozen=True, slots=True)
class View:
    """Where a tensor's elements lie: `offset` bytes into buffer `buffer`.

    A tensor of `height` rows (axis 1 of rank 4; one row otherwise) of `row_bytes` each keeps `depth` of them: row r
    lies in slot r mod depth. A whole tensor has depth == height. Batches follow each other.
    """

    buffer: int
    offset: int
    row_bytes: int
    height: int
    depth: int

    @property
    def is_ring(self) -> bool:
        return self.depth < self.height


@dataclass(frozen=True, slots=True)
class Edge:
    """Which rows of an operand the output row r of a step reads, and which step of the stream makes them.

    The taps are rows floor((r*stride - before) / divisor) + k*dilation, k in [0, taps), as far as they lie inside the
    operand's `height` rows; `clamped` moves taps outside to the nearest row instead (resize). `source` is the index of
    the step that makes the operand, None where it is complete before the stream starts. `column` and `width` select
    part of each row (width 0: all of it).
    """

    operand: int
    source: int | None
    height: int
    stride: int = 1
    before: int = 0
    taps: int = 1
    dilation: int = 1
    divisor: int = 1
    clamped: bool = False
    column: int = 0
    width: int = 0

    @property
    def extent(self) -> int:
        """Rows from the first tap of a window to the last, both included."""
        return (self.taps - 1) * self.dilation + 1

    def first(self, row: int) -> int | None:
        """The first operand row that output row `row` reads, None if it reads none."""
        start = (row * self.stride - self.before) // self.divisor
        if self.clamped:
            return min(max(start, 0), self.height - 1)
        skipped = max(0, -(start // self.dilation))
        first = start + skipped * self.dilation
        return first if skipped < self.taps and first < self.height else None

    def last(self, row: int) -> int | None:
        """The last operand row that output row `row` reads, None if it reads none."""
        end = (row * self.stride - self.before) // self.divisor + (self.taps - 1) * self.dilation
        if self.clamped:
            return min(max(end, 0), self.height - 1)
        skipped = max(0, -((self.height - 1 - end) // self.dilation))
        last = end - skipped * self.dilation
        return last if skipped < self.taps and last >= 0 else None


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel: `node` fires `firings` times; firing f makes output rows [f*rows, (f+1)*rows), the last maybe fewer.

    `rows` None: one firing makes everything, and `edges` are empty. A step that `accumulates` counts rows of its first
    operand instead (a mean over rows): it keeps sums in its scratch and writes its result in the last firing. Fewer
    firings than rows: nobody reads the rest. `scratch` is the buffer of its work space, if it needs one. `overwrites`:
    the kernel promises that its result may lie over its first operand. `keeps_scratch`: a firing finds its work space
    as the one before left it, so nobody else has it during the stream. `over_sums`: the result of an accumulation may
    lie over its work space, beginning no later than that.
    """

    node: Node
    firings: int = 1
    rows: int | None = None
    accumulates: bool = False
    scratch: int | None = None
    edges: tuple[Edge, ...] = ()
    overwrites: bool = False
    keeps_scratch: bool = False
    over_sums: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """Steps that run interleaved, listed in topological order.

    One loop is the schedule, in planner, checker, simulator and C alike:

        while any step is unfinished:
            for step in steps:
                while step is unfinished and its rows are there and its slot is free: fire it

    Its rows are there when, for every edge with a source, `last` of the firing's last row has been made. Its slot is
    free when it writes no ring or when, for every row w of the firing, no step of the stream still reads row w - depth
    or an earlier one from a view of the same buffer. `counters` is the buffer of the loop's state, two 16-bit numbers a
    step; a stream of one step that fires once has none.
    """

    steps: tuple[Step, ...]
    counters: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copy of a whole value from one buffer to another: between memories, or a written state to its place."""

    value: Value
    source: View
    target: View


@dataclass(frozen=True, slots=True)
class Stage:
    """Streams that share one life of the fast memory; `loads` come before, `stores` after."""

    streams: tuple[Stream, ...]
    loads: tuple[Transfer, ...] = ()
    stores: tuple[Transfer, ...] = ()


@dataclass(frozen=True, slots=True)
class Overlap:
    """Buffers that share bytes while both are in use, since what is overwritten has been read for the last time.

    Safe as long as offset(upper) - offset(lower) >= `distance` (or they are disjoint): `lower` is written in rising
    order in the stream in which `upper` is read for the last time.
    """

    lower: int
    upper: int
    distance: int


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Everything that a backend needs beside the graph. Constants live with the plan and have no view.

    An output that is a constant has one, of a buffer into which the backend copies it when everything else has run.
    `views` maps id(value) to where the value lives. A node whose result is a view of its operands' bytes (reshape,
    concat or slice of contiguous memory) has no step.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]
    views: dict[int, View]
    regions: tuple[Region, ...]
    overlaps: tuple[Overlap, ...] = ()

    def steps(self) -> Iterator[Step]:
        """Every step in order of execution."""
        for stage in self.stages:
            for stream in stage.streams:
                yield from stream.steps

    def view(self, value: Value) -> View:
        return self.views[id(value)]

    @property
    def memories(self) -> tuple[Region, ...]:
        """The regions that the plan needs memory for."""
        return tuple(region for region in self.regions if region.name != CALLER)

    def region_bytes(self, name: str) -> int:
        """The bytes of a region that the plan uses."""
        return max((b.offset + b.size_bytes for b in self.buffers if b.region == name), default=0)


class KernelNeeds(Protocol):
    """What planning asks a backend about the kernel that will run a node."""

    def scratch_bytes(self, node: Node, rows: int) -> int:
        """Work space of one firing that makes `rows` output rows."""
        ...

    def computes_rows(self, node: Node) -> bool:
        """True iff the kernel can make any range of output rows on its own, so that the node may stream.

        For an operator that reduces the rows of its operand: iff it can take them one range after the other.
        """
        ...

    def overwrites(self, node: Node) -> bool:
        """True iff the kernel reads what a pixel needs before it writes the pixel, so that the result may lie over the
        first operand, of the same shape, although the operator does not work element by element.
        """
        ...

    def keeps_scratch(self, node: Node) -> bool:
        """True iff a firing needs its work space as the firing before left it."""
        ...

    def over_sums(self, node: Node) -> bool:
        """True iff the result of a node that accumulates may lie over its work space, beginning no later than that."""
        ...

    def runs(self, node: Node) -> bool:
        """True iff there is a kernel for the node."""
        ...

    def adopt(self, node: Node, other: Node) -> None:
        """`node` is a copy of `other` in another graph: what is known of that holds for it."""
        ...
