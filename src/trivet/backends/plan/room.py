"""Work space where a plan leaves memory free: kernels that run faster with more of it get what nobody else needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trivet.backends.ckernels import Call
from trivet.backends.plan.selection import Selection
from trivet.backends.records import align
from trivet.core.record import dataclass
from trivet.planning.plan import Buffer, BufferKind, ExecutionPlan, Stage, Step, Stream
from trivet.planning.rows import counted_rows

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Gap:
    """Free bytes of the first memory during one stream; `stop` None: as many as one likes."""

    start: int
    stop: int | None

    def size_bytes(self, most: int) -> int:
        return most if self.stop is None else min(most, max(0, self.stop - self.start))


MOST_BYTES = 1 << 16
"""No kernel wants more."""


def with_room(plan: ExecutionPlan, selection: Selection, limit_bytes: int | None) -> tuple[ExecutionPlan, Selection]:
    """The plan with as much work space as fits into `limit_bytes` of its first memory, and the calls that use it.

    Memory that the plan uses anyway comes first; nothing that it placed moves.
    """
    roomy = _Room(plan, selection, limit_bytes)
    stages, now = [], 0
    for stage in plan.stages:
        streams = []
        for stream in stage.streams:
            streams.append(roomy.widened(stream, now))
            now += 1
        stages.append(Stage(tuple(streams), stage.loads, stage.stores))
    if not roomy.calls:
        return plan, selection
    made = replace(plan, stages=tuple(stages), buffers=tuple(roomy.buffers))
    return made, selection.with_calls(roomy.calls)


class _Room:
    def __init__(self, plan: ExecutionPlan, selection: Selection, limit_bytes: int | None) -> None:
        self.selection, self.limit = selection, limit_bytes
        self.region = plan.memories[0].name if plan.memories else ""
        self.used = plan.region_bytes(self.region)
        self.buffers: list[Buffer] = list(plan.buffers)
        self.calls: list[tuple[Step, Call]] = []

    def widened(self, stream: Stream, now: int) -> Stream:
        """The stream, whose steps share one work space if they take more."""
        steps = [step for step in stream.steps if self.selection.call(step.node).roomier is not None]
        if not steps:
            return stream
        own = self._own_scratch(stream, steps)
        found = max((self._calls(steps, gap) for gap in self._gaps(now, own)), key=_total, default=[])
        size = max((call.scratch(_rows(step)) for step, call, _ in found), default=0)
        if size <= (0 if own is None else self.buffers[own].size_bytes):
            return stream
        start = found[0][2]
        room = Buffer(f"scratch {now}", BufferKind.SCRATCH, size, ALIGNMENT, now, now, self.region, start)
        if own is None:
            self.buffers.append(room)
            own = len(self.buffers) - 1
        else:
            self.buffers[own] = room
        self.calls += [(step, call) for step, call, _ in found]
        users = {id(step) for step, call, _ in found if call.scratch(_rows(step)) > 0}
        return replace(stream, steps=tuple(replace(s, scratch=own) if id(s) in users else s for s in stream.steps))

    def _own_scratch(self, stream: Stream, steps: Sequence[Step]) -> int | None:
        """The work space that nobody but these steps uses."""
        theirs = {step.scratch for step in steps} - {None}
        others = {step.scratch for step in stream.steps if all(step is not s for s in steps)}
        return next((index for index in sorted(i for i in theirs if i is not None) if index not in others), None)

    def _gaps(self, now: int, own: int | None) -> list[Gap]:
        """Inside of what the plan uses, and up to the limit."""
        live = sorted(
            (b.offset, b.offset + b.size_bytes)
            for index, b in enumerate(self.buffers)
            if b.region == self.region and b.birth <= now <= b.death and index != own
        )
        gaps, end = [], 0
        for start, stop in live:
            gaps.append(Gap(align(end, ALIGNMENT), start))
            end = max(end, stop)
        inside = Gap(align(end, ALIGNMENT), self.used)
        beyond = Gap(align(end, ALIGNMENT), None if self.limit is None else max(self.used, self.limit))
        return [*gaps, inside, beyond]

    def _calls(self, steps: Sequence[Step], gap: Gap) -> list[tuple[Step, Call, int]]:
        found = []
        for step in steps:
            roomier = self.selection.call(step.node).roomier
            assert roomier is not None
            found.append((step, roomier(gap.size_bytes(MOST_BYTES)), gap.start))
        fits = all(call.scratch(_rows(step)) <= gap.size_bytes(MOST_BYTES) for step, call, _ in found)
        return found if fits else []


def _rows(step: Step) -> int:
    return step.rows if step.rows is not None else counted_rows(step.node)


def _total(found: Sequence[tuple[Step, Call, int]]) -> int:
    return sum(call.scratch(_rows(step)) for step, call, _ in found)
