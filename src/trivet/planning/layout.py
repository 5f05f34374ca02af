"""From a choice of streams to an execution plan: buffers, their lifetimes, their addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import pairwise

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
from trivet.planning.rows import Rows, Task, counted_rows

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
    """A choice of streams: runs of nodes in order, what shares memory, and the runs that execute row by row.

    `stages` are ids of nodes with whose run a stage starts, beside the first; `slow` ids of values in slow memory.
    """

    graph: Graph
    runs: Runs
    shared: StorageMap
    row_streams: dict[int, RowStream] = field(default_factory=dict)
    stages: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()

    def in_stages(self, stages: frozenset[int], slow: frozenset[int]) -> Layout:
        """The same with slow memory."""
        return replace(self, stages=stages, slow=slow)


def whole_tensors(graph: Graph, runs: Runs, sharing: Sharing) -> Layout:
    """The layout in which every step makes its whole result at once."""
    return Layout(graph, runs, share_storage(graph, runs, sharing))


def build_plan(
    layout: Layout, needs: KernelNeeds, region: Region, solve: Solver, slow: Region | None = None
) -> ExecutionPlan:
    """The plan of a layout with addresses from `solve`; it may exceed its regions, which callers check."""
    return _Builder(layout, needs, region, slow).build(solve)


class _Builder:
    """Collects buffers and streams in order of execution."""

    def __init__(self, layout: Layout, needs: KernelNeeds, region: Region, slow: Region | None) -> None:
        self.layout, self.needs, self.region, self.slow = layout, needs, region, slow
        self.buffers: list[Buffer] = []
        self.streams: list[Stream] = []
        self.working = [tuple(node for node in run if id(node) not in layout.shared.idle) for run in layout.runs]
        self.callers_bytes = 0
        self.over_sums: list[Overlap] = []
        self._started = _running_count([bool(steps) for steps in self.working])

    def build(self, solve: Solver) -> ExecutionPlan:
        for number, storage in enumerate(self.layout.shared.storages):
            self.buffers.append(self._storage_buffer(number, storage))
        for index, steps in enumerate(self.working):
            if steps:
                rows = self.layout.row_streams.get(index)
                self.streams.append(self._whole(steps) if rows is None else self._by_rows(rows))
        constants = self._constant_outputs()
        overlaps = self._overlaps()
        regions = (self.region,) if self.slow is None else (self.region, self.slow)
        for region in regions:
            self._place(region, overlaps, solve)
        views = {id(value): self._view(value) for s in self.layout.shared.storages for value in s.values} | constants
        stages = self._stages(self._state_transfers(views))
        callers = (Region(CALLER, None, 1, is_fast=False),) if self.callers_bytes else ()
        return ExecutionPlan(self.layout.graph, stages, tuple(self.buffers), views, (*regions, *callers), overlaps)

    def _stages(self, stores: tuple[Transfer, ...]) -> tuple[Stage, ...]:
        """The streams, cut where the layout says so; what goes to its place goes in the end."""
        cuts = [
            index
            for index, stream in enumerate(self.streams)
            if index and any(id(step.node) in self.layout.stages for step in stream.steps)
        ]
        bounds = [0, *cuts, len(self.streams)]
        stages = [Stage(tuple(self.streams[start:stop])) for start, stop in pairwise(bounds)]
        return (*stages[:-1], replace(stages[-1], stores=stores))

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
            region = (self.slow or self.region).name
            self.buffers.append(Buffer(value.name, BufferKind.OUTPUT, size, alignment, last, last, region, 0))
        return views

    def _overlaps(self) -> tuple[Overlap, ...]:
        """What the streams allow, as far as both buffers are in one memory."""
        found = [o for rows in self.layout.row_streams.values() for o in rows.overlaps] + self.over_sums
        return tuple(o for o in found if self.buffers[o.lower].region == self.buffers[o.upper].region)

    def _place(self, region: Region, overlaps: tuple[Overlap, ...], solve: Solver) -> None:
        """Give the buffers of a region their offsets; those of others take no bytes in the problem."""
        mine = [buffer.region == region.name for buffer in self.buffers]
        blocks = tuple(
            Block(b.name, b.size_bytes if is_here else 0, b.birth, b.death, b.alignment)
            for b, is_here in zip(self.buffers, mine, strict=True)
        )
        placement = solve(Problem(blocks, (region,), tuple(o for o in overlaps if mine[o.lower])))
        for index, spot in enumerate(placement.spots):
            if mine[index]:
                self.buffers[index] = replace(self.buffers[index], offset=spot.offset)

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
        elif self.slow is not None and any(id(value) in self.layout.slow for value in storage.values):
            region = self.slow.name
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
        size = self.needs.scratch_bytes(node, counted_rows(node))
        scratch = self._work_space(BufferKind.SCRATCH, size, SCRATCH_ALIGNMENT)
        return Stream((Step(node, scratch=scratch, overwrites=self.needs.overwrites(node)),))

    def _by_rows(self, stream: RowStream) -> Stream:
        needs = [self.needs.scratch_bytes(t.node, rows) for t, rows in zip(stream.tasks, stream.rows, strict=True)]
        lasting = [task.accumulates or self.needs.keeps_scratch(task.node) for task in stream.tasks]
        passing = max((n for lasts, n in zip(lasting, needs, strict=True) if not lasts), default=0)
        common = self._work_space(BufferKind.SCRATCH, passing, SCRATCH_ALIGNMENT)
        steps = []
        for task, rows, size, lasts in zip(stream.tasks, stream.rows, needs, lasting, strict=True):
            scratch = common if size else None
            if lasts:
                scratch = self._work_space(BufferKind.SCRATCH, size, SCRATCH_ALIGNMENT)
            steps.append(self._step(task, rows, scratch))
        return Stream(tuple(steps), self._work_space(BufferKind.COUNTERS, COUNTER_BYTES * len(steps), 4))

    def _step(self, task: Task, rows: int, scratch: int | None) -> Step:
        over_sums = task.accumulates and self.needs.over_sums(task.node)
        if over_sums and scratch is not None and _fills(self.layout.shared.storages[task.storage], task.node.output):
            self.over_sums.append(Overlap(task.storage, scratch, 0))
        return Step(
            node=task.node,
            firings=-(-task.counted // rows),
            rows=rows,
            accumulates=task.accumulates,
            scratch=scratch,
            edges=task.edges,
            overwrites=self.needs.overwrites(task.node),
            keeps_scratch=self.needs.keeps_scratch(task.node),
            over_sums=over_sums,
        )

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


def _fills(storage: Storage, value: Value) -> bool:
    """True iff a value is the first in a storage and takes all of it."""
    return storage.values[0] is value and value.type.size_bytes == storage.size_bytes


def _running_count(flags: Sequence[bool]) -> list[int]:
    """How many flags are set before each index, and in all."""
    counts = [0]
    for flag in flags:
        counts.append(counts[-1] + flag)
    return counts
