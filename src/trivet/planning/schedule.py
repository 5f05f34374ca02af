"""The row loop as the planner sees it: do given ring depths suffice, which are the smallest, what may be overwritten.

Conditions of the loop only ever become true as other actors advance, so one run decides whether depths suffice. The
order of firings that needs least memory is not unique where branches fork, hence depths are searched, not orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial

from trivet.core.record import dataclass
from trivet.planning import row_loop
from trivet.planning.plan import Edge

Depths = dict[int, int]
"""Rows kept of each storage that is a ring; what is not in it is kept whole."""


RowsRead = tuple[tuple[int, ...], tuple[int, ...]]
"""`needs` and `keeps` of a link."""


@dataclass(frozen=True, slots=True)
class Link:
    """What an actor reads of one operand.

    `source` is the actor that makes it (None: it is complete before the stream), `storage` the memory it lies in.
    `needs[f]` is the last row that firing f reads (-1: none), `keeps[f]` the first row that firing f or a later one
    reads (the operand's height: none).
    """

    source: int | None
    storage: int
    needs: tuple[int, ...]
    keeps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Actor:
    """A step of a stream: firing f writes rows [f*rows, (f+1)*rows) of the `height` rows of `storage`.

    One that accumulates counts the rows of its operand instead and writes its only row in the last firing.
    """

    height: int
    storage: int
    accumulates: bool
    links: tuple[Link, ...]
    rows: int = 1

    @property
    def firings(self) -> int:
        return -(-self.height // self.rows)


@dataclass(frozen=True, slots=True)
class Ring:
    """A storage that need not be kept whole."""

    storage: int
    height: int
    row_bytes: int


SEARCH_FIRINGS = 400_000
"""Firings that the search for ring depths in one part of a stream may replay, which bounds its time."""

OnFire = Callable[[int, int, Sequence[int]], None]
"""Called with actor, firing and the firings of all actors before it."""


def make_link(edge: Edge, storage: int, height: int, rows: int = 1) -> Link:
    """The link of an edge for an actor of so many rows, `rows` a firing."""
    needs, keeps = rows_by_firing(edge, height, rows)
    return Link(edge.source, storage, needs, keeps)


@lru_cache(maxsize=4096)
def rows_by_firing(edge: Edge, height: int, rows: int) -> RowsRead:
    """`needs` and `keeps` of a link, for an actor of so many rows."""
    needs, keeps = [], [edge.height]
    for row in reversed(range(height)):
        first = edge.first(row)
        keeps.append(keeps[-1] if first is None else min(first, keeps[-1]))
    keeps.reverse()
    for start in range(0, height, rows):
        lasts = (edge.last(row) for row in range(start, min(start + rows, height)))
        needs.append(max((last for last in lasts if last is not None), default=-1))
    return tuple(needs), (*keeps[:height:rows], keeps[height])


def completes(actors: Sequence[Actor], depths: Depths, on_fire: OnFire | None = None) -> bool:
    """True iff the loop comes to its end with these depths."""
    return _Loop(actors, depths).run(on_fire)


def _trial(actors: Sequence[Actor]) -> Callable[[Depths], bool]:
    """`completes` for many depths of the same actors: in C where the library is built."""
    if row_loop.is_available():
        return row_loop.NativeLoop(actors).completes
    return partial(completes, actors)


class _Loop:
    """Counters of one run."""

    def __init__(self, actors: Sequence[Actor], depths: Depths) -> None:
        self.actors = actors
        self.counts = [actor.firings for actor in actors]
        self.depths = [0 if actor.accumulates else depths.get(actor.storage, 0) for actor in actors]
        self.fired = [0] * len(actors)
        self.made = [0] * len(actors)
        readers: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        for index, actor in enumerate(actors):
            for link in actor.links:
                readers.setdefault(link.storage, []).append((index, link.keeps))
        self.readers = [readers.get(actor.storage, []) for actor in actors]

    def run(self, on_fire: OnFire | None) -> bool:
        left = sum(self.counts)
        while left:
            before = left
            for index, count in enumerate(self.counts):
                while self.fired[index] < count and self.may_fire(index):
                    if on_fire is not None:
                        on_fire(index, self.fired[index], self.fired)
                    self.advance(index)
                    left -= 1
            if left == before:
                return False
        return True

    def may_fire(self, index: int) -> bool:
        firing, made, actor = self.fired[index], self.made, self.actors[index]
        for link in actor.links:
            if link.source is not None and link.needs[firing] >= made[link.source]:
                return False
        depth = self.depths[index]
        overwritten = min(firing * actor.rows + actor.rows, actor.height) - 1 - depth
        return not depth or overwritten < 0 or overwritten < min(self.low(index), firing * actor.rows)

    def low(self, index: int) -> int:
        """The first row of what an actor writes that is still read."""
        fired, low = self.fired, 1 << 30
        for reader, keeps in self.readers[index]:
            row = keeps[fired[reader]]
            low = min(low, row)
        return low

    def advance(self, index: int) -> None:
        actor = self.actors[index]
        self.fired[index] += 1
        if not actor.accumulates:
            self.made[index] = min(self.fired[index] * actor.rows, actor.height)
        elif self.fired[index] == self.counts[index]:
            self.made[index] = 1


def demand_driven_depths(actors: Sequence[Actor], rings: Sequence[Ring]) -> Depths:
    """Depths that suffice when rows are only made once the last actor asks for them."""
    loop = _Loop(actors, {})
    depths = {ring.storage: 1 for ring in rings}

    def fire(index: int) -> None:
        actor = actors[index]
        first = loop.fired[index] * actor.rows
        if actor.storage in depths and not actor.accumulates:
            used = min(first + actor.rows, actor.height) - min(loop.low(index), first)
            depths[actor.storage] = max(depths[actor.storage], used)
        loop.advance(index)

    def demand(index: int) -> None:
        actor = actors[index]
        for link in actor.links:
            while link.source is not None and link.needs[loop.fired[index]] >= loop.made[link.source]:
                demand(link.source)
        fire(index)

    for index in reversed(range(len(actors))):
        while loop.fired[index] < actors[index].firings:
            demand(index)
    return {ring.storage: min(depths[ring.storage], ring.height) for ring in rings}


def minimal_depths(actors: Sequence[Actor], rings: Sequence[Ring]) -> Depths:
    """Depths with few bytes in all that suffice.

    Exact for chains, where the demand-driven ones are least. Where values have several readers or actors join
    branches: rings shrink while the loop completes, then one may grow by a row if others shrink by more.
    """
    depths = demand_driven_depths(actors, rings)
    if not _has_fork(actors):
        return depths
    by_row, suffices = sorted(rings, key=lambda ring: -ring.row_bytes), _trial(actors)
    depths = _shrink(suffices, by_row, depths)
    left = SEARCH_FIRINGS // max(1, sum(actor.firings for actor in actors) * len(rings))
    improved = True
    while improved:
        improved = False
        for ring in rings:
            if depths[ring.storage] == ring.height or left <= 0:
                continue
            left -= 1
            others = [other for other in by_row if other is not ring]
            grown = _shrink(suffices, others, {**depths, ring.storage: depths[ring.storage] + 1})
            if ring_bytes(rings, grown) < ring_bytes(rings, depths):
                depths, improved = _shrink(suffices, by_row, grown), True
    return depths


def ring_bytes(rings: Iterable[Ring], depths: Depths) -> int:
    """Bytes of all rings, without alignment."""
    return sum(depths[ring.storage] * ring.row_bytes for ring in rings)


def _has_fork(actors: Sequence[Actor]) -> bool:
    readers: dict[int, set[int]] = {}
    for index, actor in enumerate(actors):
        for link in actor.links:
            if link.source is not None:
                readers.setdefault(link.storage, set()).add(index)
    return any(len(indices) > 1 for indices in readers.values())


def _shrink(suffices: Callable[[Depths], bool], rings: Sequence[Ring], depths: Depths) -> Depths:
    """Every ring in turn as shallow as the loop allows; what a depth allows, a deeper ring allows too."""
    depths = dict(depths)
    for ring in rings:
        low, high = 1, depths[ring.storage]
        if high > 1 and not suffices({**depths, ring.storage: high - 1}):
            continue
        while low < high:
            middle = (low + high) // 2
            if suffices({**depths, ring.storage: middle}):
                high = middle
            else:
                low = middle + 1
        depths[ring.storage] = high
    return depths


def overlap_distances(
    actors: Sequence[Actor], depths: Depths, lower: dict[int, int], upper: dict[int, int]
) -> dict[tuple[int, int], int]:
    """How far the start of each `upper` must lie above the start of each `lower`, so that writes stay behind reads.

    `lower` are whole storages that the stream writes, `upper` complete ones that it reads for the last time, both with
    their row bytes. The row that a firing reads counts as read until the firing ends; an actor that fires once keeps
    off all of what it reads. A pair that is missing may overlap at will.
    """
    if row_loop.is_available():
        found = row_loop.NativeLoop(actors).distances(depths, lower, upper)
        assert found is not None, "these depths suffice"
        return found
    return distances_in_python(actors, depths, lower, upper)


def distances_in_python(
    actors: Sequence[Actor], depths: Depths, lower: dict[int, int], upper: dict[int, int]
) -> dict[tuple[int, int], int]:
    """`overlap_distances` without the library."""
    readers = {
        storage: [(i, link.keeps) for i, actor in enumerate(actors) for link in actor.links if link.storage == storage]
        for storage in upper
    }
    heights = {storage: max(keeps[-1] for _, keeps in links) for storage, links in readers.items()}
    distances: dict[tuple[int, int], int] = {}

    def on_fire(index: int, firing: int, fired: Sequence[int]) -> None:
        actor = actors[index]
        if actor.storage not in lower or (actor.accumulates and firing < actor.firings - 1):
            return
        written = 1 if actor.accumulates else min((firing + 1) * actor.rows, actor.height)
        for storage, row_bytes in upper.items():
            low = min(keeps[fired[reader]] for reader, keeps in readers[storage])
            if actor.firings == 1 and any(link.storage == storage for link in actor.links):
                low = 0
            if low < heights[storage]:
                distance = written * lower[actor.storage] - low * row_bytes
                key = (actor.storage, storage)
                distances[key] = max(distances.get(key, distance), distance)

    assert completes(actors, depths, on_fire)
    return distances
