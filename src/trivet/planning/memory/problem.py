"""The address problem: blocks that live for a while, regions to put them in, and overlaps that are allowed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from trivet.core.access import Span
from trivet.core.record import dataclass
from trivet.planning.plan import Overlap, Region


@dataclass(frozen=True, slots=True)
class Spot:
    """An address: `offset` bytes into region `region`."""

    region: str
    offset: int


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes that are in use from time `birth` to time `death`, both included.

    `regions` is an order of preference (empty: the problem's own order); `fixed` pins the block to an address.
    """

    name: str
    size_bytes: int
    birth: int
    death: int
    alignment: int = 1
    regions: tuple[str, ...] = ()
    fixed: Spot | None = None

    def meets(self, other: Block) -> bool:
        """True iff both are in use at some moment."""
        return self.birth <= other.death and other.birth <= self.death


@dataclass(frozen=True, slots=True)
class Problem:
    """Blocks to place. `overlaps` refer to blocks by index; every other pair that meets must be disjoint."""

    blocks: tuple[Block, ...]
    regions: tuple[Region, ...]
    overlaps: tuple[Overlap, ...] = ()

    def preference(self, block: Block) -> tuple[str, ...]:
        """The regions that a block may go to, best first."""
        return block.regions or tuple(region.name for region in self.regions)

    def size_of(self, region: str) -> int | None:
        return next(r.size_bytes for r in self.regions if r.name == region)

    def part(self, members: Sequence[int], region: Region) -> Problem:
        """The problem of some blocks, given by index, in one region."""
        place = {i: number for number, i in enumerate(members)}
        overlaps = (o for o in self.overlaps if o.lower in place and o.upper in place)
        moved = tuple(Overlap(place[o.lower], place[o.upper], o.distance) for o in overlaps)
        return Problem(tuple(replace(self.blocks[i], regions=()) for i in members), (region,), moved)


@dataclass(frozen=True, slots=True)
class Placement:
    """One address per block, in the order of the problem's blocks."""

    spots: tuple[Spot, ...]

    def peak(self, problem: Problem, region: str) -> int:
        """One past the highest byte used in a region."""
        pairs = zip(problem.blocks, self.spots, strict=True)
        return max((s.offset + b.size_bytes for b, s in pairs if s.region == region), default=0)

    def excess(self, problem: Problem) -> int:
        """Bytes past the ends of the regions, summed; 0 iff everything fits."""
        return sum(
            max(0, self.peak(problem, r.name) - r.size_bytes) for r in problem.regions if r.size_bytes is not None
        )

    def cost(self, problem: Problem) -> tuple[int, ...]:
        """What solvers minimize: bytes past the ends, then the peaks of the regions, of the least preferred first."""
        return (self.excess(problem), *(self.peak(problem, r.name) for r in reversed(problem.regions)))


def lower_bound(problem: Problem) -> int:
    """Bytes that all regions together must have: the largest sum of blocks in use at one time, overlaps granted."""
    gains = [overlap_gain(problem.blocks, overlap) for overlap in problem.overlaps]
    best = 0
    for time in {block.birth for block in problem.blocks}:
        live = {i for i, block in enumerate(problem.blocks) if block.birth <= time <= block.death}
        total = sum(problem.blocks[i].size_bytes for i in live)
        granted = sum(g for g, o in zip(gains, problem.overlaps, strict=True) if o.lower in live and o.upper in live)
        best = max(best, total - granted, *(problem.blocks[i].size_bytes for i in live))
    return best


def sections(blocks: Sequence[Block]) -> list[Span]:
    """For each block the sections of time in which it is in use.

    A section is a moment at which no other moment has all of the same blocks and more: one between a birth and the next
    death. They are numbered in order of time.
    """
    births = sorted({block.birth for block in blocks})
    deaths = sorted({block.death for block in blocks})
    moments: list[int] = []
    for death in deaths:
        latest = births[bisect_right(births, death) - 1]
        if not moments or latest > moments[-1]:
            moments.append(death)
    return [Span(bisect_left(moments, block.birth), bisect_right(moments, block.death)) for block in blocks]


def overlap_gain(blocks: Sequence[Block], overlap: Overlap) -> int:
    """The most bytes that two blocks can share."""
    lower, upper = blocks[overlap.lower].size_bytes, blocks[overlap.upper].size_bytes
    return max(0, lower + upper - max(lower, upper, overlap.distance + upper))
