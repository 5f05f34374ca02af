"""Stages: which values lie in slow memory, and what runs between two cuts of the order.

Dynamic programming over the cuts. A label stands for a cut and the set of values that are in fast memory there; its
cost is the traffic up to the cut, then the overlaps that addresses must honour, then kernel calls. A step goes from cut
to cut: a range of nodes as one stream or one node by itself, within the bytes of both memories. The model's inputs and
outputs are in slow memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, combinations

from trivet.core.record import dataclass
from trivet.planning.choice import PIXELS_A_FIRING
from trivet.planning.spilling import NOTHING, Flow, Spilling, Storages, Way
from trivet.planning.streams import MAX_RANGE

LARGE = 80
"""Nodes of a network above which ranges hold at most `SHORT_RANGE` of them, which bounds the time of the search."""

SHORT_RANGE = 20

MAX_LABELS = 6
"""Labels that are followed from one cut, cheapest first: enough for graphs in which few values live at a time."""

MAX_CHOSEN = 2
"""Values of a range about which every combination is tried; with more of them all are treated alike or all but one."""

ANY = 1 << 62
"""More bytes than any range needs."""

Cost = tuple[int, int, int]
"""Bytes of traffic, ranges that need an overlap, kernel calls beyond one a node."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of each memory that a choice may use; None: any number."""

    fast_bytes: int | None
    slow_bytes: int | None

    def within(self, other: Limits) -> bool:
        """True iff no memory is larger than in the other limits."""
        pairs = (self.fast_bytes, other.fast_bytes), (self.slow_bytes, other.slow_bytes)
        return all(theirs is None or (mine is not None and mine <= theirs) for mine, theirs in pairs)


@dataclass(frozen=True, slots=True)
class _Label:
    """The cheapest way to a cut with certain values in fast memory."""

    cost: Cost
    way: Way | None = None
    before: _Label | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A choice of ways that follow each other and cover all positions; `states_fast`: where states are between runs."""

    ways: tuple[Way, ...]
    traffic_bytes: int
    states_fast: bool = True


class StageChooser:
    """Finds the choice with least traffic within limits."""

    def __init__(self, spilling: Spilling) -> None:
        self.spilling, self.model = spilling, spilling.model
        self.count = len(self.model.items)
        self.longest = MAX_RANGE if self.count <= LARGE else SHORT_RANGE
        self._found: dict[tuple[Limits, tuple[bool, int, bool]], Cut | None] = {}
        self._impossible: dict[tuple[bool, int, bool], list[Limits]] = {}
        self._border = sum(self.model.held[s].size_bytes for s in (*spilling.inputs, *spilling.outputs))
        resting = (*spilling.inputs, *spilling.outputs, *spilling.states)
        self._resting = 2 * sum(spilling.size(s) for s in resting)
        self._sizeless = frozenset(s for s, held in enumerate(self.model.held) if held.size_bytes == 0)

    def choose(self, limits: Limits, may_spill: bool = True) -> Cut | None:
        """The choice with least traffic; None if there is none within the limits.

        Layers by themselves are tried first, then streams that spill nothing: if such a choice needs no more traffic
        than inputs and outputs, nothing is better. What survives a run is in fast memory if possible.
        """
        for states_fast in (True, False) if self.spilling.states else (True,):
            for longest, spills in ((1, False), (self.longest, False), (self.longest, True))[: 3 if may_spill else 2]:
                cut = self._known(limits, states_fast, longest, spills)
                if cut is not None and (spills or self.is_least(cut.traffic_bytes)):
                    return cut
        return None

    def _known(self, limits: Limits, states_fast: bool, longest: int, spills: bool) -> Cut | None:
        """What `best` finds, searched once; within less than what was too little there is nothing either."""
        way = states_fast, longest, spills
        if not spills and limits.slow_bytes is not None and limits.slow_bytes >= self._resting:
            limits = Limits(limits.fast_bytes, None)
        if any(limits.within(other) for other in self._impossible.get(way, ())):
            return None
        if (limits, way) not in self._found:
            cut = self._found[limits, way] = self.best(limits, *way)
            if cut is None:
                self._impossible.setdefault(way, []).append(limits)
        return self._found[limits, way]

    def all_slow(self) -> Cut:
        """Layer by layer with everything in slow memory, which takes as much of it as one memory would."""
        ways = []
        for position in range(self.count):
            outs = frozenset(self.spilling.flow(position, position + 1).outs) - self._sizeless
            ways.append(Way(position, position + 1, False, slow=outs))
        return Cut(tuple(ways), ANY, states_fast=False)

    def is_least(self, traffic_bytes: int) -> bool:
        """True iff no choice has less traffic: inputs are read and outputs written once."""
        return traffic_bytes <= self._border

    def smallest_fast(self, limits: Limits) -> int:
        """The smallest limit of fast memory for which there is a choice, whatever limit there is."""
        low, high = self.least_bytes(), max(64, 2 * self.least_bytes())
        while self.choose(Limits(high, limits.slow_bytes)) is None:
            low, high = high + 1, 2 * high
        return _first(low, high, lambda size: self.choose(Limits(size, limits.slow_bytes)) is not None)

    def smallest_slow(self, fast_bytes: int | None) -> int:
        """The smallest limit of slow memory for which there is a choice within so much fast memory."""
        most = self.spilling.sizes(range(len(self.model.held)))
        return _first(0, most, lambda size: self.choose(Limits(fast_bytes, size)) is not None)

    def least_bytes(self) -> int:
        """What some node needs although its operands and results are in slow memory."""
        return max((size for size, _ in self.alone()), default=0)

    def most_bytes(self) -> int:
        """More than any choice needs."""
        works = (item.scratch_whole for item in self.model.items)
        return self.spilling.sizes(range(len(self.model.held))) + sum(works) + 64 * len(self.model.items) + 64

    def alone(self) -> list[tuple[int, str]]:
        """The least fast memory that each node needs by itself, and its name."""
        found = []
        for position, item in enumerate(self.model.items):
            ways = [Way(position, position + 1, False, slow=frozenset(self.spilling.flow(position, position + 1).outs))]
            if self.model.can_stream(position, position + 1):
                ways.append(replace(ways[0], by_rows=True))
            sizes = [size[0] for way in ways if (size := self.spilling.fast_bytes(way, NOTHING, ANY)) is not None]
            found.append((min(sizes), f"{item.node.op.name} %{item.node.outputs[0].name}"))
        return found

    def best(
        self, limits: Limits, states_fast: bool = True, longest: int = MAX_RANGE, spills: bool = True
    ) -> Cut | None:
        """The choice with least traffic among ranges of up to `longest` nodes; without spills, only outputs go out."""
        there = self.model.live_before(0)
        start = frozenset(s for s in there if s in self._sizeless or (states_fast and s in self.spilling.states))
        labels: list[dict[Storages, _Label]] = [{} for _ in range(self.count + 1)]
        labels[0][start] = _Label((0, 0, 0))
        for cut in range(self.count):
            for fast in _cheapest(labels[cut]):
                self._extend(labels, cut, fast, limits, longest, spills)
            labels[cut] = {}
        if not labels[-1]:
            return None
        last = min(labels[-1].values(), key=lambda label: label.cost)
        ways = tuple(self._widest(way, fast, limits) for way, fast in self._trace(last, start))
        return Cut(ways, last.cost[0], states_fast)

    def _trace(self, last: _Label, start: Storages) -> Iterator[tuple[Way, Storages]]:
        """The ways to a label, each with what is in fast memory before it."""
        ways: list[Way] = []
        label: _Label | None = last
        while label is not None and label.way is not None:
            ways.append(label.way)
            label = label.before
        fast = start
        for way in reversed(ways):
            yield way, fast
            fast = self._after(way, fast)

    def _after(self, way: Way, fast: Storages) -> Storages:
        """What is in fast memory after a way."""
        outs = set(self.spilling.flow(way.start, way.stop).outs) - way.slow
        return frozenset(s for s in (*fast, *outs, *way.kept) if self.spilling.lasts(s, way.stop))

    def _extend(
        self,
        labels: list[dict[Storages, _Label]],
        cut: int,
        fast: Storages,
        limits: Limits,
        longest: int,
        spills: bool,
    ) -> None:
        """Try every way that starts at a cut."""
        label = labels[cut][fast]
        limit = ANY if limits.fast_bytes is None else limits.fast_bytes
        for stop in range(cut + 1, min(self.count, cut + longest) + 1):
            by_rows = self.model.can_stream(cut, stop)
            if stop > cut + 1 and not by_rows:
                return
            fits = False
            for way in self._ways(cut, stop, fast, by_rows, spills):
                fits |= self._try(labels, label, way, fast, limit, limits)
            if not fits and stop > cut + 1 and self._rings_exceed(cut, stop, fast, limit):
                return

    def _try(
        self,
        labels: list[dict[Storages, _Label]],
        label: _Label,
        way: Way,
        fast: Storages,
        limit: int,
        limits: Limits,
    ) -> bool:
        """Follow a way if it fits and costs less than what is known; True if it fits, or need not be asked."""
        spilling = self.spilling
        if limits.slow_bytes is not None and not spilling.fits_slow(way, fast, limits.slow_bytes):
            return False
        after = self._after(way, fast)
        known = labels[way.stop].get(after)
        traffic, calls = label.cost[0] + spilling.traffic(way, fast), label.cost[2] + spilling.calls(way)
        if known is not None and (traffic, label.cost[1], calls) >= known.cost:
            return True
        found = spilling.fast_bytes(way, fast, limit)
        if found is None:
            return False
        cost = (traffic, label.cost[1] + int(found[1]), calls)
        if known is None or cost < known.cost:
            labels[way.stop][after] = _Label(cost, way, label)
        return True

    def _rings_exceed(self, start: int, stop: int, fast: Storages, limit: int) -> bool:
        """True iff even with everything else in slow memory the rings of a range are too much; they only grow."""
        way = Way(start, stop, True, slow=frozenset(self.spilling.flow(start, stop).outs))
        return self.spilling.fast_bytes(way, NOTHING, limit) is None

    # The ways through one range.

    def _ways(self, start: int, stop: int, fast: Storages, by_rows: bool, spills: bool) -> Iterator[Way]:
        """Every way that may be best, those with least traffic first."""
        flow = self.spilling.flow(start, stop)
        slow_ins = tuple(s for s in flow.ins if s not in fast)
        for slow in self._slow_outs(flow, spills):
            stored = frozenset(s for s in slow & flow.inner if s in self.spilling.single)
            for kept in _subsets(tuple(s for s in slow_ins if self._may_stay(s, stop))):
                rest = tuple(s for s in slow_ins if s not in kept and self._gains_by_copy(flow, s))
                if by_rows:
                    for rings in _subsets(tuple(s for s in rest if self._takes_ring(start, stop, s))):
                        for through in (stored, NOTHING) if stored else (NOTHING,):
                            yield Way(
                                start, stop, True, frozenset(rings), frozenset(kept), frozenset(kept), slow, through
                            )
                if stop == start + 1:
                    for loads in _subsets(rest):
                        yield Way(start, stop, False, NOTHING, frozenset((*loads, *kept)), frozenset(kept), slow)

    def _may_stay(self, storage: int, stop: int) -> bool:
        """True iff a copy of a slow value may serve later ranges as well."""
        is_single = storage in self.spilling.single and storage not in self.spilling.outputs
        return is_single and self.spilling.lasts(storage, stop)

    def _gains_by_copy(self, flow: Flow, storage: int) -> bool:
        """True iff reading a copy of a value saves traffic."""
        return flow.reads[storage] > self.model.held[storage].size_bytes

    def _takes_ring(self, start: int, stop: int, storage: int) -> bool:
        type_ = self.model.shared.storages[storage].values[0].type
        return type_.rank == 4 and type_.shape[0] == 1 and self.spilling.has_rows(start, stop, storage)

    def _slow_outs(self, flow: Flow, spills: bool) -> Iterator[Storages]:
        """Which results go to slow memory: the model's outputs always, states never."""
        always = frozenset(s for s in flow.outs if s in self.spilling.outputs and s not in self._sizeless)
        if not spills:
            yield always
            return
        never = self._sizeless | self.spilling.states
        for chosen in _subsets(tuple(s for s in flow.outs if s not in always and s not in never)):
            yield always | frozenset(chosen)

    def _widest(self, way: Way, fast: Storages, limits: Limits) -> Way:
        """The way with as many pixels a firing as fit."""
        if not way.by_rows:
            return way
        limit = ANY if limits.fast_bytes is None else limits.fast_bytes
        best, low, high = way, 0, len(PIXELS_A_FIRING)
        while low < high:
            middle = (low + high) // 2
            wider = replace(way, pixels=PIXELS_A_FIRING[middle])
            if self.spilling.fast_bytes(wider, fast, limit) is None:
                high = middle
            else:
                best, low = wider, middle + 1
        return best


def _cheapest(labels: dict[Storages, _Label]) -> list[Storages]:
    return sorted(labels, key=lambda fast: (labels[fast].cost, sorted(fast)))[:MAX_LABELS]


def _subsets(items: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """All subsets, largest first; of many items all, all but one, one, none."""
    sizes = range(len(items), -1, -1) if len(items) <= MAX_CHOSEN else sorted({len(items), len(items) - 1, 1, 0})[::-1]
    return chain.from_iterable(combinations(items, size) for size in sizes)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from `low` to `high` for which a claim holds; it holds for `high`, and for all above one."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
