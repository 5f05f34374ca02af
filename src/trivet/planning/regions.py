"""Plans over several fast memories: what a plan keeps in one pool is spread over them, in an order of preference.

A buffer goes to the first memory in which it fits, or to the one that it is pinned to. Work space and counters always
lie in the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from trivet.errors import CompileError, DoesNotFit, Problems
from trivet.ir.graph import Graph, Value
from trivet.planning.memories import KINDS, Memories, Pin
from trivet.planning.memory.problem import Block, Problem, lower_bound
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import FAST, Buffer, BufferKind, ExecutionPlan, KernelNeeds, Overlap
from trivet.planning.planner import plan
from trivet.planning.validate import violations

ATTEMPTS = 5
"""How often a smaller plan is asked for when one that the memories could hold together does not fit them apart."""


def plan_in_regions(
    graph: Graph, memories: Memories, slow_bytes: int | None, needs: KernelNeeds, options: PlanOptions
) -> ExecutionPlan:
    """A plan that fits the memories. Where the pieces do not fit although the sum does, smaller plans are tried.

    Raises: Problems for memories and pins that make no sense, DoesNotFit.
    """
    memories.check()
    budget = memories.size_bytes
    missing = 0
    for attempt in range(ATTEMPTS):
        objective = Objective.MEMORY if attempt == ATTEMPTS - 1 else options.objective
        try:
            made = plan(graph, budget, slow_bytes, needs, replace(options, objective=objective))
        except DoesNotFit:
            if attempt == 0:
                raise
            break
        pooled = made.region_bytes(FAST)
        made, missing = spread(made, memories, options)
        if missing == 0:
            problems = violations(made)
            assert not problems, f"spreading made an invalid plan: {problems}"
            return made
        budget = pooled - missing
    sizes = ", ".join(f"{region.name} {region.size_bytes:,}" for region in memories.regions)
    raise DoesNotFit(
        f"what the plan keeps in fast memory does not fit into {sizes} bytes: {missing:,} bytes are missing",
        where=graph.name,
        hint="a larger memory, fewer pins, or --optimize memory may help",
    )


def spread(made: ExecutionPlan, memories: Memories, options: PlanOptions) -> tuple[ExecutionPlan, int]:
    """The plan with its fast buffers in the memories, and the bytes that are missing there.

    Raises: Problems for pins that contradict each other or name nothing, DoesNotFit where a memory cannot hold what is
    pinned to it.
    """
    held = _held(made, memories.pins)
    indices = [index for index, buffer in enumerate(made.buffers) if buffer.region == FAST]
    blocks = tuple(_block(made.buffers[index], held.get(index), memories) for index in indices)
    place = {index: number for number, index in enumerate(indices)}
    overlaps = tuple(
        Overlap(place[o.lower], place[o.upper], o.distance)
        for o in made.overlaps
        if o.lower in place and o.upper in place
    )
    problem = Problem(blocks, memories.regions, overlaps)
    _check_pinned(problem)
    placement = options.allocator.solve(problem)
    buffers = list(made.buffers)
    for index, spot in zip(indices, placement.spots, strict=True):
        buffers[index] = replace(buffers[index], region=spot.region, offset=spot.offset)
    others = tuple(region for region in made.regions if region.name != FAST)
    moved = replace(made, buffers=tuple(buffers), regions=(*memories.regions, *others))
    return moved, placement.excess(problem)


def _block(buffer: Buffer, pinned: str | None, memories: Memories) -> Block:
    allowed = tuple(region.name for region in memories.regions)
    if pinned is not None:
        allowed = (pinned,)
    elif buffer.kind in (BufferKind.SCRATCH, BufferKind.COUNTERS):
        allowed = allowed[:1]
    alignment = max(buffer.alignment, *(r.alignment for r in memories.regions if r.name in allowed))
    return Block(buffer.name, buffer.size_bytes, buffer.birth, buffer.death, alignment, allowed)


def _held(made: ExecutionPlan, pins: Sequence[Pin]) -> dict[int, str]:
    """The memory of each pinned buffer. The pin of a tensor wins over that of its kind.

    Raises: Problems.
    """
    held: dict[int, str] = {}
    for pin in pins:
        for index, buffer in enumerate(made.buffers):
            if buffer.kind in KINDS.get(pin.what, ()):
                held[index] = pin.region
    places = {value.name: made.view(value).buffer for value in _values(made) if id(value) in made.views}
    problems: list[CompileError] = []
    owner: dict[int, Pin] = {}
    for pin in pins:
        if pin.what in KINDS:
            continue
        if pin.what not in places:
            close = get_close_matches(pin.what, places, 1)
            hint = f"did you mean '{close[0]}'?" if close else "`trivet analyze -v` lists the tensors"
            problems.append(CompileError(f"no tensor '{pin.what}' is kept in memory", hint=hint))
            continue
        first = owner.setdefault(places[pin.what], pin)
        if first.region != pin.region:
            text = f"'{first.what}' is pinned to {first.region}, and '{pin.what}' to {pin.region}"
            problems.append(CompileError(text, hint="they share their bytes: pin them to one memory"))
        held[places[pin.what]] = pin.region
    if problems:
        raise Problems("memories", problems)
    return held


def _values(made: ExecutionPlan) -> Iterator[Value]:
    yield from made.graph.inputs
    yield from (state.read for state in made.graph.states)
    yield from (value for node in made.graph.nodes for value in node.outputs)
    yield from made.graph.outputs


def _check_pinned(problem: Problem) -> None:
    """Raises: DoesNotFit where a memory cannot hold what may lie nowhere else."""
    for region in problem.regions:
        members = [i for i, block in enumerate(problem.blocks) if block.regions == (region.name,)]
        needed = lower_bound(problem.part(members, region))
        if region.size_bytes is not None and needed > region.size_bytes:
            largest = max((problem.blocks[i] for i in members), key=lambda block: block.size_bytes)
            raise DoesNotFit(
                f"memory {region.name} has {region.size_bytes:,} bytes, {needed - region.size_bytes:,} too few for "
                f"what must lie there at one time, of which '{largest.name}' takes {largest.size_bytes:,}",
                hint="give the memory more bytes, or pin less to it",
            )
