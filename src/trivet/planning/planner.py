"""Chooses order, sharing, streams and addresses so that a graph fits its budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from trivet.analysis.liveness import layer_by_layer
from trivet.analysis.storage import Sharing
from trivet.errors import CompileError, DoesNotFit
from trivet.ir.graph import Graph, Node
from trivet.planning.choice import Choice, Chooser
from trivet.planning.chosen import chosen_layout
from trivet.planning.layout import Layout, Solver, build_plan, whole_tensors
from trivet.planning.memory.greedy_by_size import greedy_by_size
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.order import find_order
from trivet.planning.plan import ExecutionPlan, KernelNeeds, Region
from trivet.planning.streams import StreamModel
from trivet.planning.validate import violations

FAST = "fast"
"""The name of the region that holds everything when there is one memory."""

LIMITS_TRIED = 4
"""How often the limit of a choice is lowered when its addresses exceed the budget."""

LOOSER_PERCENT = (110, 130)
"""Limits tried beyond the tightest, in percent of it, where its addresses need more than they allow."""

LOOSER_NODES = 40
"""Nodes up to which such limits are tried: every one of them costs a search for addresses."""

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
    best = _Planner(graph, needs, options, fast_bytes).best()
    problems = violations(best)
    assert not problems, f"the planner made an invalid plan: {problems}"
    if fast_bytes is not None and best.region_bytes(FAST) > fast_bytes:
        raise refusal(best, fast_bytes)
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
        for nodes in self.orders:
            model = StreamModel(self.graph, nodes, self.needs, self.options.alignment, self.options.preserve_inputs)
            found = self._streamed(Chooser(model))
            smallest = min(smallest, found, key=_size)
            if self.options.objective is Objective.SPEED and self._fits(smallest):
                break
        return smallest

    def _fits(self, plan: ExecutionPlan) -> bool:
        return self.fast_bytes is None or _size(plan) <= self.fast_bytes

    def _layer_wise(self) -> Iterator[Layout]:
        """Sharing parts of tensors can cost more than it saves, as whole results live from their first part on."""
        runs = layer_by_layer(self.orders[0])
        for parts in (True, False):
            yield whole_tensors(self.graph, runs, Sharing(parts=parts, keep_inputs=self.options.preserve_inputs))

    def _overwriting(self) -> Iterator[Layout]:
        """Layers whose kernels write over their operand, which costs them a copy of every pixel."""
        overwriting = frozenset(id(node) for node in self.graph.nodes if self.needs.overwrites(node))
        for parts in (True, False) if overwriting else ():
            sharing = Sharing(parts=parts, keep_inputs=self.options.preserve_inputs, overwriting=overwriting)
            yield whole_tensors(self.graph, layer_by_layer(self.orders[0]), sharing)

    def _streamed(self, chooser: Chooser) -> ExecutionPlan:
        """Streams by rows: the quickest choice that fits when it is placed, or the smallest.

        Addresses may need more than the bytes in use at one time; then choices with fewer overlaps and lower limits
        are tried.
        """
        tightest = chooser.smallest()
        limit = self.fast_bytes
        if self.options.objective is Objective.SPEED and limit is not None:
            for _ in range(LIMITS_TRIED):
                if limit <= tightest.size_bytes:
                    break
                made = self._placed(chooser, limit)
                if self._fits(made):
                    return made
                limit -= max(1, _size(made) - limit)
        made = self._placed(chooser, tightest.size_bytes)
        for percent in LOOSER_PERCENT if len(chooser.model.items) <= LOOSER_NODES else ():
            looser = tightest.size_bytes * percent // 100
            if looser < _size(made):
                made = min(made, self._placed(chooser, looser), key=_size)
        return made

    def _placed(self, chooser: Chooser, limit: int) -> ExecutionPlan:
        """The quickest choice within `limit`, or if its addresses need more, what comes closest.

        A quick solver sees every way first; the asked one then begins with those that leave it most freedom.
        """
        ways = [(apart, wide) for apart in (False, True) for wide in (True, False)]
        choices = [choice for way in ways if (choice := chooser.quickest(limit, *way)) is not None]
        layouts = [layout for choice in choices for layout in self._chosen(chooser.model, choice)]
        assert layouts, "no limit is below the smallest choice"
        quick = (self._build(layout, greedy_by_size) for layout in layouts)
        asked = (self._build(layout, self._solve) for layout in reversed(layouts))
        made: ExecutionPlan | None = None
        for other in chain(quick, asked):
            made = other if made is None else min(made, other, key=_size)
            if _size(made) <= limit:
                break
        assert made is not None
        return made

    def _chosen(self, model: StreamModel, choice: Choice) -> Iterator[Layout]:
        """The layouts of a choice that differ."""
        keep = self.options.preserve_inputs
        overwriting = model.overwriting
        whole = chosen_layout(model, choice, Sharing(parts=False, keep_inputs=keep, overwriting=overwriting))
        parts = chosen_layout(model, choice, Sharing(keep_inputs=keep, overwriting=overwriting))
        return iter((whole,) if parts.shared.idle == whole.shared.idle else (parts, whole))

    def _build(self, layout: Layout, solve: Solver) -> ExecutionPlan:
        return build_plan(layout, self.needs, self.region, solve)

    def _smallest_of(self, layouts: Iterable[Layout]) -> ExecutionPlan:
        return min((self._build(layout, self._solve) for layout in layouts), key=_size)


def _size(plan: ExecutionPlan) -> int:
    return plan.region_bytes(FAST)


def _distinct(orders: Iterable[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    return list({tuple(map(id, nodes)): nodes for nodes in orders}.values())


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
