"""Which orders the search for addresses tries, and for how long: no single order is good for every problem.

The search prefers blocks that come early in an order. Instances that one order solves in a hundred nodes take another
one millions, so a few orders take turns with limits that double, and seeded variations of them are tried in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from trivet.core.late import late
from trivet.planning.memory.native import Found, NativeSearch

if TYPE_CHECKING:
    import random
else:
    random = late("random")

FIRST_LIMIT = 4
"""Nodes per block that each order may try in the first round."""

RESTART_NODES = 4_000
"""Nodes that each variation may try."""

SPREAD = 0.2
"""A variation scales each number that blocks are ordered by with a factor within half of this from 1."""

Numbers = tuple[float, float, float]
"""What blocks are ordered by: the first number, then the second, then the third."""


def search(
    native: NativeSearch, capacity: int, node_limit: int, seed: int = 0, stopped: Callable[[], bool] = lambda: False
) -> Found:
    """A placement within `capacity` bytes; the nodes are counted, so that the answer does not depend on speed.

    `stopped` is asked between attempts.
    """
    left = node_limit
    for order, limit in _attempts(native, random.Random(seed)):
        found = native.run(capacity, order, min(limit, left))
        left -= found.nodes
        if found.placement is not None or found.is_impossible or left <= 0 or stopped():
            return Found(found.placement, found.is_impossible, node_limit - left)
    raise AssertionError("attempts do not end")


def _attempts(native: NativeSearch, generator: random.Random) -> Iterator[tuple[list[int], int]]:
    """Orders of the members, each with the nodes that it may try."""
    plain = [[key(native, member) for member in range(len(native.members))] for key in _KEYS]
    limit = FIRST_LIMIT * len(native.members)
    while True:
        for keys in plain:
            yield _largest_first(keys), limit
        for number in range(len(plain) * limit // RESTART_NODES):
            yield _largest_first([_varied(key, generator) for key in plain[number % len(plain)]]), RESTART_NODES
        limit *= 2


def _largest_first(keys: Sequence[Numbers]) -> list[int]:
    return sorted(range(len(keys)), key=lambda member: keys[member], reverse=True)


def _varied(key: Numbers, generator: random.Random) -> Numbers:
    first, second, third = (part * (1 + SPREAD * (generator.random() - 0.5)) for part in key)
    return first, second, third


def _width(native: NativeSearch, member: int) -> int:
    block = native.problem.blocks[native.members[member]]
    return block.death - block.birth + 1


def _area(native: NativeSearch, member: int) -> int:
    return _width(native, member) * native.problem.blocks[native.members[member]].size_bytes


_KEYS: tuple[Callable[[NativeSearch, int], Numbers], ...] = (
    lambda n, m: (_area(n, m), _width(n, m), n.most_load(m)),
    lambda n, m: (_width(n, m), _area(n, m), n.most_load(m)),
    lambda n, m: (n.most_load(m), _area(n, m), _width(n, m)),
    lambda n, m: (n.most_load(m), _width(n, m), _area(n, m)),
)
"""What blocks are ordered by, largest first: area, time and load in four orders (the last three are Moffitt's)."""
