"""Which ranges of the order become streams: exact over all contiguous ranges of up to MAX_RANGE nodes.

`smallest` minimizes the largest number of bytes in use (minimax over the cuts of the order), `quickest` the kernel
calls beyond one per node among choices in which no range needs more than a limit.
"""

from __future__ import annotations

from dataclasses import replace

from trivet.core.record import dataclass
from trivet.planning.ranges import Members
from trivet.planning.streams import MAX_RANGE, Candidate, StreamModel

PIXELS_A_FIRING = (8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""How many pixels a firing may make; more of them cost deeper rings and save calls."""


SHORT_RANGE = 10
"""Nodes of the ranges that are tried first: what they need at most bounds the search among longer ones."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Candidates that follow each other and cover all positions, the most bytes that one of them needs, and the
    multiply-accumulates that they do again.
    """

    candidates: tuple[Candidate, ...]
    size_bytes: int
    repeated_macs: int = 0


Cost = tuple[int, int, int, int]
"""Multiply-accumulates done again, overlaps that count, kernel calls beyond one per node, bytes."""


def _extended(before: Cost, candidate: Candidate, limit: int, apart: bool) -> Cost:
    """The cost of a choice with one more candidate."""
    overlaps = before[1] + int(apart and candidate.apart_bytes > limit)
    calls = before[2] + max(0, candidate.firings - (candidate.stop - candidate.start))
    return before[0] + candidate.repeated_macs, overlaps, calls, max(before[3], candidate.size_bytes)


class Chooser:
    """Prices ranges of a model once, however often a choice is made."""

    def __init__(self, model: StreamModel) -> None:
        self.model = model
        self.count = len(model.items)
        self._wholes = [model.whole(p) for p in range(self.count)]
        self._wide: dict[tuple[int, int, int], Candidate] = {}
        self._streams: dict[tuple[int, int, Members | None], tuple[int, Candidate | None]] = {}

    def layer_wise(self) -> Choice:
        return Choice(tuple(self._wholes), max((c.size_bytes for c in self._wholes), default=0))

    def smallest(self, most_again: int = 0) -> Choice:
        """The choice with the lowest peak that computes at most `most_again` multiply-accumulates again."""
        return self.front(most_again)[0]

    def front(self, most_again: int) -> list[Choice]:
        """The choices with the lowest peaks for what they compute again, from the lowest peak on."""
        limit = self.layer_wise().size_bytes
        if self.count > SHORT_RANGE:
            limit = min(choice.size_bytes for choice in self._front(most_again, limit, SHORT_RANGE))
        return self._front(most_again, limit, MAX_RANGE)

    def _front(self, most_again: int, limit: int, longest: int) -> list[Choice]:
        """The best choices of ranges of at most so many nodes within `limit` bytes."""
        best = [[Choice((), 0)]]
        for stop in range(1, self.count + 1):
            found: list[Choice] = []
            for start in self._starts(stop, limit, longest):
                for before in best[start]:
                    self._extend(found, before, start, stop, limit, most_again)
            best.append(found)
        assert best[-1], "running layer by layer is always a choice"
        return sorted(best[-1], key=lambda choice: choice.size_bytes)

    def _extend(self, found: list[Choice], before: Choice, start: int, stop: int, limit: int, most_again: int) -> None:
        """Put a choice with one more range among the best ones, and take those out that it beats."""
        least = min((c.size_bytes for c in found if c.repeated_macs <= before.repeated_macs), default=limit + 1)
        if before.size_bytes >= least:
            return
        for candidate in self._between(start, stop, least - 1, before.size_bytes):
            again = before.repeated_macs + candidate.repeated_macs
            size = max(before.size_bytes, candidate.size_bytes)
            if again > most_again or any(c.size_bytes <= size and c.repeated_macs <= again for c in found):
                continue
            found[:] = [c for c in found if c.size_bytes < size or c.repeated_macs < again]
            found.append(Choice((*before.candidates, candidate), size, again))

    def quickest(self, limit: int, apart: bool = False, wide: bool = True) -> Choice | None:
        """The choice that computes least again, with the fewest kernel calls, in which no range needs more than `limit`
        bytes.

        `wide`: firings make as many pixels as the limit allows, else one row. `apart`: with the fewest ranges that need
        an overlap first. Chains of overlaps are what addresses fail at: each stream wants its output just below its
        input, which the stream before has put at the bottom.
        """
        best: list[tuple[Cost, Choice] | None] = [((0, 0, 0, 0), Choice((), 0))]
        for stop in range(1, self.count + 1):
            found: tuple[Cost, Choice] | None = None
            for start in self._starts(stop, limit):
                before = best[start]
                if before is None:
                    continue
                for narrow in self._between(start, stop, limit, limit):
                    if found is not None and _extended(before[0], self._ideal(narrow), limit, apart) >= found[0]:
                        continue
                    candidate = self._widest(narrow, limit) if wide and narrow.by_rows and not narrow.groups else narrow
                    cost = _extended(before[0], candidate, limit, apart)
                    if found is None or cost < found[0]:
                        found = cost, Choice((*before[1].candidates, candidate), cost[3], cost[0])
            best.append(found)
        return None if best[-1] is None else best[-1][1]

    def _ideal(self, narrow: Candidate) -> Candidate:
        """What no number of pixels a firing makes cheaper than it is."""
        if narrow.groups:
            return narrow
        pixels = PIXELS_A_FIRING[-1]
        items = self.model.items[narrow.start : narrow.stop]
        calls = sum(-(-item.height // max(1, pixels // item.width)) for item in items)
        return replace(narrow, firings=min(narrow.firings, calls))

    def _widest(self, narrow: Candidate, limit: int) -> Candidate:
        """The range with the most pixels a firing that fit the limit; bytes grow with them."""
        key = (narrow.start, narrow.stop, limit)
        if key not in self._wide:
            best, low, high = narrow, 0, len(PIXELS_A_FIRING)
            while low < high:
                middle = (low + high) // 2
                found = self.model.stream(narrow.start, narrow.stop, limit, PIXELS_A_FIRING[middle])
                if found is None:
                    high = middle
                else:
                    best, low = (found if found.firings < narrow.firings else best), middle + 1
            self._wide[key] = best
        return self._wide[key]

    def _starts(self, stop: int, limit: int, longest: int = MAX_RANGE) -> list[int]:
        """Starts of ranges that end before `stop` and whose rings fit; rings only grow with the range."""
        starts = [stop - 1]
        for start in range(stop - 2, max(-1, stop - 1 - longest), -1):
            if not self.model.can_stream(start, stop) or not self._may_fit(start, stop, limit):
                break
            starts.append(start)
        return starts

    def _may_fit(self, start: int, stop: int, limit: int) -> bool:
        """True iff the rings of a range, maybe with blocks in it, may take at most `limit` bytes."""
        return self.model.least_bytes(start, stop) <= limit

    def _between(self, start: int, stop: int, limit: int, enough: int) -> list[Candidate]:
        """The ways to run a range within `limit` bytes; those with blocks only where it needs more than `enough`."""
        found = []
        if stop - start == 1 and self._wholes[start].size_bytes <= limit:
            found.append(self._wholes[start])
        if not self.model.can_stream(start, stop):
            return found
        stream = self._stream(start, stop, limit)
        if stream is not None:
            found.append(stream)
        if stream is None or stream.size_bytes > enough:
            found += self._fused(start, stop, limit)
        return found

    def _members(self, start: int, stop: int) -> list[Members]:
        """The range with blocks in it, one way after the other."""
        ways = {self.model.members(start, stop, way) for way in range(len(self.model.ways))}
        return sorted(ways - {tuple(range(start, stop))})

    def _fused(self, start: int, stop: int, limit: int) -> list[Candidate]:
        """The range with blocks in it."""
        found = (self._stream(start, stop, limit, members) for members in self._members(start, stop))
        return [candidate for candidate in found if candidate is not None]

    def _stream(self, start: int, stop: int, limit: int, members: Members | None = None) -> Candidate | None:
        """A priced range; what was over a lower limit before is priced again."""
        key = (start, stop, members)
        known = self._streams.get(key)
        if known is None or (known[1] is None and known[0] < limit):
            known = limit, self.model.stream(start, stop, limit, 1, members)
            self._streams[key] = known
        candidate = known[1]
        return candidate if candidate is not None and candidate.size_bytes <= limit else None
