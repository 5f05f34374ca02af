"""Branch and bound over addresses: the lowest peak, or a solution with a stated gap when the node limit is reached.

Normal form: in any legal placement blocks can be pushed down, lowest first, until each stands at 0 or on another one;
so it is enough to place blocks one after the other, each at the lowest legal address. (With overlaps this holds for
distances >= 0; negative ones are searched as 0, and then nothing is claimed to be proved.)

Branching: take the unplaced block whose top would be lowest. In a normal form that continues the placed blocks, some
unplaced block that is linked to it by blocks in use at the same time, all of which could start below that top, stands
at its lowest legal address now: only those are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trivet.core.late import late
from trivet.core.record import dataclass
from trivet.planning.memory.first_fit import FirstFit
from trivet.planning.memory.hill_climb import hill_climb
from trivet.planning.memory.problem import Placement, Problem, Spot, lower_bound, overlap_gain

if TYPE_CHECKING:
    from trivet.planning.memory import native, portfolio
else:
    native = late("trivet.planning.memory.native")
    portfolio = late("trivet.planning.memory.portfolio")

NODE_LIMIT = 2_000
"""Placements of one block that the search in Python may try in total; a fixed number, so that the answer never depends
on speed."""

NATIVE_NODE_LIMIT = 20_000
"""The same for the search in C."""

SHARES = 3
"""The part of the nodes left that one capacity may use, as a divisor."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A placement, its peak, and a bound that no placement beats."""

    placement: Placement
    peak_bytes: int
    lower_bound: int

    @property
    def proved(self) -> bool:
        return self.peak_bytes == self.lower_bound


def exact(problem: Problem) -> Placement:
    """The best placement that `solve` finds."""
    return solve(problem).placement


def solve(problem: Problem, node_limit: int | None = None, in_c: bool = True) -> Solution:
    """The placement of lowest peak in the problem's only region, as far as the node limit allows.

    The search runs in C where the library is built, unless `in_c` is false. With several regions hill climbing decides
    which block goes where, and the search is for each region on its own.
    """
    start, bound = hill_climb(problem), lower_bound(problem)
    peak = sum(start.peak(problem, region.name) for region in problem.regions)
    best = Solution(start, peak, min(bound, peak))
    if len(problem.regions) > 1 and start.excess(problem) > 0:
        start = _region_by_region(problem, start, node_limit, in_c)
        return Solution(start, sum(start.peak(problem, region.name) for region in problem.regions), best.lower_bound)
    if len(problem.regions) != 1 or best.proved:
        return best
    clipped = replace(problem, overlaps=tuple(replace(o, distance=max(o.distance, 0)) for o in problem.overlaps))
    is_complete = clipped.overlaps == problem.overlaps
    if in_c and native.is_available(problem):
        return _solve_natively(clipped, best, is_complete, node_limit or NATIVE_NODE_LIMIT)
    if any(block.fixed is not None for block in problem.blocks):
        return best
    return _solve_in_python(clipped, best, is_complete, node_limit or NODE_LIMIT)


def _region_by_region(problem: Problem, start: Placement, node_limit: int | None, in_c: bool) -> Placement:
    """Every block stays in its region; addresses are searched for where they exceed it."""
    spots = list(start.spots)
    for region in problem.regions:
        if region.size_bytes is None or start.peak(problem, region.name) <= region.size_bytes:
            continue
        members = [i for i, spot in enumerate(start.spots) if spot.region == region.name]
        found = solve(problem.part(members, region), node_limit, in_c)
        for i, spot in zip(members, found.placement.spots, strict=True):
            spots[i] = spot
    return min(start, Placement(tuple(spots)), key=lambda placement: placement.cost(problem))


def _solve_natively(problem: Problem, best: Solution, is_complete: bool, node_limit: int) -> Solution:
    """The lower bound first, which is often reached; then capacities between it and the peak, halving the gap.

    What a search neither finds nor excludes is taken to be impossible, but not proved to be.
    """
    prepared, region = native.NativeSearch(problem), problem.regions[0].name
    left, proved, low = node_limit, best.lower_bound, best.lower_bound
    capacity = low
    while left > 0 and low < best.peak_bytes:
        found = portfolio.search(prepared, capacity, max(1, left // SHARES))
        left -= max(1, found.nodes)
        if found.placement is not None:
            best = Solution(found.placement, found.placement.peak(problem, region), proved)
        else:
            low = capacity + 1
            proved = low if found.is_impossible and is_complete and capacity >= proved else proved
        capacity = (low + best.peak_bytes - 1) // 2
    return Solution(best.placement, best.peak_bytes, min(proved, best.peak_bytes))


def _solve_in_python(problem: Problem, best: Solution, is_complete: bool, node_limit: int) -> Solution:
    """Placements below the best one, until there is none or the nodes are used up."""
    left = node_limit
    for share, order in ((4, _by_size), (4, _by_area), (1, _by_size)):
        while best.peak_bytes > best.lower_bound and left > 0:
            attempt = _Search(problem, best.peak_bytes - 1, max(1, left // share), order)
            found = attempt.run()
            left -= attempt.nodes
            if found is not None:
                best = Solution(found, found.peak(problem, problem.regions[0].name), best.lower_bound)
            elif attempt.exhausted and is_complete:
                return Solution(best.placement, best.peak_bytes, best.peak_bytes)
            else:
                break
    return best


Key = Callable[[Problem, int], int]


def _by_size(problem: Problem, index: int) -> int:
    return problem.blocks[index].size_bytes


def _by_area(problem: Problem, index: int) -> int:
    block = problem.blocks[index]
    return block.size_bytes * (block.death - block.birth + 1)


class _Search:
    """Is there a placement of at most `capacity` bytes? `exhausted`: the answer None is a proof."""

    def __init__(self, problem: Problem, capacity: int, node_limit: int, key: Key) -> None:
        self.problem, self.capacity, self.node_limit = problem, capacity, node_limit
        self.fit = FirstFit(problem)
        self.nodes = 0
        self.exhausted = False
        self.region = problem.regions[0].name
        self.blocks = problem.blocks
        self.spots: dict[int, Spot] = {}
        self.rank = [key(problem, i) for i in range(len(problem.blocks))]
        self.sections = _sections(problem)
        self.failed: set[tuple[tuple[int, int], ...]] = set()
        self.gains = [(o.lower, o.upper, overlap_gain(problem.blocks, o)) for o in problem.overlaps]

    def run(self) -> Placement | None:
        """A placement, or None."""
        for index, block in enumerate(self.blocks):
            if block.size_bytes == 0:
                self.spots[index] = Spot(self.region, 0)
        offs = {i: 0 for i in range(len(self.blocks)) if i not in self.spots}
        stack = [iter(self._branches(offs))]
        placed: list[int] = []
        trail = [offs]
        while stack:
            if not trail[-1]:
                return Placement(tuple(self.spots[i] for i in range(len(self.blocks))))
            choice = next(stack[-1], None)
            if choice is None:
                self._retreat(stack, placed, trail)
                continue
            if self.nodes >= self.node_limit:
                return None
            self.nodes += 1
            self._advance(choice, stack, placed, trail)
        self.exhausted = True
        return None

    def _advance(self, choice: int, stack: list[Iterator[int]], placed: list[int], trail: list[dict[int, int]]) -> None:
        offs = dict(trail[-1])
        self.spots[choice] = Spot(self.region, offs.pop(choice))
        for rival in self.fit.rivals[choice]:
            if rival in offs:
                offs[rival] = self.fit.lowest(rival, self.region, self.spots)
        is_open = self._may_fit(offs) and self._profile(offs) not in self.failed
        stack.append(iter(self._branches(offs) if is_open else []))
        placed.append(choice)
        trail.append(offs)

    def _retreat(self, stack: list[Iterator[int]], placed: list[int], trail: list[dict[int, int]]) -> None:
        self.failed.add(self._profile(trail[-1]))
        stack.pop()
        trail.pop()
        if placed:
            del self.spots[placed.pop()]

    def _branches(self, offs: dict[int, int]) -> list[int]:
        """The blocks of which one must stand at its lowest address now, the most promising first."""
        if not offs:
            return []
        first = min(offs, key=lambda i: (offs[i] + self.blocks[i].size_bytes, i))
        top = offs[first] + self.blocks[first].size_bytes
        linked, pending = {first}, [first]
        while pending:
            for rival in self.fit.rivals[pending.pop()]:
                if rival in offs and rival not in linked and offs[rival] < top:
                    linked.add(rival)
                    pending.append(rival)
        twins: set[tuple[int, int, int, int, int]] = set()
        chosen = []
        for i in sorted(linked, key=lambda i: (offs[i], -self.rank[i], i)):
            block = self.blocks[i]
            twin = (block.size_bytes, block.birth, block.death, block.alignment, self._overlap_number(i))
            if twin not in twins:
                twins.add(twin)
                chosen.append(i)
        return chosen

    def _overlap_number(self, index: int) -> int:
        """-1 for blocks without overlaps, which may be twins; a number of its own for every other."""
        return index if any(index in (lower, upper) for lower, upper, _ in self.gains) else -1

    def _may_fit(self, offs: dict[int, int]) -> bool:
        """False when the unplaced blocks of some moment certainly do not fit above their lowest address."""
        if any(off + self.blocks[i].size_bytes > self.capacity for i, off in offs.items()):
            return False
        for members in self.sections:
            unplaced = [i for i in members if i in offs]
            if not unplaced:
                continue
            total = sum(self.blocks[i].size_bytes for i in unplaced)
            total -= sum(gain for low, high, gain in self.gains if low in unplaced and high in unplaced)
            if min(offs[i] for i in unplaced) + total > self.capacity:
                return False
        return True

    def _profile(self, offs: dict[int, int]) -> tuple[tuple[int, int], ...]:
        """What the future depends on: the unplaced blocks, through the placed ones that they meet."""
        return tuple(
            (i, spot.offset)
            for i, spot in sorted(self.spots.items())
            if any(rival in offs for rival in self.fit.rivals[i])
        ) + tuple((i, -1) for i in sorted(offs))


def _sections(problem: Problem) -> list[frozenset[int]]:
    """Sets of blocks in use at one time, those inside another left out."""
    blocks = problem.blocks
    found = {
        frozenset(i for i, b in enumerate(blocks) if b.birth <= time <= b.death) for time in {b.birth for b in blocks}
    }
    return sorted((s for s in found if not any(s < other for other in found)), key=sorted)
