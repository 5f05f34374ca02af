"""The row loop in C (`runtime/src/host/row_loop.c`), for the searches that run it thousands of times."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trivet.core.native import open_library

if TYPE_CHECKING:
    from trivet.planning.schedule import Actor, Depths

_VERSION = 1
_ANY = np.iinfo(np.int64).min

Ints = npt.NDArray[np.int32]
Readers = dict[int, list[tuple[int, int]]]
"""For each storage the actors that read it, with where their kept rows stand in the data."""


class _Loop(ctypes.Structure):
    _fields_ = [
        ("actors", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "height", "rows", "firings", "accumulates", "first_link", "source", "needs", "first_reader", "reader",
                "keeps", "data",
            )
        ),
    ]  # fmt: skip


class _Overlaps(ctypes.Structure):
    _fields_ = [
        ("uppers", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        *(
            (name, ctypes.c_void_p)
            for name in ("lower_bytes", "upper_bytes", "upper_height", "first", "reader", "keeps", "distance")
        ),
    ]


@cache
def _library() -> ctypes.CDLL | None:
    """The library if it is there in this version."""
    try:
        library = open_library()
        return library if library.trivet_host_row_loop_version() == _VERSION else None
    except (OSError, AttributeError):
        return None


def is_available() -> bool:
    """True iff the library is built."""
    return _library() is not None


class NativeLoop:
    """Actors in the form that the C loop reads; they can be run with many depths."""

    def __init__(self, actors: Sequence[Actor]) -> None:
        self.actors = actors
        self._data: list[int] = []
        self._places: dict[int, int] = {}
        self._readers = self._find_readers()
        self._arrays = self._make_arrays()
        pointers = {name: array.ctypes.data for name, array in self._arrays.items()}
        self._loop = _Loop(len(actors), 0, **pointers)
        self._counters = np.zeros(2 * len(actors) or 1, np.int32)

    def completes(self, depths: Depths) -> bool:
        """True iff the loop comes to its end with these depths."""
        return self._run(depths, None)

    def distances(
        self, depths: Depths, lower: dict[int, int], upper: dict[int, int]
    ) -> dict[tuple[int, int], int] | None:
        """`schedule.overlap_distances`; None where the loop does not complete."""
        found = np.full((len(self.actors), max(1, len(upper))), _ANY, np.int64)
        readers = [self._readers.get(storage, []) for storage in upper]
        arrays = {
            "lower_bytes": [lower.get(actor.storage, -1) for actor in self.actors],
            "upper_bytes": list(upper.values()),
            "upper_height": [max(self._data[self._last(r)] for r in links) for links in readers],
            "first": np.cumsum([0, *map(len, readers)]).tolist(),
            "reader": [actor for links in readers for actor, _ in links],
            "keeps": [place for links in readers for _, place in links],
        }
        given = {name: _ints(numbers) for name, numbers in arrays.items()}
        pointers = {name: array.ctypes.data for name, array in given.items()}
        overlaps = _Overlaps(len(upper), 0, **pointers, distance=found.ctypes.data)
        if not self._run(depths, overlaps):
            return None
        distances: dict[tuple[int, int], int] = {}
        for index, actor in enumerate(self.actors):
            for number, storage in enumerate(upper):
                distance = int(found[index, number])
                if distance != _ANY:
                    key = (actor.storage, storage)
                    distances[key] = max(distances.get(key, distance), distance)
        return distances

    def _run(self, depths: Depths, overlaps: _Overlaps | None) -> bool:
        library = _library()
        assert library is not None, "callers ask is_available"
        given = _ints([0 if a.accumulates else depths.get(a.storage, 0) for a in self.actors])
        passed = None if overlaps is None else ctypes.byref(overlaps)
        places = (ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(self._counters.ctypes.data))
        return bool(library.trivet_host_run_row_loop(ctypes.byref(self._loop), *places, passed))

    def _place(self, numbers: tuple[int, ...]) -> int:
        """Where numbers stand in the data; the same tuple stands there once."""
        if id(numbers) not in self._places:
            self._places[id(numbers)] = len(self._data)
            self._data += numbers
        return self._places[id(numbers)]

    def _last(self, reader: tuple[int, int]) -> int:
        """Where the last of an actor's kept rows stands: the height of what it reads."""
        actor, place = reader
        return place + self.actors[actor].firings

    def _find_readers(self) -> Readers:
        readers: Readers = {}
        for index, actor in enumerate(self.actors):
            for link in actor.links:
                readers.setdefault(link.storage, []).append((index, self._place(link.keeps)))
        return readers

    def _make_arrays(self) -> dict[str, Ints]:
        links = [link for actor in self.actors for link in actor.links]
        readers = [self._readers.get(actor.storage, []) for actor in self.actors]
        numbers = {
            "height": [actor.height for actor in self.actors],
            "rows": [actor.rows for actor in self.actors],
            "firings": [actor.firings for actor in self.actors],
            "accumulates": [int(actor.accumulates) for actor in self.actors],
            "first_link": np.cumsum([0, *(len(actor.links) for actor in self.actors)]).tolist(),
            "source": [-1 if link.source is None else link.source for link in links],
            "needs": [self._place(link.needs) for link in links],
            "first_reader": np.cumsum([0, *map(len, readers)]).tolist(),
            "reader": [actor for found in readers for actor, _ in found],
            "keeps": [place for found in readers for _, place in found],
        }
        return {name: _ints(values) for name, values in numbers.items()} | {"data": _ints(self._data)}


def _ints(numbers: list[int]) -> Ints:
    return np.array(numbers or [0], np.int32)
