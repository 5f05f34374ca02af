"""The execution plan: the narrow waist between planning and the backends that emit C.

A plan is a list of stages. A stage is a list of streams that run one after the other while the fast memory is its own.
A stream is a connected run of steps that execute row by row; a stream of one step with one firing is a layer executed
whole. Every tensor is a view into a buffer, and every buffer has an address in a region.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from trivet.ir.graph import Graph, Node, Value


@dataclass(frozen=True, slots=True)
class Region:
    """A memory that buffers live in; `size_bytes` None means unbounded."""

    name: str
    size_bytes: int | None
    alignment: int = 16
    is_fast: bool = True


class BufferKind(Enum):
    """Why a buffer exists; reports sum bytes by kind."""

    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    RING = "ring"
    SCRATCH = "scratch"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of a region that are in use from step `birth` to step `death`, both included.

    `offset` counts from the start of the region.
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
    """Which rows of an operand one firing reads: from floor((s*stride - before)*1/divisor) on, `extent` rows, clipped.

    `column` and `width` select part of each row (width 0: all of it).
    """

    operand: int
    stride: int
    before: int
    extent: int
    height: int
    divisor: int = 1
    column: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel: `node` fires `firings` times, `rows` output rows each (the last may be short).

    `scratch` is the buffer of its work space, if it needs one. `edges` are empty for a step that executes whole.
    """

    node: Node
    firings: int = 1
    rows: int | None = None
    scratch: int | None = None
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """Steps that run interleaved, in topological order."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copy of a whole value between a buffer in slow memory and one in fast memory."""

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
class ExecutionPlan:
    """Everything that a backend needs beside the graph. Constants have no view: they live with the plan.

    `views` maps id(value) to where the value lives.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]
    views: dict[int, View]
    regions: tuple[Region, ...]

    def steps(self) -> Iterator[Step]:
        """Every step in order of execution."""
        for stage in self.stages:
            for stream in stage.streams:
                yield from stream.steps

    def view(self, value: Value) -> View:
        return self.views[id(value)]

    def region_bytes(self, name: str) -> int:
        """The bytes of a region that the plan uses."""
        return max((b.offset + b.size_bytes for b in self.buffers if b.region == name), default=0)


class KernelNeeds(Protocol):
    """What planning asks a backend about the kernel that will run a node."""

    def scratch_bytes(self, node: Node, rows: int) -> int:
        """Work space of one firing that makes `rows` output rows."""
        ...

    def computes_rows(self, node: Node) -> bool:
        """True iff the kernel can make any range of output rows on its own, so that the node may stream."""
        ...
