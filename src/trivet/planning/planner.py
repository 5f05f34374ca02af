"""Chooses order, sharing, streams and addresses so that a graph fits its budget."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.analysis.liveness import layer_by_layer
from trivet.analysis.storage import Sharing
from trivet.errors import CompileError, DoesNotFit
from trivet.ir.graph import Graph
from trivet.planning.layout import Layout, build_plan, whole_tensors
from trivet.planning.options import PlanOptions
from trivet.planning.order import Order, find_order
from trivet.planning.plan import ExecutionPlan, KernelNeeds, Region
from trivet.planning.validate import violations

FAST = "fast"
"""The name of the region that holds everything when there is one memory."""

BLAMED = 3
"""Operators that a refusal names."""


def plan(
    graph: Graph,
    fast_bytes: int | None,
    slow_bytes: int | None,
    needs: KernelNeeds,
    options: PlanOptions | None = None,
) -> ExecutionPlan:
    """A plan whose buffers, inputs and outputs included, take at most `fast_bytes` (None: as few as layers allow).

    Raises: DoesNotFit, with the bytes missing, the operators to blame and what would help.
    """
    options = options or PlanOptions()
    if slow_bytes is not None:
        raise CompileError("plans with a slow memory are not made yet", hint="leave out the slow memory")
    region = Region(FAST, fast_bytes, options.alignment)
    best = _layer_wise(graph, needs, region, options)
    problems = violations(best)
    assert not problems, f"the planner made an invalid plan: {problems}"
    if fast_bytes is not None and best.region_bytes(FAST) > fast_bytes:
        raise refusal(best, fast_bytes)
    return best


def _layer_wise(graph: Graph, needs: KernelNeeds, region: Region, options: PlanOptions) -> ExecutionPlan:
    """The smallest plan that executes layer by layer."""
    plans = (
        build_plan(layout, needs, region, options.allocator.solve)
        for layout in _layer_wise_layouts(graph, find_order(graph), options)
    )
    return min(plans, key=lambda p: p.region_bytes(region.name))


def _layer_wise_layouts(graph: Graph, order: Order, options: PlanOptions) -> Iterator[Layout]:
    """Sharing parts of tensors can cost more than it saves, as whole results live from their first part on."""
    runs = layer_by_layer(order.nodes)
    yield whole_tensors(graph, runs, Sharing(keep_inputs=options.preserve_inputs))
    plain = whole_tensors(graph, runs, Sharing(parts=False, keep_inputs=options.preserve_inputs))
    yield plain


def refusal(best: ExecutionPlan, fast_bytes: int) -> DoesNotFit:
    """Why `fast_bytes` are too few for the smallest plan that was found."""
    needed = best.region_bytes(FAST)
    loads = sorted(_loads(best), key=lambda pair: -pair[0])
    blamed = ", ".join(f"{name} ({load:,} bytes in use)" for load, name in loads[:BLAMED] if load > fast_bytes)
    text = f"needs {needed:,} bytes of fast memory, {needed - fast_bytes:,} more than the budget of {fast_bytes:,}"
    blame = f"; over the budget: {blamed}" if blamed else "; no step alone exceeds the budget, the addresses do"
    return DoesNotFit(text + blame, hint=f"{needed:,} bytes is the smallest budget that was found to work")


def _loads(plan: ExecutionPlan) -> list[tuple[int, str]]:
    """Bytes in use during each stream, and the name of its last step."""
    found = []
    for now, stream in enumerate(s for stage in plan.stages for s in stage.streams):
        load = sum(b.size_bytes for b in plan.buffers if b.birth <= now <= b.death)
        node = stream.steps[-1].node
        found.append((load, f"{node.op.name} %{node.outputs[0].name}"))
    return found
