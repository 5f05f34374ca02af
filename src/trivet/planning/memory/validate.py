"""Checks a placement against its problem, pair by pair, with code that no solver uses."""

from __future__ import annotations

from itertools import combinations

from trivet.planning.memory.problem import Placement, Problem


def violations(problem: Problem, placement: Placement) -> list[str]:
    """What is wrong with a placement, one sentence each; empty iff it is legal."""
    if len(placement.spots) != len(problem.blocks):
        return [f"{len(placement.spots)} addresses for {len(problem.blocks)} blocks"]
    return [*_misplaced(problem, placement), *_collisions(problem, placement)]


def _misplaced(problem: Problem, placement: Placement) -> list[str]:
    sizes = {region.name: region.size_bytes for region in problem.regions}
    found = []
    for block, spot in zip(problem.blocks, placement.spots, strict=True):
        allowed = block.regions if block.regions else tuple(sizes)
        if spot.region not in sizes or spot.region not in allowed:
            found.append(f"{block.name} may not lie in {spot.region}")
            continue
        limit = sizes[spot.region]
        if spot.offset < 0 or (limit is not None and spot.offset > limit - block.size_bytes):
            found.append(f"{block.name} leaves {spot.region}")
        if spot.offset % block.alignment:
            found.append(f"{block.name} at {spot.offset} is not aligned to {block.alignment}")
        if block.fixed is not None and block.fixed != spot:
            found.append(
                f"{block.name} is pinned to {block.fixed.region}+{block.fixed.offset}, stands at {spot.offset}"
            )
    return found


def _collisions(problem: Problem, placement: Placement) -> list[str]:
    found = []
    for (i, a), (j, b) in combinations(enumerate(problem.blocks), 2):
        p, q = placement.spots[i], placement.spots[j]
        if p.region != q.region or max(a.birth, b.birth) > min(a.death, b.death):
            continue
        shared = min(p.offset + a.size_bytes, q.offset + b.size_bytes) - max(p.offset, q.offset)
        if a.size_bytes == 0 or b.size_bytes == 0 or shared <= 0 or _is_allowed(problem, i, j, q.offset - p.offset):
            continue
        found.append(f"{a.name} and {b.name} share {shared} bytes of {p.region} while both are in use")
    return found


def _is_allowed(problem: Problem, i: int, j: int, rise: int) -> bool:
    """True iff an overlap permits block j to start `rise` bytes above block i."""
    return any(
        ((o.lower, o.upper) == (i, j) and rise >= o.distance) or ((o.lower, o.upper) == (j, i) and -rise >= o.distance)
        for o in problem.overlaps
    )
