"""The search for addresses in C (`runtime/src/host/placement.c`), for blocks in one region."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from trivet.core.native import open_library
from trivet.core.record import dataclass
from trivet.planning.memory.first_fit import FirstFit
from trivet.planning.memory.problem import Placement, Problem, Spot, overlap_gain, sections

_VERSION = 1
_MAX_BYTES = 1 << 29
"""Sizes and capacities that keep all sums within 31 bits."""

_PLACED, _IMPOSSIBLE = 0, 1
_ARRAYS = ("size", "alignment", "first", "last", "fixed", "rank", "after", "loose")
_PAIRS = ("start", "rival", "above", "below", "gain")

Ints = npt.NDArray[np.int32]


class _Problem(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("blocks", "sections", "capacity", "unused")),
        *((name, ctypes.c_void_p) for name in (*_ARRAYS, *_PAIRS, "load")),
    ]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to: a placement, the proof that there is none, or neither. `nodes` is what it tried."""

    placement: Placement | None
    is_impossible: bool
    nodes: int


@cache
def _library() -> ctypes.CDLL | None:
    """The library if it is there in this version."""
    try:
        library = open_library()
        version = library.trivet_host_placement_version()
    except (OSError, AttributeError):
        return None
    library.trivet_host_placement_bytes.restype = ctypes.c_size_t
    return library if version == _VERSION else None


def is_available(problem: Problem) -> bool:
    """True iff the library is built and the problem is one that it takes: one region, sizes far below 2^31."""
    total = sum(block.size_bytes + block.alignment for block in problem.blocks)
    return len(problem.regions) == 1 and total < _MAX_BYTES and _library() is not None


class NativeSearch:
    """A problem in the form that the C search reads; it can be searched with many capacities and orders."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.members = [i for i, block in enumerate(problem.blocks) if block.size_bytes > 0]
        self._place = {block: index for index, block in enumerate(self.members)}
        spans = sections(problem.blocks)
        self.first = np.array([spans[i].start for i in self.members], np.int32)
        self.last = np.array([spans[i].stop for i in self.members], np.int32)
        self._pairs = self._find_pairs()
        self._load = self._loads()

    def run(self, capacity: int, order: Sequence[int], node_limit: int) -> Found:
        """Try to place everything within `capacity` bytes; `order` lists the members, of which early ones go first."""
        if not self.members:
            return Found(self._placement(np.zeros(0, np.int32)), False, 0)
        library = _library()
        assert library is not None and capacity < _MAX_BYTES, "callers ask is_available"
        arrays = self._arrays(order)
        pointers = {name: array.ctypes.data for name, array in arrays.items()}
        given = _Problem(len(self.members), int(self.last.max()), capacity, 0, **pointers)
        work = np.empty(library.trivet_host_placement_bytes(ctypes.byref(given)) // 8 + 2, np.uint64)
        memory = work[work.ctypes.data % 16 // 8 :]
        left, offsets = ctypes.c_int64(node_limit), np.zeros(len(self.members), np.int32)
        places = (ctypes.c_void_p(memory.ctypes.data), ctypes.byref(left), ctypes.c_void_p(offsets.ctypes.data))
        result = library.trivet_host_place(ctypes.byref(given), *places)
        placement = self._placement(offsets) if result == _PLACED else None
        return Found(placement, result == _IMPOSSIBLE, node_limit - left.value)

    def most_load(self, member: int) -> int:
        """The most bytes in use at one time while a member is in use."""
        return int(self._load[self.first[member] : self.last[member]].max())

    def _arrays(self, order: Sequence[int]) -> dict[str, Ints]:
        blocks = [self.problem.blocks[i] for i in self.members]
        rank = np.empty(len(blocks), np.int32)
        rank[np.asarray(order, np.int64)] = np.arange(len(blocks))
        values = {
            "size": [block.size_bytes for block in blocks],
            "alignment": [block.alignment for block in blocks],
            "fixed": [-1 if block.fixed is None else block.fixed.offset for block in blocks],
            "after": self._twins(order),
        }
        made = {name: np.array(numbers, np.int32) for name, numbers in values.items()}
        return made | self._pairs | {"first": self.first, "last": self.last, "rank": rank, "load": self._load}

    def _twins(self, order: Sequence[int]) -> list[int]:
        """For each member the one before it in the order that nothing tells it from, or -1."""
        entangled = {i for overlap in self.problem.overlaps for i in (overlap.lower, overlap.upper)}
        latest: dict[tuple[int, int, int, int], int] = {}
        after = [-1] * len(self.members)
        for member in order:
            block = self.problem.blocks[self.members[member]]
            if self.members[member] in entangled or block.fixed is not None:
                continue
            kind = (block.size_bytes, block.alignment, int(self.first[member]), int(self.last[member]))
            after[member] = latest.get(kind, -1)
            latest[kind] = member
        return after

    def _find_pairs(self) -> dict[str, Ints]:
        """Blocks in use together, with the distances that they must keep and the bytes that they may share."""
        problem = self.problem
        rivals = FirstFit(problem).rivals
        nearest: dict[tuple[int, int], int] = {}
        gains: dict[tuple[int, int], int] = {}
        for overlap in problem.overlaps:
            pair = (overlap.lower, overlap.upper)
            nearest[pair] = min(nearest.get(pair, overlap.distance), overlap.distance)
            gains[pair] = max(gains.get(pair, 0), overlap_gain(problem.blocks, overlap))

        def distance(low: int, high: int) -> int:
            return max(0, min(problem.blocks[low].size_bytes, nearest.get((low, high), 1 << 30)))

        found: dict[str, list[int]] = {name: [] for name in _PAIRS} | {"start": [0], "loose": []}
        for i in self.members:
            others = [k for k in rivals[i] if k in self._place]
            found["rival"] += [self._place[k] for k in others]
            found["above"] += [distance(i, k) for k in others]
            found["below"] += [distance(k, i) for k in others]
            found["gain"] += [max(gains.get((i, k), 0), gains.get((k, i), 0)) for k in others]
            found["start"].append(len(found["rival"]))
            found["loose"].append(int(any(distance(k, i) == 0 for k in others)))
        return {name: np.array(numbers or [0], np.int32) for name, numbers in found.items()}

    def _loads(self) -> Ints:
        """Bytes in use in each section, less what pairs may share."""
        pairs = self._pairs
        load = np.zeros(int(self.last.max()) if self.members else 0, np.int32)
        for member, i in enumerate(self.members):
            load[self.first[member] : self.last[member]] += self.problem.blocks[i].size_bytes
            for entry in range(pairs["start"][member], pairs["start"][member + 1]):
                other = pairs["rival"][entry]
                if other > member and pairs["gain"][entry]:
                    both = slice(max(self.first[member], self.first[other]), min(self.last[member], self.last[other]))
                    load[both] -= pairs["gain"][entry]
        return load

    def _placement(self, offsets: Ints) -> Placement:
        region = self.problem.regions[0].name
        spots = [Spot(region, 0) if block.fixed is None else block.fixed for block in self.problem.blocks]
        for member, i in enumerate(self.members):
            spots[i] = Spot(region, int(offsets[member]))
        return Placement(tuple(spots))
