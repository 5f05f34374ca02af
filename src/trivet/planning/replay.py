"""The row loop of a stream, replayed from the plan's records alone."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.core.access import Broadcast, Reduced, Sliding, Span, Whole
from trivet.core.record import dataclass
from trivet.ir.graph import Value
from trivet.planning.plan import Edge, ExecutionPlan, Step, Stream

ROW_AXIS = 1


class Deadlock(Exception):
    """No step of a stream can fire, and some are unfinished."""


@dataclass(frozen=True, slots=True)
class Firing:
    """One kernel call: rows start <= r < stop of the result (of the first operand, for a step that accumulates).

    `is_last`: an accumulation is complete after it.
    """

    step: Step
    start: int
    stop: int
    is_last: bool


def firings(plan: ExecutionPlan, stream: Stream) -> Iterator[Firing]:
    """Every kernel call of a stream in the order of the executor's loop.

    Raises: Deadlock.
    """
    loop = _Loop(plan, stream)
    while not loop.is_finished:
        moved = False
        for index in range(len(stream.steps)):
            while loop.can_fire(index):
                yield loop.fire(index)
                moved = True
        if not moved:
            raise Deadlock(f"the stream of {stream.steps[-1].node!r} comes to a stop")


def counted_rows(plan: ExecutionPlan, step: Step) -> int:
    """How many rows a step's firings go through."""
    value = step.node.inputs[0] if step.accumulates else step.node.outputs[0]
    return plan.view(value).height


class _Loop:
    """Counters of a stream's steps."""

    def __init__(self, plan: ExecutionPlan, stream: Stream) -> None:
        self.steps = stream.steps
        self.totals = [counted_rows(plan, step) for step in stream.steps]
        self.fired = [0] * len(stream.steps)
        self.made = [0] * len(stream.steps)
        self.outputs = [plan.view(step.node.outputs[0]) for step in stream.steps]
        self.readers: dict[int, list[tuple[int, list[int]]]] = {}
        for index, step in enumerate(stream.steps):
            rows = min(self.totals[index], step.firings * self._rows(index))
            for edge in step.edges:
                buffer = plan.view(step.node.inputs[edge.operand]).buffer
                self.readers.setdefault(buffer, []).append((index, _still_read(edge, rows)))

    @property
    def is_finished(self) -> bool:
        return all(fired == step.firings for fired, step in zip(self.fired, self.steps, strict=True))

    def can_fire(self, index: int) -> bool:
        step = self.steps[index]
        if self.fired[index] == step.firings:
            return False
        start, stop = self._span(index)
        return all(self._is_there(edge, start, stop) for edge in step.edges) and self._is_free(index, stop)

    def fire(self, index: int) -> Firing:
        step = self.steps[index]
        start, stop = self._span(index)
        self.fired[index] += 1
        is_last = self.fired[index] == step.firings
        if not step.accumulates:
            self.made[index] = stop
        elif is_last:
            self.made[index] = 1
        return Firing(step, start, stop, is_last)

    def _rows(self, index: int) -> int:
        return self.steps[index].rows or self.totals[index]

    def _span(self, index: int) -> tuple[int, int]:
        start = self.fired[index] * self._rows(index)
        return start, min(start + self._rows(index), self.totals[index])

    def _is_there(self, edge: Edge, start: int, stop: int) -> bool:
        if edge.source is None:
            return True
        needed = [last for row in range(start, stop) if (last := edge.last(row)) is not None]
        return max(needed, default=-1) < self.made[edge.source]

    def _is_free(self, index: int, stop: int) -> bool:
        view, step = self.outputs[index], self.steps[index]
        if not view.is_ring or step.accumulates:
            return True
        overwritten = stop - 1 - view.depth
        return all(
            overwritten < first[min(self.fired[reader] * self._rows(reader), len(first) - 1)]
            for reader, first in self.readers.get(view.buffer, ())
        )


def _still_read(edge: Edge, rows: int) -> list[int]:
    """For each row of the reader, the first operand row that it or a later one reads; the height when none does."""
    first = [edge.height] * (rows + 1)
    for row in reversed(range(rows)):
        start = edge.first(row)
        first[row] = first[row + 1] if start is None else min(start, first[row + 1])
    return first


def operand_rows(plan: ExecutionPlan, firing: Firing, index: int) -> range:
    """The rows of operand `index` that a firing reads by the operator's own rules, whatever the plan's edges say."""
    step, node = firing.step, firing.step.node
    value = node.inputs[index]
    everything = range(plan.view(value).height)
    if step.rows is None:
        return everything
    if step.accumulates:
        return range(firing.start, firing.stop) if index == 0 else everything
    if value.type.rank != 4 or node.outputs[0].type.rank != 4:
        return everything
    match node.op.access(node.input_types)[index][ROW_AXIS]:
        case Reduced() | Whole():
            return everything
        case Broadcast():
            return range(1)
        case Sliding(out_axis=1) as window:
            return _tapped_rows(window, firing)
        case rule if rule.out_axis == ROW_AXIS:
            span = rule.reads(Span(firing.start, firing.stop))
            return range(span.start, span.stop)
    return everything


def _tapped_rows(window: Sliding, firing: Firing) -> range:
    """From the first to the last tap inside the operand: with a dilation, less than what the windows cover."""
    taps = [
        row * window.stride - window.before + tap * window.dilation
        for row in range(firing.start, firing.stop)
        for tap in range(window.kernel)
    ]
    inside = [tap for tap in taps if 0 <= tap < window.size]
    return range(min(inside), max(inside) + 1) if inside else range(0)


def result_rows(plan: ExecutionPlan, firing: Firing, value: Value) -> range:
    """The rows of a result that a firing writes."""
    if firing.step.accumulates:
        return range(1) if firing.is_last else range(0)
    if firing.step.rows is None:
        return range(plan.view(value).height)
    return range(firing.start, firing.stop)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a tensor that lie together: `memory` in its buffer's region, `tensor` in the whole tensor."""

    memory: slice
    tensor: slice


def pieces(plan: ExecutionPlan, value: Value, rows: range) -> Iterator[Piece]:
    """Where rows of a tensor lie; all of them, of every image, where `rows` is the whole height."""
    view = plan.view(value)
    base = plan.buffers[view.buffer].offset + view.offset
    if not view.is_ring:
        start, stop = rows.start * view.row_bytes, rows.stop * view.row_bytes
        if len(rows) == view.height:
            stop = value.type.size_bytes
        yield Piece(slice(base + start, base + stop), slice(start, stop))
        return
    for row in rows:
        at, start = base + row % view.depth * view.row_bytes, row * view.row_bytes
        yield Piece(slice(at, at + view.row_bytes), slice(start, start + view.row_bytes))
