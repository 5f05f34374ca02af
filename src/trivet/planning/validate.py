"""Checks an execution plan from what it says alone; shares no code with the planner.

The row loop of a stream is replayed from the edge records, and the rows that the operators really read are taken from
`Op.access`, so a wrong edge, a ring too shallow or a distance too small is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from trivet.ir.graph import Value
from trivet.planning.plan import Buffer, ExecutionPlan, Stream, View


def violations(plan: ExecutionPlan) -> list[str]:
    """What is wrong with a plan, one sentence each; empty iff it is sound."""
    found = [*_bad_buffers(plan), *_bad_views(plan)]
    if found:
        return found
    return [*_bad_lifetimes(plan), *_collisions(plan), *_bad_order(plan)]


def _streams(plan: ExecutionPlan) -> list[Stream]:
    return [stream for stage in plan.stages for stream in stage.streams]


def _bad_buffers(plan: ExecutionPlan) -> Iterator[str]:
    regions = {region.name: region for region in plan.regions}
    for buffer in plan.buffers:
        region = regions.get(buffer.region)
        if region is None:
            yield f"buffer {buffer.name} lies in no region"
        elif buffer.offset < 0 or buffer.size_bytes < 0:
            yield f"buffer {buffer.name} has a negative offset or size"
        elif buffer.offset % buffer.alignment:
            yield f"buffer {buffer.name} at {buffer.offset} is not aligned to {buffer.alignment}"


def _bad_views(plan: ExecutionPlan) -> Iterator[str]:
    for value in _values(plan):
        view = plan.views.get(id(value))
        if view is None:
            yield f"value {value.name} has no place"
            continue
        if not 0 <= view.buffer < len(plan.buffers):
            yield f"value {value.name} lies in no buffer"
            continue
        images = value.type.shape[0] if value.type.rank == 4 else 1
        tensor = images * view.height * view.row_bytes
        kept = tensor if view.depth == view.height else view.depth * view.row_bytes
        if not 1 <= view.depth <= view.height or (view.is_ring and images != 1):
            yield f"value {value.name} keeps {view.depth} of {view.height} rows of {images} images"
        if tensor != value.type.size_bytes:
            yield f"value {value.name} has {value.type.size_bytes} bytes, its view {tensor}"
        if view.offset < 0 or view.offset + kept > plan.buffers[view.buffer].size_bytes:
            yield f"value {value.name} leaves its buffer"


def _values(plan: ExecutionPlan) -> Iterator[Value]:
    yield from plan.graph.inputs
    for state in plan.graph.states:
        yield state.read
    for node in plan.graph.nodes:
        yield from node.outputs


def _bad_lifetimes(plan: ExecutionPlan) -> Iterator[str]:
    """Every buffer must be in use whenever a step touches it, and from start or to end where that is asked."""
    streams = _streams(plan)
    last = max(0, len(streams) - 1)
    for now, stream in enumerate(streams):
        for step in stream.steps:
            touched = {plan.views[id(v)].buffer for v in (*step.node.inputs, *step.node.outputs) if not v.is_constant}
            touched |= {number for number in (step.scratch, stream.counters) if number is not None}
            for number in touched:
                if not plan.buffers[number].birth <= now <= plan.buffers[number].death:
                    yield f"stream {now} uses buffer {plan.buffers[number].name} outside its lifetime"
    for value in (*plan.graph.inputs, *(state.read for state in plan.graph.states)):
        if plan.buffers[plan.views[id(value)].buffer].birth > 0:
            yield f"{value.name} must exist from the start"
    for value in plan.graph.results():
        if not value.is_constant and plan.buffers[plan.views[id(value)].buffer].death < last:
            yield f"{value.name} must last to the end"


def _collisions(plan: ExecutionPlan) -> Iterator[str]:
    for (i, a), (j, b) in combinations(enumerate(plan.buffers), 2):
        if a.region != b.region or a.death < b.birth or b.death < a.birth or not _intersect(a, b):
            continue
        rises = [(o.distance, b.offset - a.offset) for o in plan.overlaps if (o.lower, o.upper) == (i, j)]
        rises += [(o.distance, a.offset - b.offset) for o in plan.overlaps if (o.lower, o.upper) == (j, i)]
        if not any(rise >= distance for distance, rise in rises):
            yield f"buffers {a.name} and {b.name} collide in {a.region}"


def _intersect(a: Buffer, b: Buffer) -> bool:
    return a.offset < b.offset + b.size_bytes and b.offset < a.offset + a.size_bytes and a.size_bytes * b.size_bytes > 0


def _bad_order(plan: ExecutionPlan) -> Iterator[str]:
    """Every step's operands must hold their values: written before, and not overwritten since, also within a buffer."""
    holder: dict[tuple[int, int], int] = {}
    ready = {id(v): True for v in (*plan.graph.inputs, *(state.read for state in plan.graph.states))}
    del holder
    steps = {id(step.node) for stream in _streams(plan) for step in stream.steps}
    for node in plan.graph.nodes:
        if id(node) not in steps and not all(_is_view(plan, v, node.outputs[0]) for v in node.inputs):
            yield f"{node!r} has no step, and its result is no view of its operands"
    for stream in _streams(plan):
        for step in stream.steps:
            for value in step.node.inputs:
                if not value.is_constant and not _is_ready(value, ready, steps):
                    yield f"{step.node!r} runs before its operand %{value.name} is made"
            ready.update({id(v): True for v in step.node.outputs})


def _is_ready(value: Value, ready: dict[int, bool], steps: set[int]) -> bool:
    pending = [value]
    while pending:
        current = pending.pop()
        if id(current) in ready or current.is_constant:
            continue
        if current.producer is None or id(current.producer) in steps:
            return False
        pending.extend(current.producer.inputs)
    return True


def _is_view(plan: ExecutionPlan, operand: Value, result: Value) -> bool:
    """True iff one of the two values lies inside the other's bytes."""
    if operand.is_constant:
        return False
    a, b = plan.views[id(operand)], plan.views[id(result)]
    inner, outer = (a, b) if operand.type.size_bytes <= result.type.size_bytes else (b, a)
    return a.buffer == b.buffer and outer.offset <= inner.offset and _end(inner) <= _end(outer)


def _end(view: View) -> int:
    return view.offset + view.height * view.row_bytes
