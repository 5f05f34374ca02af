"""A run as a Chrome trace, which Perfetto reads: what each core executes, over the cycles of the model."""

from __future__ import annotations

import json
from pathlib import Path

from trivet.backends.gpu.counts import Counts
from trivet.backends.gpu.group import Group
from trivet.backends.gpu.isa import Program
from trivet.backends.gpu.machine import CycleModel
from trivet.errors import Unsupported

MOST_EVENTS = 200_000
"""Stretches beyond this are left out: viewers do not read more."""


class Trace:
    """Collects events; one microsecond of the trace is one cycle."""

    def __init__(self, model: CycleModel) -> None:
        self.model = model
        self.now = [0] * model.cores
        self.events: list[dict[str, object]] = []
        self.dropped = 0
        self.program: Program | None = None

    def begin(self, program: Program) -> None:
        """A launch starts when all cores are done with the one before."""
        self.program = program
        self.now = [max(self.now)] * self.model.cores

    def stretch(self, start: int, stop: int, group: Group) -> None:
        """A group executes instructions [start, stop)."""
        assert self.program is not None
        cost = sum(self.model.cost(instruction.opcode.kind) for instruction in self.program.code[start:stop])
        for core, rows in enumerate(group.shape.rows):
            if rows:
                self._event(f"{start}..{stop - 1}", core + 1, self.now[core], cost * rows, group.shape.threads)
                self.now[core] += cost * rows

    def end(self, counts: Counts) -> None:
        """The launch is over; a slice on a track of its own shows it as a whole."""
        assert self.program is not None
        start = max(self.now) - counts.cycles
        self._event(self.program.name, 0, max(start, 0), counts.cycles, 0, counts.as_dict())

    def _event(
        self, name: str, track: int, start: int, duration: int, threads: int, figures: dict[str, int] | None = None
    ) -> None:
        if len(self.events) >= MOST_EVENTS:
            self.dropped += 1
            return
        arguments = figures if figures is not None else {"threads": threads}
        self.events.append(
            {"name": name, "ph": "X", "pid": 1, "tid": track, "ts": start, "dur": duration, "args": arguments}
        )

    def write(self, path: Path) -> None:
        """Raises: Unsupported if the place cannot be written."""
        names = ["launches", *(f"core {core}" for core in range(self.model.cores))]
        tracks: list[dict[str, object]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
            for track, name in enumerate(names)
        ]
        document = {"traceEvents": tracks + self.events, "otherData": {"dropped": self.dropped}}
        try:
            path.write_text(json.dumps(document), encoding="utf-8")
        except OSError as error:
            raise Unsupported(
                f"cannot write: {error.strerror or error}", where=path, hint="choose another --trace"
            ) from None
