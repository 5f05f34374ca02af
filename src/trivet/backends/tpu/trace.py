"""A run as a Chrome trace, which Perfetto reads: one microsecond stands for one cycle."""

from __future__ import annotations

import json
from collections.abc import Iterator

from trivet.backends.tpu.ir import ArrayLayer, Program, VectorLayer
from trivet.backends.tpu.timing import PassTime, Timing

TRACKS = ("weight loads", "array", "vector unit", "scalar unit", "epilogue")
"""Threads of the trace, in the order in which they are shown."""

Event = dict[str, object]


def write_trace(program: Program, timing: Timing) -> bytes:
    """The trace as JSON; `timing` keeps its passes."""
    events: list[Event] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": program.name}}]
    for number, track in enumerate(TRACKS):
        events.append({"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": track}})
    for time in timing.passes:
        events.extend(_events(program, time))
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode()


def _events(program: Program, time: PassTime) -> Iterator[Event]:
    layer = program.layers[time.layer]
    arguments: dict[str, object] = {"layer": time.layer, "pass": time.number, "waited": time.waited}
    if time.waited:
        arguments["waited for"] = time.cause
    if time.load >= 0:
        yield _event("weight loads", f"{layer.name} {time.number}", time.load, time.loaded, {"layer": time.layer})
    if isinstance(layer, ArrayLayer):
        unit = "array"
    else:
        unit = "vector unit" if isinstance(layer, VectorLayer) else "scalar unit"
    yield _event(unit, f"{layer.name} {time.number}", time.start, time.stop, arguments)
    if time.has_epilogue:
        yield _event("epilogue", layer.name, time.done - (time.stop - time.start), time.done, {"layer": time.layer})


def _event(track: str, name: str, start: int, stop: int, arguments: Event) -> Event:
    head: Event = {"ph": "X", "pid": 0, "tid": TRACKS.index(track), "name": name[-80:]}
    return head | {"ts": start, "dur": stop - start, "args": arguments}
