"""From a choice of streams to an execution plan: buffers, their lifetimes, their addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from trivet.analysis.liveness import Lifetime, Runs
from trivet.analysis.storage import Sharing, Storage, StorageMap, share_storage
from trivet.core.record import dataclass
from trivet.errors import Unsupported
from trivet.ir.graph import Graph, Node, Value
from trivet.planning.memory.problem import Block, Placement, Problem
from trivet.planning.plan import (
    CALLER,
    Buffer,
    BufferKind,
    ExecutionPlan,
    KernelNeeds,
    Overlap,
    Region,
    Stage,
    Step,
    Stream,
    Transfer,
    View,
)
from trivet.planning.rows import Rows, Task

SCRATCH_ALIGNMENT = 16
"""What kernels may rely on for their work space."""

COUNTER_BYTES = 4
"""Executor state per step of a row stream: its next firing and the rows that it has made, 16 bits each."""

Solver = Callable[[Problem], Placement]


@dataclass(frozen=True, slots=True)
class RowStream:
    """How a run executes row by row: rows a firing by task, ring depths and overlaps by storage number."""

    tasks: tuple[Task, ...]
    rows: tuple[int, ...]
    depths: dict[int, int]
    overlaps: tuple[Overlap, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """A choice of streams: runs of nodes in order, what shares memory, and the runs that execute row by row."""

    graph: Graph
    runs: Runs
    shared: StorageMap
    row_streams: dict[int, RowStream] = field(default_factory=dict)


def whole_tensors(graph: Graph, runs: Runs, sharing: Sharing) -> Layout:
    """The layout in which every step makes its whole result at once."""
    return Layout(graph, runs, share_storage(graph, runs, sharing))


def build_plan(layout: Layout, needs: KernelNeeds, region: Region, solve: Solver) -> ExecutionPlan:
    """The plan of a layout with addresses from `solve`; it may exceed the region, which callers check."""
    return _Builder(layout, needs, region).build(solve)


class _Builder:
    """Collects buffers and streams in order of execution."""

    def __init__(self, layout: Layout, needs: KernelNeeds, region: Region) -> None:
        self.layout, self.needs, self.region = layout, needs, region
        self.buffers: list[Buffer] = []
        self.streams: list[Stream] = []
        self.working = [tuple(node for node in run if id(node) not in layout.shared.idle) for run in layout.runs]
        self.callers_bytes = 0
        self._started = _running_count([bool(steps) for steps in self.working])

    def build(self, solve: Solver) -> ExecutionPlan:
        for number, storage in enumerate(self.layout.shared.storages):
            self.buffers.append(self._storage_buffer(number, storage))
        for index, steps in enumerate(self.working):
            if steps:
                rows = self.layout.row_streams.get(index)
                self.streams.append(self._whole(steps) if rows is None else self._by_rows(rows))
        constants = self._constant_outputs()
        problem = self._problem()
        placement = solve(problem)
        buffers = tuple(
            buffer if buffer.region == CALLER else replace(buffer, region=spot.region, offset=spot.offset)
            for buffer, spot in zip(self.buffers, placement.spots, strict=True)
        )
        views = {id(value): self._view(value) for s in self.layout.shared.storages for value in s.values} | constants
        stage = Stage(tuple(self.streams), stores=self._state_transfers(views))
        graph = self.layout.graph
        callers = (Region(CALLER, None, 1, is_fast=False),) if self.callers_bytes else ()
        return ExecutionPlan(graph, (stage,), buffers, views, (self.region, *callers), problem.overlaps)

    def _constant_outputs(self) -> dict[int, View]:
        """Places of outputs that are constants, which are filled in when everything else has run."""
        views: dict[int, View] = {}
        last = max(0, len(self.streams) - 1)
        for value in self.layout.graph.outputs:
            if not value.is_constant or id(value) in views:
                continue
            rows, size = Rows.of(value.type), value.type.size_bytes
            alignment = max(self.region.alignment, value.type.dtype.bits // 8)
            views[id(value)] = View(len(self.buffers), 0, rows.row_bytes, rows.height, rows.height)
            self.buffers.append(Buffer(value.name, BufferKind.OUTPUT, size, alignment, last, last, self.region.name, 0))
        return views

    def _problem(self) -> Problem:
        sizes = [0 if b.region == CALLER else b.size_bytes for b in self.buffers]
        blocks = tuple(
            Block(b.name, size, b.birth, b.death, b.alignment) for b, size in zip(self.buffers, sizes, strict=True)
        )
        overlaps = tuple(o for rows in self.layout.row_streams.values() for o in rows.overlaps)
        return Problem(blocks, (self.region,), overlaps)

    def _storage_buffer(self, number: int, storage: Storage) -> Buffer:
        life = self._in_streams(storage.lifetime)
        depth = self._depth(number)
        rows = Rows.of(storage.values[0].type)
        size = storage.size_bytes if depth is None else depth * rows.row_bytes
        widest = max(value.type.dtype.bits // 8 for value in storage.values)
        alignment = max(self.region.alignment, widest)
        kind = BufferKind.RING if depth is not None else self._kind(storage)
        region, offset = self.region.name, 0
        if storage.held_bytes == 0 and size:
            region, alignment, offset = CALLER, 1, self.callers_bytes
            self.callers_bytes += size
        return Buffer(storage.values[0].name, kind, size, alignment, life.birth, life.death, region, offset)

    def _depth(self, number: int) -> int | None:
        """The depth of a storage that is a ring."""
        for rows in self.layout.row_streams.values():
            if number in rows.depths:
                return rows.depths[number]
        return None

    def _kind(self, storage: Storage) -> BufferKind:
        graph = self.layout.graph
        members = {id(value) for value in storage.values}
        if any(id(state.read) in members for state in graph.states):
            return BufferKind.STATE
        if any(id(value) in members for value in graph.inputs):
            return BufferKind.INPUT
        return BufferKind.OUTPUT if any(id(v) in members for v in graph.outputs) else BufferKind.ACTIVATION

    def _in_streams(self, life: Lifetime) -> Lifetime:
        """A lifetime in streams instead of runs, some of which have no steps."""
        last = max(0, self._started[-1] - 1)
        birth = 0 if life.birth < 0 else min(last, self._started[life.birth])
        death = last if life.death >= len(self.working) else max(birth, self._started[life.death + 1] - 1)
        return Lifetime(birth, death)

    def _whole(self, steps: Sequence[Node]) -> Stream:
        assert len(steps) == 1, "only row streams hold several steps"
        (node,) = steps
        size = self.needs.scratch_bytes(node, Rows.of(node.outputs[0].type).height)
        scratch = self._work_space(BufferKind.SCRATCH, size, SCRATCH_ALIGNMENT)
        return Stream((Step(node, scratch=scratch, overwrites=self.needs.overwrites(node)),))

    def _by_rows(self, stream: RowStream) -> Stream:
        needs = [self.needs.scratch_bytes(t.node, rows) for t, rows in zip(stream.tasks, stream.rows, strict=True)]
        passing = max((n for task, n in zip(stream.tasks, needs, strict=True) if not task.accumulates), default=0)
        common = self._work_space(BufferKind.SCRATCH, passing, SCRATCH_ALIGNMENT)
        steps = []
        for task, rows, size in zip(stream.tasks, stream.rows, needs, strict=True):
            scratch = common if size else None
            if task.accumulates:
                scratch = self._work_space(BufferKind.SCRATCH, size, SCRATCH_ALIGNMENT)
            firings, overwrites = -(-task.counted // rows), self.needs.overwrites(task.node)
            steps.append(Step(task.node, firings, rows, task.accumulates, scratch, task.edges, overwrites))
        return Stream(tuple(steps), self._work_space(BufferKind.COUNTERS, COUNTER_BYTES * len(steps), 4))

    def _work_space(self, kind: BufferKind, size: int, alignment: int) -> int | None:
        """A buffer that exists during the stream that is about to be appended; None for no bytes."""
        if size == 0:
            return None
        now = len(self.streams)
        name = f"{kind.value} {now}"
        self.buffers.append(Buffer(name, kind, size, alignment, now, now, self.region.name, 0))
        return len(self.buffers) - 1

    def _view(self, value: Value) -> View:
        place = self.layout.shared.places[id(value)]
        rows = Rows.of(value.type)
        depth = self._depth(place.storage)
        return View(place.storage, place.offset, rows.row_bytes, rows.height, rows.height if depth is None else depth)

    def _state_transfers(self, views: dict[int, View]) -> tuple[Transfer, ...]:
        """Copies of written states to where the next invocation reads them."""
        transfers: list[Transfer] = []
        for state in self.layout.graph.states:
            if state.written.is_constant:
                raise Unsupported(f"state {state.read.name} is set to a constant")
            source, target = views[id(state.written)], views[id(state.read)]
            if source == target:
                continue
            if any(not v.is_constant and views[id(v)].buffer == target.buffer for v in self.layout.graph.outputs):
                raise Unsupported(f"state {state.read.name} is both an output and overwritten")
            if any(earlier.target.buffer == source.buffer for earlier in transfers):
                raise Unsupported(f"state {state.read.name} takes the contents of a state that is written before it")
            transfers.append(Transfer(state.written, source, target))
        return tuple(transfers)


def _running_count(flags: Sequence[bool]) -> list[int]:
    """How many flags are set before each index, and in all."""
    counts = [0]
    for flag in flags:
        counts.append(counts[-1] + flag)
    return counts
