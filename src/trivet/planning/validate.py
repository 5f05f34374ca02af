"""Checks an execution plan from what it says alone; shares no code with what makes plans.

Addresses and sizes are compared pair by pair; whether every kernel call finds what it reads is found by executing the
plan symbolically (`symbolic.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from trivet.ir.graph import Value
from trivet.planning.plan import Buffer, ExecutionPlan
from trivet.planning.symbolic import wrong_bytes


def violations(plan: ExecutionPlan) -> list[str]:
    """What is wrong with a plan, one sentence each; empty iff it is sound. Stops at the first wrong byte."""
    found = [*_bad_buffers(plan), *_bad_views(plan)]
    return found or [*_collisions(plan), *wrong_bytes(plan)]


def _bad_buffers(plan: ExecutionPlan) -> Iterator[str]:
    regions = {region.name for region in plan.regions}
    for buffer in plan.buffers:
        if buffer.region not in regions:
            yield f"buffer {buffer.name} lies in no region"
        elif buffer.offset < 0 or buffer.size_bytes < 0:
            yield f"buffer {buffer.name} has a negative offset or size"
        elif buffer.offset % buffer.alignment:
            yield f"buffer {buffer.name} at {buffer.offset} is not aligned to {buffer.alignment}"


def _bad_views(plan: ExecutionPlan) -> Iterator[str]:
    for value in _values(plan):
        view = plan.views.get(id(value))
        if view is None or not 0 <= view.buffer < len(plan.buffers):
            yield f"value {value.name} lies in no buffer"
            continue
        images = value.type.shape[0] if value.type.rank == 4 else 1
        tensor = images * view.height * view.row_bytes
        if not min(1, view.height) <= view.depth <= view.height or (view.is_ring and images != 1):
            yield f"value {value.name} keeps {view.depth} of {view.height} rows of {images} images"
        if tensor != value.type.size_bytes:
            yield f"value {value.name} has {value.type.size_bytes} bytes, its view {tensor}"
        kept = view.depth * view.row_bytes if view.is_ring else tensor
        if view.offset < 0 or view.offset + kept > plan.buffers[view.buffer].size_bytes:
            yield f"value {value.name} leaves its buffer"


def _values(plan: ExecutionPlan) -> Iterator[Value]:
    yield from plan.graph.inputs
    yield from (state.read for state in plan.graph.states)
    for node in plan.graph.nodes:
        yield from node.outputs


def _collisions(plan: ExecutionPlan) -> Iterator[str]:
    """Buffers that are in use together must be disjoint, or as far apart as an overlap demands."""
    for (i, a), (j, b) in combinations(enumerate(plan.buffers), 2):
        if a.region != b.region or a.death < b.birth or b.death < a.birth or not _intersect(a, b):
            continue
        rises = [(o.distance, b.offset - a.offset) for o in plan.overlaps if (o.lower, o.upper) == (i, j)]
        rises += [(o.distance, a.offset - b.offset) for o in plan.overlaps if (o.lower, o.upper) == (j, i)]
        if not any(rise >= distance for distance, rise in rises):
            yield f"buffers {a.name} and {b.name} collide in {a.region}"


def _intersect(a: Buffer, b: Buffer) -> bool:
    return (
        min(a.size_bytes, b.size_bytes) > 0
        and a.offset < b.offset + b.size_bytes
        and b.offset < a.offset + a.size_bytes
    )
