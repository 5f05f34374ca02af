"""What a range of nodes costs when some values lie in slow memory: bytes of both memories, traffic, kernel calls.

A value in slow memory is read and written where it lies, row by row, or a copy of it is in fast memory while the range
runs: a ring that a copy fills row by row, or all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from trivet.core.record import dataclass
from trivet.ir.graph import Value
from trivet.planning.layout import COUNTER_BYTES
from trivet.planning.schedule import Actor, Depths, Ring, make_link, minimal_depths, overlap_distances
from trivet.planning.streams import StreamModel
from trivet.planning.traffic import rows_read

Storages = frozenset[int]
"""Numbers of storages of a model."""

NOTHING: Storages = frozenset()


@dataclass(frozen=True, slots=True)
class Way:
    """How positions start <= p < stop run.

    Of the slow values that they read, `rings` come through a ring, `loads` are copied whole, of which `kept` stay in
    fast memory, and the rest is read in place. Of their results, `slow` go to slow memory, `stored` of them through a
    ring that the range reads as well.
    """

    start: int
    stop: int
    by_rows: bool
    rings: Storages = NOTHING
    loads: Storages = NOTHING
    kept: Storages = NOTHING
    slow: Storages = NOTHING
    stored: Storages = NOTHING
    pixels: int = 1


@dataclass(frozen=True, slots=True)
class Flow:
    """Storages that a range reads, of those there before it; makes for later; and how it reads each, with edges."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    reads: dict[int, int] = field(default_factory=dict)
    inner: Storages = NOTHING


class Spilling:
    """Prices of ways through a model."""

    def __init__(self, model: StreamModel) -> None:
        self.model = model
        self._flows: dict[tuple[int, int], Flow] = {}
        self._depths: dict[tuple[object, ...], tuple[Depths, int]] = {}
        self._resting: dict[tuple[int, Storages], tuple[Storages, int]] = {}
        self._works: dict[tuple[int, int, int], int] = {}
        self._segments: dict[tuple[object, ...], Depths] = {}
        self.single = frozenset(
            number for number, storage in enumerate(model.shared.storages) if len(storage.values) == 1
        )
        self.outputs = self._storages(v for v in model.graph.outputs if not v.is_constant)
        self.states = self._storages(state.read for state in model.graph.states)
        self.inputs = self._storages(v for v in model.graph.inputs if v.uses)
        self._live = [frozenset(model.live_before(p)) for p in range(len(model.items) + 1)]
        self._sizes = [model.aligned(held.size_bytes) for held in model.held]
        self._last_use = [held.last_use() for held in model.held]
        self._rows = [model.rows_of(s) for s in range(len(model.held))]
        self._bytes_read = [self._read_by(p) for p in range(len(model.items))]
        self._made = [self._made_by(p) for p in range(len(model.items))]

    def _storages(self, values: Iterable[Value]) -> Storages:
        return frozenset(self.model.shared.places[id(value)].storage for value in values)

    def size(self, storage: int) -> int:
        return self._sizes[storage]

    def sizes(self, storages: Iterable[int]) -> int:
        return sum([self._sizes[s] for s in storages])

    def lasts(self, storage: int, stop: int) -> bool:
        """True iff the storage is in use at `stop` or later."""
        return self._last_use[storage] >= stop

    # What a range touches.

    def flow(self, start: int, stop: int) -> Flow:
        key = (start, stop)
        if key not in self._flows:
            self._flows[key] = self._find_flow(start, stop)
        return self._flows[key]

    def _find_flow(self, start: int, stop: int) -> Flow:
        held, reads, made = self.model.held, dict[int, int](), dict[int, None]()
        for position in range(start, stop):
            for storage, size in self._bytes_read[position]:
                reads[storage] = reads.get(storage, 0) + size
            made.update(self._made[position])
        outs = tuple(s for s in made if self.lasts(s, stop))
        ins = tuple(s for s in reads if held[s].maker < start)
        return Flow(ins, outs, reads, frozenset(s for s in outs if s in reads))

    def _read_by(self, position: int) -> list[tuple[int, int]]:
        """Bytes that a node by itself reads of each operand in place, every time counted."""
        item, found = self.model.items[position], []
        for storage, edge in item.reads:
            rows, row_bytes = (
                edge.height if item.accumulates else rows_read(edge, item.height),
                self._rows[storage].row_bytes,
            )
            images = self.model.shared.storages[storage].size_bytes // max(1, edge.height * row_bytes)
            found.append((storage, rows * row_bytes * max(1, images)))
        return found

    def _made_by(self, position: int) -> dict[int, None]:
        places = self.model.shared.places
        return {places[id(value)].storage: None for value in self.model.items[position].node.outputs}

    def has_rows(self, start: int, stop: int, storage: int) -> bool:
        """True iff the range reads the storage by its own rows only, so that a ring may hold them."""
        return not any(storage in self.model.items[p].reshaped for p in range(start, stop))

    # Costs.

    def traffic(self, way: Way, fast: Storages) -> int:
        """Bytes that kernels and copies of a way read from slow memory or write to it; `fast` is in fast memory."""
        flow, total = self.flow(way.start, way.stop), 0
        for storage in flow.ins:
            if storage in way.rings or storage in way.loads:
                total += self.model.held[storage].size_bytes
            elif storage not in fast:
                total += flow.reads[storage]
        for storage in way.slow:
            total += self.model.held[storage].size_bytes
            if storage in flow.inner and storage not in way.stored:
                total += flow.reads[storage]
        return total

    def calls(self, way: Way) -> int:
        """Kernel calls beyond one a node."""
        copies = len(way.loads)
        if not way.by_rows:
            return copies
        moved = sum(self._rows[s].height for s in (*way.rings, *way.stored))
        return self._firings(way) - (way.stop - way.start) + copies + moved // max(1, way.pixels // 16)

    def _firings(self, way: Way) -> int:
        key = (-1 - way.start, way.stop, way.pixels)
        if key not in self._works:
            items = enumerate(self.model.items[way.start : way.stop], way.start)
            self._works[key] = sum(-(-i.height // self.model.rows_a_firing(p, way.pixels)) for p, i in items)
        return self._works[key]

    def _work_bytes(self, way: Way) -> int:
        """Work space of the steps: what passes is shared, sums last."""
        key = (way.start, way.stop, way.pixels)
        if key not in self._works:
            model, positions = self.model, range(way.start, way.stop)
            works = [(model.scratch(p, way.pixels), model.items[p].accumulates) for p in positions]
            passing = max((size for size, lasts in works if not lasts), default=0)
            self._works[key] = passing + sum(size for size, lasts in works if lasts)
        return self._works[key]

    def fits_slow(self, way: Way, fast: Storages, limit: int) -> bool:
        """True iff slow memory holds what is there while a way runs.

        Results of a stream may lie over what it reads as far as can be; whether they do is for the addresses to say.
        """
        key = (way.start, fast)
        if key not in self._resting:
            live = self._live[way.start] - fast
            self._resting[key] = live, self.sizes(live)
        live, total = self._resting[key]
        total += self.sizes(way.slow)
        if total <= limit or not way.by_rows:
            return total <= limit
        reads = self.flow(way.start, way.stop).reads
        dying = [s for s in live if not self.lasts(s, way.stop) and s in reads]
        return total - min(self.sizes(dying), self.sizes(way.slow)) <= limit

    def fast_bytes(self, way: Way, fast: Storages, limit: int) -> tuple[int, bool] | None:
        """Bytes of fast memory in use, and whether outputs must overlap inputs for that; None if over the limit."""
        live = self._live[way.start] & fast
        outs = [s for s in self.flow(way.start, way.stop).outs if s not in way.slow]
        total = self.sizes(live) + self.sizes(outs) + self.sizes(way.loads)
        if not way.by_rows:
            return self._whole_bytes(way, live, outs, total, limit)
        total += self._work_bytes(way)
        total += COUNTER_BYTES * (way.stop - way.start + len(way.rings) + len(way.loads) + len(way.stored))
        dying = [s for s in live if not self.lasts(s, way.stop)]
        most = min(self.sizes(outs), self.sizes(dying))
        if total - most > limit:
            return None
        depths, ring_bytes = self.depths(way)
        total += ring_bytes
        if total <= limit:
            return total, False
        if total - most > limit or not outs or not dying:
            return None
        total -= self._gain(way, depths, outs, dying)
        return (total, True) if total <= limit else None

    def _whole_bytes(
        self, way: Way, live: Storages, outs: Sequence[int], total: int, limit: int
    ) -> tuple[int, bool] | None:
        """One node that makes its whole result, which may overwrite an operand that dies."""
        item = self.model.items[way.start]
        total += item.scratch_whole
        if item.storage in outs:
            dying = [s for s in item.overwrites if s in live and self.model.held[s].last_use() <= way.start]
            total -= self.size(dying[0]) if dying else 0
        return (total, False) if total <= limit else None

    def _gain(self, way: Way, depths: Depths, outs: Sequence[int], dying: Sequence[int]) -> int:
        """The most bytes that a result shares with a value that dies."""
        model, roots = self.model, self.roots(way)
        actors = self._actors(range(way.start, way.stop), roots, way.pixels, tuple(sorted(way.rings)))
        lower = {roots[o]: model.rows_of(o).row_bytes for o in outs}
        upper = {v: model.rows_of(v).row_bytes for v in dying}
        found = overlap_distances(actors, depths, lower, upper)
        return max(self._shared(o, v, found.get((o, v), -(1 << 30))) for o in lower for v in upper)

    def _shared(self, lower: int, upper: int, distance: int) -> int:
        out, inp = self.size(lower), self.size(upper)
        return out + inp - max(out, self.model.aligned(max(distance, 0)) + inp)

    # Rings.

    def roots(self, way: Way) -> dict[int, int]:
        """For each storage made in the range the one whose memory it takes; slow results take none."""
        roots: dict[int, int] = {}
        for position in range(way.start, way.stop):
            storage = self.model.items[position].storage
            target = self.model.taken_over(position, way.start)
            if target is None or storage in way.slow:
                roots[storage] = storage
            else:
                roots[storage] = roots[target]
        return roots

    def depths(self, way: Way) -> tuple[Depths, int]:
        """Ring depths of a way by rows, segment by segment as without slow values, and the bytes of the rings."""
        key = (way.start, way.stop, way.rings, way.slow, way.stored, way.pixels)
        if key not in self._depths:
            depths = self._find_depths(way)
            ring_bytes = sum(self.model.aligned(depth * self._rows[root].row_bytes) for root, depth in depths.items())
            self._depths[key] = depths, ring_bytes
        return self._depths[key]

    def _find_depths(self, way: Way) -> Depths:
        model, roots, depths = self.model, self.roots(way), dict[int, int]()
        whole = {roots[s] for s in self.flow(way.start, way.stop).outs if s not in way.stored}
        first, entering, crossing = way.start, tuple(sorted(way.rings)), set(way.rings)
        for position in range(way.start, way.stop):
            crossing.add(model.items[position].storage)
            crossing = {s for s in crossing if any(position < r < way.stop for r in model.held[s].readers)}
            fresh = all(not any(way.start <= r <= position for r in model.held[s].readers) for s in crossing)
            if position + 1 < way.stop and not (len(crossing) < 2 and fresh):
                continue
            found = self._segment(range(first, position + 1), entering, roots, whole | crossing, way.pixels)
            for root, depth in found.items():
                depths[root] = min(depths.get(root, 1) + depth - 1, model.rows_of(root).height)
            first, entering = position + 1, tuple(sorted(crossing))
        return depths

    def _segment(
        self, positions: range, entering: tuple[int, ...], roots: dict[int, int], whole: set[int], pixels: int
    ) -> Depths:
        written = [roots[self.model.items[p].storage] for p in positions] + [roots.get(e, e) for e in entering]
        key = (positions, entering, tuple(written), tuple(root in whole for root in written), pixels)
        if key not in self._segments:
            actors = self._actors(positions, roots, pixels, entering)
            rings = [self._ring(s) for s in sorted({a.storage for a in actors} - whole)]
            self._segments[key] = minimal_depths(actors, rings)
        return self._segments[key]

    def _ring(self, root: int) -> Ring:
        rows = self.model.rows_of(root)
        return Ring(root, rows.height, rows.row_bytes)

    def _actors(self, positions: range, roots: dict[int, int], pixels: int, entering: tuple[int, ...]) -> list[Actor]:
        """The positions as actors; what enters is made by actors that need nothing."""
        model, actors, sources = self.model, list[Actor](), dict[int, int]()
        for storage in entering:
            sources[storage] = len(actors)
            rows = self._rows_entering(storage, pixels)
            actors.append(Actor(model.rows_of(storage).height, roots.get(storage, storage), False, (), rows))
        for position in positions:
            item, rows = model.items[position], model.rows_a_firing(position, pixels)
            links = tuple(
                make_link(replace(edge, source=sources.get(s)), roots.get(s, s), item.height, rows)
                for s, edge in item.reads
            )
            sources[item.storage] = len(actors)
            actors.append(Actor(item.height, roots[item.storage], item.accumulates, links, rows))
        return actors

    def _rows_entering(self, storage: int, pixels: int) -> int:
        maker = self.model.held[storage].maker
        if maker >= 0:
            return self.model.rows_a_firing(maker, pixels)
        type_ = self.model.shared.storages[storage].values[0].type
        width = type_.shape[2] if type_.rank == 4 else 1
        return min(max(1, pixels // width), self.model.rows_of(storage).height)
