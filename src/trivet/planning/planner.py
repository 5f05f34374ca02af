"""Chooses order, sharing, streams and addresses so that a graph fits its budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trivet.analysis.liveness import layer_by_layer
from trivet.analysis.storage import Sharing
from trivet.core.late import late
from trivet.errors import DoesNotFit
from trivet.ir.graph import Graph, Node
from trivet.planning.layout import Layout, Solver, build_plan, whole_tensors
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.order import find_order
from trivet.planning.plan import CALLER, FAST, BufferKind, ExecutionPlan, KernelNeeds, Region
from trivet.planning.validate import violations

if TYPE_CHECKING:
    from trivet.planning import splits, staging, streaming
else:
    splits, staging = late("trivet.planning.splits"), late("trivet.planning.staging")
    streaming = late("trivet.planning.streaming")

OVERHEAD_TRIED = 1.25
"""Repeated work that a refusal looks at."""

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

    With `slow_bytes`, inputs and outputs are in a slow memory of that size, and so is what does not fit elsewhere.

    Raises: DoesNotFit, with the bytes missing, the operators to blame and what would help.
    """
    options = options or PlanOptions()
    planner = _Planner(graph, needs, options, fast_bytes)
    best = planner.best() if slow_bytes is None else planner.staged(slow_bytes)
    problems = violations(best)
    assert not problems, f"the planner made an invalid plan: {problems}"
    if fast_bytes is not None and best.region_bytes(FAST) > fast_bytes:
        raise refusal(best, fast_bytes, planner.techniques())
    return best


class _Planner:
    """Tries what costs least time first, and stops at the first plan that fits."""

    def __init__(self, graph: Graph, needs: KernelNeeds, options: PlanOptions, fast_bytes: int | None) -> None:
        self.graph, self.needs, self.options, self.fast_bytes = graph, needs, options, fast_bytes
        self.region = Region(FAST, fast_bytes, options.alignment)
        self._solve = options.allocator.solve
        self.orders = _distinct([find_order(graph).nodes, tuple(graph.nodes)])

    def best(self) -> ExecutionPlan:
        """The quickest plan that fits, or the smallest, if that is asked or nothing fits."""
        smallest = self._smallest_of(self._layer_wise())
        if self.options.objective is Objective.SPEED and (self.fast_bytes is None or self._fits(smallest)):
            return smallest
        smallest = min((smallest, *(self._build(layout, self._solve) for layout in self._overwriting())), key=_size)
        if self.options.objective is Objective.SPEED and self._fits(smallest):
            return smallest
        for graph, nodes in self._streamable():
            found = streaming.streamed(graph, nodes, self.needs, self.options, self.region)
            smallest = min(smallest, found, key=_size)
            if self.options.objective is Objective.SPEED and self._fits(smallest):
                break
        return smallest

    def _streamable(self) -> Iterator[tuple[Graph, tuple[Node, ...]]]:
        """What may stream, the quickest first: the graph in its orders, then with dense layers split by channels."""
        for nodes in self.orders:
            yield self.graph, nodes
        split = splits.split_channels(self.graph, self.needs)
        if split is not None:
            yield split, tuple(split.nodes)

    def staged(self, slow_bytes: int) -> ExecutionPlan:
        """The plan with least traffic.

        Raises: DoesNotFit.
        """
        total = _size(self._smallest_of(self._layer_wise()))
        budgets = self.fast_bytes, slow_bytes
        return staging.staged(self._streamable(), self.needs, self.options, budgets, total)

    def techniques(self) -> dict[str, int]:
        """The smallest budget that works, by what is done for it."""
        small = replace(self.options, objective=Objective.MEMORY)
        again = replace(small, max_overhead=max(small.max_overhead, OVERHEAD_TRIED))
        found = {"layer by layer": _size(self._smallest_of(self._layer_wise()))}
        unbounded = Region(FAST, None, self.options.alignment)
        for name, options in (("row streams", small), (f"--max-overhead {again.max_overhead:g}", again)):
            nodes = self.orders[0]
            found[name] = _size(streaming.streamed(self.graph, nodes, self.needs, options, unbounded))
        return found

    def _fits(self, plan: ExecutionPlan) -> bool:
        return self.fast_bytes is None or _size(plan) <= self.fast_bytes

    def _layer_wise(self) -> Iterator[Layout]:
        """Sharing parts of tensors can cost more than it saves, as whole results live from their first part on."""
        runs = layer_by_layer(self.orders[0])
        parts, whole = (
            whole_tensors(self.graph, runs, Sharing(parts=parts, keep_inputs=self.options.preserve_inputs))
            for parts in (True, False)
        )
        yield parts
        if whole.shared != parts.shared:
            yield whole

    def _overwriting(self) -> Iterator[Layout]:
        """Layers whose kernels write over their operand, which costs them a copy of every pixel."""
        overwriting = frozenset(id(node) for node in self.graph.nodes if self.needs.overwrites(node))
        for parts in (True, False) if overwriting else ():
            sharing = Sharing(parts=parts, keep_inputs=self.options.preserve_inputs, overwriting=overwriting)
            yield whole_tensors(self.graph, layer_by_layer(self.orders[0]), sharing)

    def _build(self, layout: Layout, solve: Solver) -> ExecutionPlan:
        return build_plan(layout, self.needs, self.region, solve)

    def _smallest_of(self, layouts: Iterable[Layout]) -> ExecutionPlan:
        return min((self._build(layout, self._solve) for layout in layouts), key=_size)


def _size(plan: ExecutionPlan) -> int:
    return plan.region_bytes(FAST)


def _distinct(orders: Iterable[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    return list({tuple(map(id, nodes)): nodes for nodes in orders}.values())


def refusal(best: ExecutionPlan, fast_bytes: int, techniques: dict[str, int]) -> DoesNotFit:
    """Why `fast_bytes` are too few for the smallest plan that was found, and what each technique would need."""
    needed = best.region_bytes(FAST)
    loads = sorted(_loads(best), key=lambda pair: -pair[0])
    blamed = ", ".join(f"{name} ({load:,} bytes in use)" for load, name in loads[:BLAMED] if load > fast_bytes)
    text = f"needs {needed:,} bytes of fast memory, {needed - fast_bytes:,} more than the budget of {fast_bytes:,}"
    blame = f"; over the budget: {blamed}" if blamed else "; no step alone exceeds the budget, the addresses do"
    others = "; ".join(f"{name}: {size:,}" for name, size in techniques.items())
    whole = [b for b in best.buffers if b.kind is BufferKind.INPUT and b.region == FAST]
    rows = f"; the input takes {sum(b.size_bytes for b in whole):,} of them: --input-rows" if whole else ""
    hint = f"{needed:,} bytes is the smallest budget that was found to work ({others}){rows}"
    return DoesNotFit(text + blame, hint=hint)


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Bytes in any of the spans."""
    total = end = 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _loads(plan: ExecutionPlan) -> list[tuple[int, str]]:
    """Bytes in use during each stream, and the name of its last step."""
    found = []
    for now, stream in enumerate(s for stage in plan.stages for s in stage.streams):
        held = [b for b in plan.buffers if b.birth <= now <= b.death and b.region != CALLER]
        load = _covered((b.offset, b.offset + b.size_bytes) for b in held)
        node = stream.steps[-1].node
        found.append((load, f"{node.op.name} %{node.outputs[0].name}"))
    return found
