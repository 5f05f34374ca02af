"""A range of nodes as one stream: which storages it makes, reads and passes by, how deep its rings are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trivet.planning.layout import COUNTER_BYTES
from trivet.planning.schedule import Depths, overlap_distances

if TYPE_CHECKING:
    from trivet.planning.streams import StreamModel

FREELY = -(1 << 30)
"""The distance of buffers that may overlap at will."""

Members = tuple[int, ...]
"""Positions of nodes, and numbers of blocks beyond them."""


class Range:
    """One range as a stream of members: its nodes, or blocks in the place of some of them."""

    def __init__(self, model: StreamModel, start: int, stop: int, members: Members, pixels: int = 1) -> None:
        self.model, self.start, self.stop, self.members, self.pixels = model, start, stop, members, pixels
        self.roots = self._find_roots()
        held = model.held
        made = [model.item(m).storage for m in members]
        self.outs = sorted({self.roots[s] for s in made if held[s].last_use() >= stop})
        live = model.live_before(start)
        self.dying = sorted(s for s in live if held[s].last_use() < stop)
        self.across = sorted(s for s in live if held[s].last_use() >= stop)
        self.over_sums = self._find_over_sums()
        self.apart = [s for s in self.outs if s not in self.over_sums]
        self.depths = self._find_depths()
        self.ring_bytes = sum(
            model.aligned(depth * model.rows_of(root).row_bytes) for root, depth in self.depths.items()
        )

    def _find_roots(self) -> dict[int, int]:
        """For each storage made in the range the one whose memory it takes."""
        roots: dict[int, int] = {}
        for member in self.members:
            storage = self.model.item(member).storage
            target = self.model.taken_over(member, self.start)
            roots[storage] = storage if target is None else roots[target]
        return roots

    def _find_over_sums(self) -> dict[int, int]:
        """Bytes of sums that results of accumulations lie over, by the results' storages."""
        found: dict[int, int] = {}
        for member in self.members:
            item = self.model.item(member)
            if item.over_sums and self.roots[item.storage] == item.storage:
                size = self.model.aligned(self.model.held[item.storage].size_bytes)
                found[item.storage] = min(size, self.model.scratch(member, self.pixels))
        return {storage: size for storage, size in found.items() if size}

    def _find_depths(self) -> Depths:
        """Ring depths, segment by segment: where one value alone comes over, what lies before and after is apart.

        A ring that goes on in the next segment, as its rows are overwritten in place, must hold the rows that wait in
        each: row w comes at most depth - 1 rows after the row that leaves one segment, and so on.
        """
        whole, depths = set(self.outs), dict[int, int]()
        first, entering, crossing = 0, -1, set[int]()
        for index, member in enumerate(self.members):
            item, position, held = self.model.item(member), self.model.place(member), self.model.held
            crossing.add(item.storage)
            crossing = {s for s in crossing if any(position < reader < self.stop for reader in held[s].readers)}
            is_apart = len(crossing) < 2 and all(held[s].readers[0] > position for s in crossing)
            if index + 1 < len(self.members) and not is_apart:
                continue
            members, kept = self.members[first : index + 1], whole | crossing
            found = self.model.segment_depths(members, entering, self.roots, kept, self.pixels)
            for root, depth in found.items():
                together = depths.get(root, 1) + depth - 1
                depths[root] = min(together, self.model.rows_of(root).height)
            first, entering = index + 1, next(iter(crossing), -1)
        return depths

    def base_bytes(self) -> int:
        """Everything in use, as if nothing overlapped."""
        model = self.model
        tensors = sum(model.aligned(model.held[s].size_bytes) for s in (*self.across, *self.dying, *self.outs))
        works = [(model.scratch(m, self.pixels), model.item(m).lasts) for m in self.members]
        passing = max((size for size, lasts in works if not lasts), default=0)
        lasting = sum(size for size, lasts in works if lasts)
        return (
            tensors
            + self.ring_bytes
            + passing
            + lasting
            + COUNTER_BYTES * len(self.members)
            - sum(self.over_sums.values())
        )

    def distances(self) -> dict[tuple[int, int], int]:
        """How far apart every output that lies over no sums and every input that dies must be."""
        model = self.model
        actors = model.actors(self.members, self.roots, self.pixels)
        lower = {o: model.rows_of(o).row_bytes for o in self.apart}
        upper = {v: model.rows_of(v).row_bytes for v in self.dying}
        found = overlap_distances(actors, self.depths, lower, upper)
        return {(o, v): found.get((o, v), FREELY) for o in self.apart for v in self.dying}
