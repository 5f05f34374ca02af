"""In which order the steps of a stream fire, found when a module is made, and the loops that this order is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from trivet.backends.plan import format as f
from trivet.backends.plan.reader import PlanInfo, Row, StepInfo
from trivet.core.record import dataclass
from trivet.planning.plan import Edge

LONGEST_BODY = 256
"""Firings of a loop's body that are looked for."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Firings and loops that are repeated `count` times."""

    count: int
    body: tuple[Loop | int, ...]


Schedule: TypeAlias = tuple[Loop | int, ...]
"""Indices of steps in a stream, in the order of their firings."""


def step_height(plan: PlanInfo, step: StepInfo) -> int:
    """Rows that the firings of a step count: of its first result, or of operand 0 if it accumulates or has none."""
    tensor = plan.tensors[step.inputs[0] if step.accumulates or not step.outputs else step.outputs[0]]
    if len(tensor.shape) != 4:
        return 1
    is_ring = tensor.depth < tensor.height
    return tensor.shape[0] * tensor.shape[1] if step.images == 1 and not is_ring else tensor.shape[1]


def stream_order(plan: PlanInfo, stream: range) -> list[int]:
    """The steps that fire, one after the other, for one image: the loop of the runtime's schedule.c."""
    steps = [_Step(plan, index - stream.start, plan.steps[index]) for index in stream]
    for step in steps:
        step.find_readers(steps)
    order: list[int] = []
    while any(step.is_unfinished for step in steps):
        before = len(order)
        for index, step in enumerate(steps):
            while step.is_unfinished and step.may_fire(steps):
                step.fired += 1
                order.append(index)
        assert len(order) > before, "a plan's streams end"
    return order


class _Step:
    """A step as the schedule sees it: what its edges read, how far it is."""

    def __init__(self, plan: PlanInfo, index: int, step: StepInfo) -> None:
        self.index = index
        self.step = step
        self.height = step_height(plan, step)
        self.rows = min(step.rows, self.height)
        self.fired = 0
        self.place = plan.tensors[step.outputs[0]] if step.outputs else None
        self.is_ring = self.place is not None and self.place.depth < self.place.height
        self.edges = [_edge(plan, step, row) for row in step.edges]
        self.reads = [plan.tensors[step.inputs[edge.operand]] for edge in self.edges]
        self.readers: list[tuple[_Step, Edge]] = []

    def find_readers(self, steps: Sequence[_Step]) -> None:
        place = None if self.place is None else (self.place.region, self.place.offset)
        self.readers = [
            (other, edge)
            for other in steps[self.index + 1 :]
            for edge, tensor in zip(other.edges, other.reads, strict=True)
            if edge.source is not None and (tensor.region, tensor.offset) == place
        ]

    @property
    def is_unfinished(self) -> bool:
        return self.fired < self.step.firings

    def span(self, fired: int) -> range:
        return range(fired * self.rows, min((fired + 1) * self.rows, self.height))

    def made(self) -> int:
        """Rows of the result that exist."""
        if self.step.accumulates:
            return 0 if self.is_unfinished else 1 << 62
        return min(self.fired * self.rows, self.height)

    def may_fire(self, steps: Sequence[_Step]) -> bool:
        rows = self.span(self.fired)
        for edge in self.edges:
            if edge.source is not None:
                last = max((r for row in rows if (r := edge.last(row)) is not None), default=-1)
                if last >= steps[edge.source].made():
                    return False
        if self.place is None or self.step.accumulates or not self.is_ring:
            return True
        lost = rows.stop - 1 - self.place.depth
        return lost < 0 or all(reader.low(edge) > lost for reader, edge in self.readers)

    def low(self, edge: Edge) -> int:
        """The lowest row of what `edge` reads that is still needed."""
        if not self.is_unfinished:
            return 1 << 62
        end = self.span(self.step.firings - 1).stop
        rows = range(self.fired * self.rows, end)
        lowest = 1 << 62
        for row in rows:
            first = edge.first(row)
            if first is not None:
                lowest = min(lowest, first)
                if edge.before <= row * edge.stride or first == 0:
                    break
        return lowest


def _edge(plan: PlanInfo, step: StepInfo, row: Row) -> Edge:
    number = {name: value for name, value in row.items() if isinstance(value, int)}
    tensor = plan.tensors[step.inputs[number["operand"]]]
    return Edge(
        operand=number["operand"],
        source=None if number["source"] == f.NO_SOURCE else number["source"],
        height=tensor.height,
        stride=number["stride"],
        before=number["before"],
        taps=number["taps"],
        dilation=number["dilation"],
        divisor=number["divisor"],
        clamped=bool(number["clamped"]),
    )


def loops(order: Sequence[int]) -> Schedule:
    """An order of firings as nested loops, found greedily: at each place the repetition that saves most."""
    return _loops("".join(map(chr, order)))


def _loops(text: str) -> Schedule:
    found: list[Loop | int] = []
    at = 0
    while at < len(text):
        count, period = _best_repetition(text, at)
        if count > 1:
            found.append(Loop(count, _loops(text[at : at + period])))
        else:
            found.append(ord(text[at]))
        at += count * period
    return tuple(found)


def _best_repetition(text: str, at: int) -> tuple[int, int]:
    """How often which number of firings is repeated from `at` on."""
    best = (1, 1)
    for period in range(1, min(LONGEST_BODY, (len(text) - at) // 2) + 1):
        body = text[at : at + period]
        count = 1
        while text.startswith(body, at + count * period):
            count += 1
        if (count - 1) * period > (best[0] - 1) * best[1]:
            best = (count, period)
    return best


def unrolled(schedule: Schedule) -> list[int]:
    """The order that a schedule stands for."""
    order: list[int] = []
    for entry in schedule:
        if isinstance(entry, Loop):
            order += unrolled(entry.body) * entry.count
        else:
            order.append(entry)
    return order
