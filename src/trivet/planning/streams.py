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
from trivet.planning.blocks import STRIPS, Group, block_node
from trivet.planning.layout import SCRATCH_ALIGNMENT
from trivet.planning.plan import Edge, KernelNeeds
from trivet.planning.ranges import Members, Range
from trivet.planning.rows import Rows, counted_rows, reduces_rows, row_edge
from trivet.planning.schedule import Actor, Depths, Link, Ring, RowsRead, minimal_depths, rows_by_firing

MAX_RANGE = 80
"""Nodes that a stream holds at most, which bounds the search."""


@dataclass(frozen=True, slots=True)
class BlockWay:
    """Which blocks may stand in a range: of so many pixels a strip, and what a repeated multiply-accumulate must save.

    `bytes_a_mac` None: nothing is computed again.
    """

    strip: int
    bytes_a_mac: float | None = None


ANY_WAY = -1
"""The number of no way: all blocks may stand in a range, and nothing has a price."""

WITHOUT_REPEATS = tuple(map(BlockWay, STRIPS))
WITH_REPEATS = (
    BlockWay(STRIPS[0], 0.01),
    BlockWay(STRIPS[0], 0.002),
    BlockWay(STRIPS[0], 0.0),
    BlockWay(STRIPS[-1], 0.0),
)


@dataclass(frozen=True, slots=True)
class Item:
    """A node that runs: what it reads, with edges in rows of the storage's first value, and what it may overwrite.

    It counts `height` rows of `width` pixels: of its result, of its operand if it accumulates. `lasts`: it has work
    space of its own from its first firing to its last. A firing is about as long as `calls` of kernels. `over_sums`:
    its result may lie over that work space.
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
    lasts: bool
    calls: int = 1
    over_sums: bool = False


@dataclass(frozen=True, slots=True)
class Fused:
    """A block in the place of the nodes at positions first <= p <= last."""

    first: int
    last: int
    group: Group
    item: Item
    repeated_macs: int


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
    With `groups` some of its nodes are blocks: then the stream is priced once more when it is made.
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
    pixels: int = 1
    groups: tuple[Group, ...] = ()
    repeated_macs: int = 0


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
        groups: Sequence[Group] = (),
        overwrite: bool = True,
    ) -> None:
        self.keep_inputs = keep_inputs
        again = any(not group.op.keeps_lines for group in groups)
        self.ways = (*WITHOUT_REPEATS, *(WITH_REPEATS if again else ())) if groups else ()
        self.slow = slow
        self.graph, self.nodes, self.needs, self.alignment = graph, tuple(nodes), needs, alignment
        self.overwriting = frozenset(id(node) for node in nodes if overwrite and needs.overwrites(node))
        sharing = Sharing(in_place=False, parts=False, keep_inputs=keep_inputs)
        self.shared = share_storage(graph, layer_by_layer(nodes), sharing)
        self._rows = [Rows.of(storage.values[0].type) for storage in self.shared.storages]
        self.working = [node for node in nodes if id(node) not in self.shared.idle]
        self.items = self._make_items(needs)
        self.held = self._make_held(keep_inputs)
        self._live: dict[int, set[int]] = {}
        self._scratch: dict[tuple[int, int], int] = {}
        self.blocks = self._make_blocks(groups)
        self._starting: dict[int, list[int]] = {}
        for member, block in enumerate(self.blocks, len(self.items)):
            self._starting.setdefault(block.first, []).append(member)
        self._packings: dict[tuple[int, int, int, bool], tuple[int, Members]] = {}
        self._ranges: dict[tuple[int, int, int, Members], Range] = {}
        self._segments: dict[tuple[Members, int, tuple[int, ...], tuple[bool, ...], int], Depths] = {}
        self._windows: dict[tuple[int, int, int], RowsRead] = {}

    # What a range costs.

    def whole(self, position: int) -> Candidate:
        """One node that makes its whole result."""
        item = self.items[position]
        live = self.live_before(position) | {item.storage}
        total = sum(self.aligned(self.held[s].size_bytes) for s in live) + item.scratch_whole
        total -= self.overwritten_bytes(position)
        return Candidate(position, position + 1, total, total)

    def overwritten_bytes(self, position: int) -> int:
        """Bytes that a node running alone saves as it writes its result over an operand."""
        target = self._overwritten(position)
        return 0 if target is None else self.aligned(self.held[target].size_bytes)

    def stream(
        self, start: int, stop: int, limit: int, pixels: int = 1, members: Members | None = None
    ) -> Candidate | None:
        """The range as a stream of rows; None if it needs more than `limit` bytes.

        A firing makes as many rows as have about `pixels` pixels, at least one.
        """
        members = tuple(range(start, stop)) if members is None else members
        span = self._range(start, stop, pixels, members)
        base = span.base_bytes()
        gain = max((self._most_gain(o, v) for o in span.apart for v in span.dying), default=0)
        if base - gain > limit:
            return None
        distances: dict[tuple[int, int], int] = {}
        if gain:
            distances = span.distances()
            gain = max(self._gain(o, v, distances[o, v]) for o in span.apart for v in span.dying)
        if base - gain > limit:
            return None
        return Candidate(
            start,
            stop,
            base - gain,
            base,
            True,
            sum(-(-self.item(m).height // self.rows_a_firing(m, pixels)) * self.item(m).calls for m in members),
            {id(self.item(m).node): self.rows_a_firing(m, pixels) for m in members},
            {self._name(root): depth for root, depth in span.depths.items()},
            {
                (self._name(o), self._name(v)): distance
                for (o, v), distance in distances.items()
                if self.held[o].size_bytes and self.held[v].size_bytes
            },
            pixels,
            tuple(self.blocks[m - len(self.items)].group for m in members if m >= len(self.items)),
            sum(map(self.repeated_macs, members)),
        )

    def item(self, member: int) -> Item:
        """A node or a block."""
        return self.items[member] if member < len(self.items) else self.blocks[member - len(self.items)].item

    def place(self, member: int) -> int:
        """The position of a node, or of the last node in a block."""
        return member if member < len(self.items) else self.blocks[member - len(self.items)].last

    def members(self, start: int, stop: int, way: int) -> Members:
        """The range with those blocks that save most, as if every value had one reader, its first.

        A member costs the rows that it reads and the work space that it keeps.
        """
        return self._packed(start, stop, way, start)[1]

    def _packed(self, position: int, stop: int, way: int, start: int) -> tuple[int, Members]:
        """The least cost of the nodes from a position of a range on, and how they are grouped."""
        if position == stop:
            return 0, ()
        key = (position, stop, way, position == start)
        if key not in self._packings:
            found = []
            for member in (position, *self._starting.get(position, ())):
                last = self.place(member)
                price = self._price(member, way)
                if last < stop and price is not None:
                    cost, rest = self._packed(last + 1, stop, way, start)
                    found.append((cost + price + self._held_by(member, start), (member, *rest)))
            self._packings[key] = min(found)
        return self._packings[key]

    def _price(self, member: int, way: int) -> int | None:
        """Bytes that a member must save for what it computes again; None where it must not."""
        if member < len(self.items) or way == ANY_WAY:
            return 0
        block, allowed = self.blocks[member - len(self.items)], self.ways[way]
        if block.group.op.strip != allowed.strip or (block.repeated_macs and allowed.bytes_a_mac is None):
            return None
        return round((allowed.bytes_a_mac or 0.0) * block.repeated_macs)

    def repeated_macs(self, member: int) -> int:
        """Multiply-accumulates of a block that its layers do not have."""
        return self.blocks[member - len(self.items)].repeated_macs if member >= len(self.items) else 0

    def _held_by(self, member: int, start: int) -> int:
        """Bytes that a range from `start` on holds for a member."""
        item = self.item(member)
        held = self.scratch(member, 1) if item.lasts else 0
        if self.taken_over(member, start) is not None:
            return held
        first = member if member < len(self.items) else self.blocks[member - len(self.items)].first
        made = ((s, e) for s, e in item.reads if self.held[s].maker >= start and self.held[s].readers[0] == first)
        return held + sum(min(edge.extent, edge.height) * self.rows_of(s).row_bytes for s, edge in made)

    def rows_a_firing(self, position: int, pixels: int) -> int:
        item = self.item(position)
        return min(max(1, pixels // item.width), item.height)

    def scratch(self, position: int, pixels: int) -> int:
        """Work space of a firing."""
        key = (position, pixels)
        if key not in self._scratch:
            rows = self.rows_a_firing(position, pixels)
            self._scratch[key] = _aligned_scratch(self.needs.scratch_bytes(self.item(position).node, rows))
        return self._scratch[key]

    def can_stream(self, start: int, stop: int) -> bool:
        """True iff all nodes take rows, and none reads rows made in the range as rows of another shape."""
        items = self.items[start:stop]
        return all(item.by_rows for item in items) and not any(
            start <= self.held[storage].maker < stop for item in items for storage in item.reshaped
        )

    def least_bytes(self, start: int, stop: int) -> int:
        """What the rings and the lasting work space of a range take at least, whichever blocks stand in it.

        It only grows as the range gets longer.
        """
        return self._packed(start, stop, ANY_WAY, start)[0]

    def _range(self, start: int, stop: int, pixels: int, members: Members) -> Range:
        key = (start, stop, pixels, members)
        if key not in self._ranges:
            self._ranges[key] = Range(self, start, stop, members, pixels)
        return self._ranges[key]

    # Storages.

    def _name(self, storage: int) -> int:
        return id(self.shared.storages[storage].values[0])

    def aligned(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def live_before(self, position: int) -> set[int]:
        """Storages that hold something when the node at `position` starts."""
        if position not in self._live:
            self._live[position] = {s for s, h in enumerate(self.held) if h.maker < position <= h.last_use()}
        return self._live[position]

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
        for storage in self.item(position).overwrites:
            held = self.held[storage]
            if held.maker >= start and held.readers == (position,) and not held.kept:
                return storage
        return None

    def segment_depths(
        self, members: Members, entering: int, roots: dict[int, int], whole: set[int], pixels: int
    ) -> Depths:
        """Ring depths of consecutive members when `entering` (-1: nothing) comes in row by row."""
        written = [roots[self.item(m).storage] for m in members]
        if entering >= 0:
            written.append(roots[entering])
        key = (members, entering, tuple(written), tuple(root in whole for root in written), pixels)
        if key not in self._segments:
            actors = self.actors(members, roots, pixels, entering)
            rings = [self._ring(s) for s in sorted({a.storage for a in actors} - whole)]
            self._segments[key] = minimal_depths(actors, rings)
        return self._segments[key]

    def _ring(self, root: int) -> Ring:
        rows = self.rows_of(root)
        return Ring(root, rows.height, rows.row_bytes)

    def actors(self, members: Members, roots: dict[int, int], pixels: int, entering: int = -1) -> list[Actor]:
        """The members as actors; `entering` is made by one more that needs nothing."""
        actors = []
        sources: dict[int, int] = {}
        if entering >= 0:
            rows = self.rows_a_firing(self.held[entering].maker, pixels)
            actors.append(Actor(self.rows_of(entering).height, roots[entering], False, (), rows))
            sources[entering] = 0
        for member in members:
            item, rows = self.item(member), self.rows_a_firing(member, pixels)
            links = tuple(
                Link(sources.get(s), roots.get(s, s), *self._rows_read(member, number, edge, rows))
                for number, (s, edge) in enumerate(item.reads)
            )
            sources[item.storage] = len(actors)
            actors.append(Actor(item.height, roots[item.storage], item.accumulates, links, rows))
        return actors

    def _rows_read(self, position: int, number: int, edge: Edge, rows: int) -> RowsRead:
        """What a node reads of its operand `number` with so many rows a firing; the same tuples every time."""
        key = (position, number, rows)
        if key not in self._windows:
            self._windows[key] = rows_by_firing(edge, self.item(position).height, rows)
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
            lasts=accumulates or needs.keeps_scratch(node),
            over_sums=accumulates and by_rows and needs.over_sums(node),
        )

    def _make_blocks(self, groups: Sequence[Group]) -> list[Fused]:
        """Blocks of nodes that follow each other."""
        places = {id(node): position for position, node in enumerate(self.working)}
        fused = []
        for group in groups:
            first, last = (places.get(id(node), -1) for node in (group.nodes[0], group.nodes[-1]))
            if first >= 0 and last - first + 1 == len(group.nodes):
                item = self._block_item(group, last)
                fused.append(Fused(first, last, group, item, group.op.repeated_macs(item.node.input_types)))
        return fused

    def _block_item(self, group: Group, last: int) -> Item:
        """A block reads what its first node reads, in the rows of its windows, and makes what its last makes."""
        node, end = block_node(group), self.items[last]
        strips = -(-end.width // group.op.strip)
        return Item(
            node=node,
            storage=end.storage,
            height=end.height,
            width=end.width,
            accumulates=False,
            by_rows=True,
            reads=((self._storage(group.nodes[0].inputs[0]), row_edge(node, 0)),),
            reshaped=(),
            overwrites=(),
            scratch_whole=_aligned_scratch(self.needs.scratch_bytes(node, end.height)),
            lasts=self.needs.keeps_scratch(node),
            calls=len(group.nodes) * strips,
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
        return self._rows[storage]

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
