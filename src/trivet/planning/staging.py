"""Plans with a slow memory: stages with least traffic that fit, placed, and chosen again where addresses need more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from trivet.core.record import dataclass
from trivet.errors import DoesNotFit
from trivet.ir.graph import Graph, Node
from trivet.planning.layout import Layout, Solver, build_plan
from trivet.planning.memory.greedy_by_size import greedy_by_size
from trivet.planning.memory.problem import Block, Problem, lower_bound
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import FAST, SLOW, ExecutionPlan, KernelNeeds, Region
from trivet.planning.spilling import Spilling
from trivet.planning.staged_graph import staged_graph, staged_layouts
from trivet.planning.stages import ANY, Cut, Limits, StageChooser
from trivet.planning.streams import StreamModel
from trivet.planning.traffic import traffic

LIMITS_TRIED = 4
"""How often the limit of a choice is lowered when its addresses exceed the budget."""

LARGEST = 2
"""The largest tensors, for each of which limits are tried that just leave room for it in one of the memories."""

HOPELESS = 2
"""A choice whose addresses exceed the limits by more than such a part of the fast memory is not tried with less."""

SHARES = (1, 2, 4, 16, 64)
"""Parts of the budget of fast memory that are tried, the largest first, when both memories are bounded together."""

BLAMED = 3
"""Operators that a refusal names."""


def staged(
    ways: Iterable[tuple[Graph, tuple[Node, ...]]],
    needs: KernelNeeds,
    options: PlanOptions,
    budgets: tuple[int | None, int | None],
    layer_wise_bytes: int,
) -> ExecutionPlan:
    """The plan with least traffic within the budgets, or under `Objective.MEMORY` with least fast memory.

    `ways` are graphs that compute the same, with orders of their nodes. Both memories together are no larger than the
    network layer by layer, or if that cannot be, than that and inputs and outputs, or if that cannot be either, as
    large as the budgets say.

    Raises: DoesNotFit.
    """
    models = [StreamModel(graph, nodes, needs, options.alignment, options.preserve_inputs) for graph, nodes in ways]
    if models[0].graph.states:
        del models[1:]  # values that live all the time make every search long
    choosers = [StageChooser(Spilling(model)) for model in models]
    graph = models[0].graph
    border = sum(value.type.size_bytes for value in (*graph.inputs, *graph.outputs))
    for total in (layer_wise_bytes, layer_wise_bytes + border, ANY):
        search = _Search(needs, options, Limits(*budgets), total)
        found: list[ExecutionPlan] = []
        for chooser in choosers:
            plan = search.best(chooser)
            found += [] if plan is None else [plan]
            if (
                plan is not None
                and options.objective is Objective.SPEED
                and chooser.is_least(traffic(plan).total_bytes)
            ):
                return plan
        if found:
            return min(found, key=search.cost)
    raise search.refusal(choosers[-1])


@dataclass(frozen=True, slots=True)
class _Search:
    """Choices of stages for one order of the nodes, and what they need when they are placed."""

    needs: KernelNeeds
    options: PlanOptions
    limits: Limits
    total_bytes: int
    """What both memories together may have."""

    def cost(self, plan: ExecutionPlan) -> tuple[int, ...]:
        fast, moved = plan.region_bytes(FAST), traffic(plan).total_bytes
        return (fast, moved) if self.options.objective is Objective.MEMORY else (moved, fast)

    def best(self, chooser: StageChooser) -> ExecutionPlan | None:
        """The plan with least traffic; a quick solver is enough where nothing beyond inputs and outputs moves."""
        if self.options.objective is Objective.MEMORY:
            return self._smallest(chooser, self.options.allocator.solve)
        pairs = list(self._together(chooser))
        for solve, may_spill in ((greedy_by_size, False), (self.options.allocator.solve, True)):
            for limits in pairs:
                found = self._within(chooser, limits, solve, may_spill)
                if found is not None:
                    return found
        plans = self._placed(chooser, chooser.all_slow(), self.options.allocator.solve)
        return next((plan for plan in plans if self._excess(plan) <= 0), None)

    def _smallest(self, chooser: StageChooser, solve: Solver) -> ExecutionPlan | None:
        """The plan for the smallest limit of fast memory for which there is one."""
        enough = self._most(chooser)
        for limit in _rising(chooser.smallest_fast(self.limits), enough):
            found = self._within(chooser, self._pair(limit), solve)
            if found is not None:
                return found
        return None

    def _together(self, chooser: StageChooser) -> Iterator[Limits]:
        """Limits of both memories that together are what the network needs layer by layer."""
        spilling, total, most = chooser.spilling, self.total_bytes, self._most(chooser)
        border = [spilling.sizes(s) for s in (spilling.inputs, spilling.outputs)]
        shares = [min(most, total - sum(border)), min(most, total - max(border)), *(most // part for part in SHARES)]
        large = sorted({spilling.size(s) for s in range(len(chooser.model.held))})[-LARGEST:]
        shares += [share for size in large for share in (size, total - size)]
        for share in sorted({s for s in (*shares, chooser.least_bytes()) if 0 <= s <= most}, reverse=True):
            yield self._pair(share)

    def _most(self, chooser: StageChooser) -> int:
        """The most fast memory that a plan may use, or can."""
        given = self.limits.fast_bytes
        return min(self.total_bytes, chooser.most_bytes() if given is None else given)

    def _pair(self, fast: int) -> Limits:
        """So much fast memory, and what may be had of the slow one."""
        slow = max(0, self.total_bytes - fast)
        return Limits(fast, slow if self.limits.slow_bytes is None else min(slow, self.limits.slow_bytes))

    def _within(
        self, chooser: StageChooser, limits: Limits, solve: Solver, may_spill: bool = True
    ) -> ExecutionPlan | None:
        """A plan that fits when it is placed; addresses may need more than the bytes in use at one time."""
        fast = limits.fast_bytes
        assert fast is not None
        for _ in range(LIMITS_TRIED if may_spill and not chooser.spilling.states else 2):
            cut = chooser.choose(Limits(fast, limits.slow_bytes), may_spill)
            if cut is None:
                return None
            least = ANY
            for plan in self._placed(chooser, cut, solve):
                excess = self._excess(plan)
                if excess <= 0:
                    return plan
                least = min(least, excess)
            if least > fast // HOPELESS:
                return None
            fast -= max(1, min(least, fast // 8))
        return None

    def _placed(self, chooser: StageChooser, cut: Cut, solve: Solver) -> Iterator[ExecutionPlan]:
        """Plans of a choice: by a quick solver, then by another one where other addresses may help."""
        made = staged_graph(chooser.model, cut)
        layouts = staged_layouts(made, self.needs, self.options.alignment, self.options.preserve_inputs)
        hopeful = []
        for layout in layouts:
            plan = self._build(layout, greedy_by_size)
            yield plan
            if solve is not greedy_by_size and self._excess(plan, _least_bytes) <= 0:
                hopeful.append(layout)
        for layout in hopeful:
            yield self._build(layout, solve)

    def _build(self, layout: Layout, solve: Solver) -> ExecutionPlan:
        fast = Region(FAST, self.limits.fast_bytes, self.options.alignment)
        slow = Region(SLOW, self.limits.slow_bytes, self.options.alignment, is_fast=False)
        return build_plan(layout, self.needs, fast, solve, slow)

    def _excess(
        self, plan: ExecutionPlan, bytes_of: Callable[[ExecutionPlan, str], int] = ExecutionPlan.region_bytes
    ) -> int:
        """Bytes past the limits, by a measure of what a region needs; both memories together count as well."""
        fast, slow = bytes_of(plan, FAST), bytes_of(plan, SLOW)
        most_fast = fast if self.limits.fast_bytes is None else self.limits.fast_bytes
        most_slow = slow if self.limits.slow_bytes is None else self.limits.slow_bytes
        return max(fast - most_fast, slow - most_slow, fast + slow - self.total_bytes)

    def refusal(self, chooser: StageChooser) -> DoesNotFit:
        """Why there is no plan, and the smallest budgets that work."""
        fast, slow = self.limits.fast_bytes, self.limits.slow_bytes
        least = replace(self, limits=Limits(None, None))._smallest(chooser, greedy_by_size)
        assert least is not None, "with enough of both memories there is a plan"
        needed, beside = least.region_bytes(FAST), least.region_bytes(SLOW)
        if fast is not None and needed > fast:
            return DoesNotFit(
                f"needs {needed:,} bytes of fast memory beside the slow one, {needed - fast:,} more than the budget of "
                f"{fast:,}{_blame(chooser, fast)}",
                hint=f"{needed:,} bytes of fast memory is the smallest that was found to work, with {beside:,} slow",
            )
        assert slow is not None, "without a limit of slow memory only fast memory can be too small"
        needed = max(slow + 1, chooser.smallest_slow(fast))
        return DoesNotFit(
            f"needs {needed:,} bytes of slow memory, {needed - slow:,} more than the budget of {slow:,}",
            hint=f"{needed:,} bytes of slow memory is the smallest budget that may work beside this fast memory",
        )


def _least_bytes(plan: ExecutionPlan, region: str) -> int:
    """What no addresses in a region can go below."""
    blocks = tuple(
        Block(b.name, b.size_bytes if b.region == region else 0, b.birth, b.death, b.alignment) for b in plan.buffers
    )
    return lower_bound(Problem(blocks, plan.memories, plan.overlaps)) if blocks else 0


def _blame(chooser: StageChooser, fast_bytes: int) -> str:
    """The operators that need more than there is although all their operands and results are in slow memory."""
    alone = sorted(chooser.alone(), key=lambda pair: -pair[0])
    names = ", ".join(f"{name} ({size:,} bytes)" for size, name in alone[:BLAMED] if size > fast_bytes)
    return f"; over the budget by themselves: {names}" if names else ""


def _rising(start: int, stop: int) -> Iterator[int]:
    """Limits from `start` on, up to `stop`, an eighth apart."""
    limit = start
    while limit < stop:
        yield limit
        limit += max(64, limit // 8)
    if start <= stop:
        yield stop
