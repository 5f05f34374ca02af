"""First fit: the lowest legal address for each block, in an order that the solvers choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trivet.planning.memory.problem import Block, Placement, Problem, Spot


class FirstFit:
    """Places blocks one by one. Pinned blocks stand from the start.

    A block that fits in none of its regions goes to the last of them, past the end, so that the excess can be told.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        blocks = problem.blocks
        self.rivals = _rivals(blocks)
        self._below: dict[tuple[int, int], int] = {}
        for overlap in problem.overlaps:
            key = (overlap.lower, overlap.upper)
            self._below[key] = min(overlap.distance, self._below.get(key, overlap.distance))
        self._pinned = {i: block.fixed for i, block in enumerate(blocks) if block.fixed is not None}

    def place(self, order: Iterable[int]) -> Placement:
        """Addresses when blocks are placed in this order (a permutation of all indices)."""
        spots: dict[int, Spot] = dict(self._pinned)
        for index in order:
            if index not in spots:
                spots[index] = self._choose(index, spots)
        return Placement(tuple(spots[i] for i in range(len(self.problem.blocks))))

    def _choose(self, index: int, spots: dict[int, Spot]) -> Spot:
        block = self.problem.blocks[index]
        preference = self.problem.preference(block)
        for region in preference:
            offset = self.lowest(index, region, spots)
            size = self.problem.size_of(region)
            if size is None or offset + block.size_bytes <= size:
                return Spot(region, offset)
        return Spot(preference[-1], offset)

    def lowest(self, index: int, region: str, spots: dict[int, Spot]) -> int:
        """The lowest aligned offset that no placed rival forbids."""
        alignment = self.problem.blocks[index].alignment
        forbidden = sorted(
            self._forbidden(index, rival, spots[rival].offset)
            for rival in self.rivals[index]
            if rival in spots and spots[rival].region == region
        )
        offset = 0
        for low, high in forbidden:
            if low < offset < high:
                offset = -(-high // alignment) * alignment
        return offset

    def _forbidden(self, index: int, rival: int, at: int) -> tuple[int, int]:
        """The open interval of offsets that block `index` may not have while `rival` stands at `at`."""
        mine, theirs = self.problem.blocks[index].size_bytes, self.problem.blocks[rival].size_bytes
        if mine == 0 or theirs == 0:
            return at, at
        as_lower = self._below.get((index, rival), mine)
        as_upper = self._below.get((rival, index), theirs)
        return at - min(mine, as_lower), at + min(theirs, as_upper)


def _rivals(blocks: Sequence[Block]) -> list[list[int]]:
    """For each block the others that are in use with it at some moment."""
    rivals: list[list[int]] = [[] for _ in blocks]
    active: list[int] = []
    for index in sorted(range(len(blocks)), key=lambda i: blocks[i].birth):
        active = [other for other in active if blocks[other].death >= blocks[index].birth]
        for other in active:
            rivals[other].append(index)
            rivals[index].append(other)
        active.append(index)
    return rivals
