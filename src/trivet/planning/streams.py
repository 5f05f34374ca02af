"""What a range of consecutive nodes costs as one stream: rings, work space, what lives across, overlaps.

Positions count the nodes that run. Storages here hold a value and its views only; inside a stream a result may take
over the ring of an operand that nobody else reads, as `analysis.storage` decides it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from trivet.analysis.liveness import layer_by_layer
from trivet.analysis.storage import Sharing, StorageMap, overwritable, share_storage
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.planning.layout import COUNTER_BYTES, SCRATCH_ALIGNMENT
from trivet.planning.plan import Edge, KernelNeeds
from trivet.planning.rows import Rows, counted_rows, reduces_rows, row_edge
from trivet.planning.schedule import (
    Actor,
    Depths,
    Link,
    Ring,
    RowsRead,
    minimal_depths,
    overlap_distances,
    rows_by_firing,
)

MAX_RANGE = 80
"""Nodes that a stream holds at most, which bounds the search."""

FREELY = -(1 << 30)
"""The distance of buffers that may overlap at will."""


@dataclass(frozen=True, slots=True)
class Item:
    """A node that runs: what it reads, with edges in rows of the storage's first value, and what it may overwrite.

    It counts `height` rows of `width` pixels: of its result, of its operand if it accumulates.
    """

    node: Node
    storage: int
    height: int
    width: int
    accumulates: bool
    by_rows: bool
    reads: tuple[tuple[int, Edge], ...]
    reshaped: tuple[int, ...]
    overwrites: tuple[int, ...]
    scratch_whole: int


@dataclass(frozen=True, slots=True)
class Held:
    """A storage: bytes, the position that makes it (-1: there before) and those that read it; `kept` to the end."""

    size_bytes: int
    maker: int
    readers: tuple[int, ...]
    kept: bool

    def last_use(self) -> int:
        return 1 << 30 if self.kept else max(self.readers, default=self.maker)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Positions start <= p < stop as one stream, and the bytes in use while it runs.

    `apart_bytes` are needed when no output overlaps an input. `by_rows` False: one node that makes its result at once.
    `rows` a firing are keyed by id(node), `depths` and `distances` by id(value), of the first value in a storage.
    """

    start: int
    stop: int
    size_bytes: int
    apart_bytes: int
    by_rows: bool = False
    firings: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)
    distances: dict[tuple[int, int], int] = field(default_factory=dict)


class StreamModel:
    """A graph in a fixed order, ready for the pricing of ranges."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        needs: KernelNeeds,
        alignment: int,
        keep_inputs: bool,
        slow: frozenset[int] = frozenset(),
    ) -> None:
        self.slow = slow
        self.graph, self.nodes, self.needs, self.alignment = graph, tuple(nodes), needs, alignment
        self.overwriting = frozenset(id(node) for node in nodes if needs.overwrites(node))
        sharing = Sharing(in_place=False, parts=False, keep_inputs=keep_inputs)
        self.shared = share_storage(graph, layer_by_layer(nodes), sharing)
        self.working = [node for node in nodes if id(node) not in self.shared.idle]
        self.items = self._make_items(needs)
        self.held = self._make_held(keep_inputs)
        self._ranges: dict[tuple[int, int, int], _Range] = {}
        self._windows: dict[tuple[int, int, int], RowsRead] = {}
        self._segments: dict[tuple[range, int, tuple[int, ...], tuple[bool, ...], int], Depths] = {}

    # What a range costs.

    def whole(self, position: int) -> Candidate:
        """One node that makes its whole result."""
        item = self.items[position]
        live = self.live_before(position) | {item.storage}
        total = sum(self.aligned(self.held[s].size_bytes) for s in live) + item.scratch_whole
        if (target := self._overwritten(position)) is not None:
            total -= self.aligned(self.held[target].size_bytes)
        return Candidate(position, position + 1, total, total)

    def stream(self, start: int, stop: int, limit: int, pixels: int = 1) -> Candidate | None:
        """The range as a stream of rows; None if it needs more than `limit` bytes.

        A firing makes as many rows as have about `pixels` pixels, at least one.
        """
        span = self._range(start, stop, pixels)
        base = span.base_bytes()
        gain = max((self._most_gain(o, v) for o in span.outs for v in span.dying), default=0)
        if base - gain > limit:
            return None
        distances: dict[tuple[int, int], int] = {}
        if gain:
            distances = span.distances()
            gain = max(self._gain(o, v, distances[o, v]) for o in span.outs for v in span.dying)
        if base - gain > limit:
            return None
        return Candidate(
            start,
            stop,
            base - gain,
            base,
            True,
            sum(-(-self.items[p].height // self.rows_a_firing(p, pixels)) for p in range(start, stop)),
            {id(self.items[p].node): self.rows_a_firing(p, pixels) for p in range(start, stop)},
            {self._name(root): depth for root, depth in span.depths.items()},
            {
                (self._name(o), self._name(v)): distance
                for (o, v), distance in distances.items()
                if self.held[o].size_bytes and self.held[v].size_bytes
            },
        )

    def rows_a_firing(self, position: int, pixels: int) -> int:
        item = self.items[position]
        return min(max(1, pixels // item.width), item.height)

    def scratch(self, position: int, pixels: int) -> int:
        """Work space of a firing."""
        rows = self.rows_a_firing(position, pixels)
        return _aligned_scratch(self.needs.scratch_bytes(self.items[position].node, rows))

    def can_stream(self, start: int, stop: int) -> bool:
        """True iff all nodes take rows, and none reads rows made in the range as rows of another shape."""
        items = self.items[start:stop]
        return all(item.by_rows for item in items) and not any(
            start <= self.held[storage].maker < stop for item in items for storage in item.reshaped
        )

    def ring_bytes(self, start: int, stop: int) -> int:
        """Bytes of the rings of a range, which only grow as it gets longer."""
        return self._range(start, stop, 1).ring_bytes

    def _range(self, start: int, stop: int, pixels: int) -> _Range:
        key = (start, stop, pixels)
        if key not in self._ranges:
            self._ranges[key] = _Range(self, start, stop, pixels)
        return self._ranges[key]

    # Storages.

    def _name(self, storage: int) -> int:
        return id(self.shared.storages[storage].values[0])

    def aligned(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def live_before(self, position: int) -> set[int]:
        """Storages that hold something when the node at `position` starts."""
        return {s for s, held in enumerate(self.held) if held.maker < position <= held.last_use()}

    def _most_gain(self, lower: int, upper: int) -> int:
        return min(self.aligned(self.held[lower].size_bytes), self.aligned(self.held[upper].size_bytes))

    def _gain(self, lower: int, upper: int, distance: int) -> int:
        """Bytes saved when `upper` starts `distance` bytes above `lower`."""
        out, inp = (self.aligned(self.held[s].size_bytes) for s in (lower, upper))
        return out + inp - max(out, self.aligned(max(distance, 0)) + inp)

    def _overwritten(self, position: int) -> int | None:
        """The storage that a node running alone writes its result over."""
        for storage in self.items[position].overwrites:
            held = self.held[storage]
            if held.last_use() <= position:
                return storage
        return None

    def taken_over(self, position: int, start: int) -> int | None:
        """The storage made at or after `start` that a node of a stream writes its result over, row by row."""
        for storage in self.items[position].overwrites:
            held = self.held[storage]
            if held.maker >= start and held.readers == (position,) and not held.kept:
                return storage
        return None

    def segment_depths(
        self, positions: range, entering: int, roots: dict[int, int], whole: set[int], pixels: int
    ) -> Depths:
        """Ring depths of consecutive positions when `entering` (-1: nothing) comes in row by row."""
        written = [roots[self.items[p].storage] for p in positions]
        if entering >= 0:
            written.append(roots[entering])
        key = (positions, entering, tuple(written), tuple(root in whole for root in written), pixels)
        if key not in self._segments:
            actors = self.actors(positions, roots, pixels, entering)
            rings = [self._ring(s) for s in sorted({a.storage for a in actors} - whole)]
            self._segments[key] = minimal_depths(actors, rings)
        return self._segments[key]

    def _ring(self, root: int) -> Ring:
        rows = self.rows_of(root)
        return Ring(root, rows.height, rows.row_bytes)

    def actors(self, positions: range, roots: dict[int, int], pixels: int, entering: int = -1) -> list[Actor]:
        """The positions as actors; `entering` is made by one more that needs nothing."""
        actors = []
        sources: dict[int, int] = {}
        if entering >= 0:
            rows = self.rows_a_firing(self.held[entering].maker, pixels)
            actors.append(Actor(self.rows_of(entering).height, roots[entering], False, (), rows))
            sources[entering] = 0
        for position in positions:
            item, rows = self.items[position], self.rows_a_firing(position, pixels)
            links = tuple(
                Link(sources.get(s), roots.get(s, s), *self._rows_read(position, number, edge, rows))
                for number, (s, edge) in enumerate(item.reads)
            )
            sources[item.storage] = len(actors)
            actors.append(Actor(item.height, roots[item.storage], item.accumulates, links, rows))
        return actors

    def _rows_read(self, position: int, number: int, edge: Edge, rows: int) -> RowsRead:
        """What a node reads of its operand `number` with so many rows a firing; the same tuples every time."""
        key = (position, number, rows)
        if key not in self._windows:
            self._windows[key] = rows_by_firing(edge, self.items[position].height, rows)
        return self._windows[key]

    # Construction.

    def _make_items(self, needs: KernelNeeds) -> list[Item]:
        return [self._item(node, needs) for node in self.working]

    def _item(self, node: Node, needs: KernelNeeds) -> Item:
        accumulates = reduces_rows(node)
        by_rows = _streams(node, needs)
        counted = node.inputs[0].type if accumulates else node.outputs[0].type
        return Item(
            node=node,
            storage=self._storage(node.outputs[0]),
            height=Rows.of(counted).height,
            width=counted.shape[2] if counted.rank == 4 else 1,
            accumulates=accumulates,
            by_rows=by_rows,
            reads=self._reads(node),
            reshaped=tuple(
                self._storage(v)
                for v in node.inputs
                if not v.is_constant and self.rows_of(self._storage(v)) != Rows.of(v.type)
            ),
            overwrites=self._overwrites(node),
            scratch_whole=_aligned_scratch(needs.scratch_bytes(node, counted_rows(node))),
        )

    def _storage(self, value: Value) -> int:
        return self.shared.places[id(value)].storage

    def _reads(self, node: Node) -> tuple[tuple[int, Edge], ...]:
        """Operands by storage; a view with other rows than its storage is read as a whole."""
        reads = []
        for index, value in enumerate(node.inputs):
            if value.is_constant:
                continue
            storage, edge = self._storage(value), row_edge(node, index)
            rows = self.rows_of(storage)
            if rows != Rows.of(value.type):
                edge = Edge(index, None, rows.height, stride=0, taps=rows.height)
            reads.append((storage, edge))
        return tuple(reads)

    def rows_of(self, storage: int) -> Rows:
        return Rows.of(self.shared.storages[storage].values[0].type)

    def _overwrites(self, node: Node) -> tuple[int, ...]:
        """Storages of operands that the result may overwrite once they die."""
        found = []
        for value in overwritable(node, self.overwriting):
            storage = self._storage(value)
            others = {self._storage(v) for v in node.inputs if v is not value and not v.is_constant}
            is_apart = (id(value) in self.slow) != (id(node.output) in self.slow)
            if storage not in others and not self._is_state(storage) and not is_apart:
                found.append(storage)
        return tuple(found)

    def _is_state(self, storage: int) -> bool:
        return any(self._storage(state.read) == storage for state in self.graph.states)

    def _make_held(self, keep_inputs: bool) -> list[Held]:
        readers: list[list[int]] = [[] for _ in self.shared.storages]
        makers = [-1] * len(readers)
        for position, item in enumerate(self.items):
            for value in item.node.outputs:
                makers[self._storage(value)] = position
            for storage, _ in item.reads:
                if position not in readers[storage]:
                    readers[storage].append(position)
        kept = _kept(self.graph, self.shared, keep_inputs)
        return [
            Held(storage.held_bytes, makers[s], tuple(readers[s]), s in kept)
            for s, storage in enumerate(self.shared.storages)
        ]


class _Range:
    """One range as a stream."""

    def __init__(self, model: StreamModel, start: int, stop: int, pixels: int = 1) -> None:
        self.model, self.start, self.stop, self.pixels = model, start, stop, pixels
        self.roots = self._find_roots()
        held = model.held
        made = [model.items[p].storage for p in range(start, stop)]
        self.outs = sorted({self.roots[s] for s in made if held[s].last_use() >= stop})
        live = model.live_before(start)
        self.dying = sorted(s for s in live if held[s].last_use() < stop)
        self.across = sorted(s for s in live if held[s].last_use() >= stop)
        self.depths = self._find_depths()
        self.ring_bytes = sum(
            model.aligned(depth * model.rows_of(root).row_bytes) for root, depth in self.depths.items()
        )

    def _find_roots(self) -> dict[int, int]:
        """For each storage made in the range the one whose memory it takes."""
        roots: dict[int, int] = {}
        for position in range(self.start, self.stop):
            storage = self.model.items[position].storage
            target = self.model.taken_over(position, self.start)
            roots[storage] = storage if target is None else roots[target]
        return roots

    def _find_depths(self) -> Depths:
        """Ring depths, segment by segment: where one value alone comes over, what lies before and after is apart.

        A ring that goes on in the next segment, as its rows are overwritten in place, must hold the rows that wait in
        each: row w comes at most depth - 1 rows after the row that leaves one segment, and so on.
        """
        whole, depths = set(self.outs), dict[int, int]()
        first, entering, crossing = self.start, -1, set[int]()
        for position in range(self.start, self.stop):
            item, held = self.model.items[position], self.model.held
            crossing.add(item.storage)
            crossing = {s for s in crossing if any(position < reader < self.stop for reader in held[s].readers)}
            is_apart = len(crossing) < 2 and all(held[s].readers[0] > position for s in crossing)
            if position + 1 < self.stop and not is_apart:
                continue
            positions, kept = range(first, position + 1), whole | crossing
            found = self.model.segment_depths(positions, entering, self.roots, kept, self.pixels)
            for root, depth in found.items():
                together = depths.get(root, 1) + depth - 1
                depths[root] = min(together, self.model.rows_of(root).height)
            first, entering = position + 1, next(iter(crossing), -1)
        return depths

    def base_bytes(self) -> int:
        """Everything in use, as if nothing overlapped."""
        model, positions = self.model, range(self.start, self.stop)
        tensors = sum(model.aligned(model.held[s].size_bytes) for s in (*self.across, *self.dying, *self.outs))
        works = [(model.scratch(p, self.pixels), model.items[p].accumulates) for p in positions]
        passing = max((size for size, lasts in works if not lasts), default=0)
        lasting = sum(size for size, lasts in works if lasts)
        return tensors + self.ring_bytes + passing + lasting + COUNTER_BYTES * len(positions)

    def distances(self) -> dict[tuple[int, int], int]:
        """How far apart every output and every input that dies must be."""
        model = self.model
        actors = model.actors(range(self.start, self.stop), self.roots, self.pixels)
        lower = {o: model.rows_of(o).row_bytes for o in self.outs}
        upper = {v: model.rows_of(v).row_bytes for v in self.dying}
        found = overlap_distances(actors, self.depths, lower, upper)
        return {(o, v): found.get((o, v), FREELY) for o in self.outs for v in self.dying}


def _streams(node: Node, needs: KernelNeeds) -> bool:
    """True iff the node may be a step of a stream: one image, one result, a kernel that takes rows."""
    if len(node.outputs) != 1 or not node.inputs or node.inputs[0].is_constant:
        return False
    tensors = (node.output.type, *(v.type for v in node.inputs if not v.is_constant))
    if any(t.rank == 4 and t.shape[0] != 1 for t in tensors) or any(t.elements == 0 for t in tensors):
        return False
    return needs.computes_rows(node)


def _aligned_scratch(size: int) -> int:
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def _kept(graph: Graph, shared: StorageMap, keep_inputs: bool) -> set[int]:
    values: Iterable[Value] = [*graph.results(), *(state.read for state in graph.states)]
    if keep_inputs:
        values = [*values, *graph.inputs]
    return {shared.places[id(v)].storage for v in values if not v.is_constant}
