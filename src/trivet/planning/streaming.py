"""Plans whose operators stream row by row: what is chosen, placed, and chosen again where addresses need more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trivet.analysis.storage import Sharing
from trivet.ir.graph import Graph, Node
from trivet.planning.blocks import groups_of
from trivet.planning.choice import Choice, Chooser
from trivet.planning.chosen import chosen_layout, with_blocks
from trivet.planning.layout import Layout, Solver, build_plan
from trivet.planning.memory.greedy_by_size import greedy_by_size
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import FAST, ExecutionPlan, KernelNeeds, Region
from trivet.planning.streams import StreamModel

LIMITS_TRIED = 4
"""How often the limit of a choice is lowered when its addresses exceed the budget."""

LOOSER_PERCENT = (110, 130)
"""Limits tried beyond the tightest, in percent of it, where its addresses need more than they allow."""

LOOSER_NODES = 40
"""Nodes up to which such limits are tried: every one of them costs a search for addresses."""


def streamed(
    graph: Graph, nodes: tuple[Node, ...], needs: KernelNeeds, options: PlanOptions, region: Region
) -> ExecutionPlan:
    """With `nodes` in this order, the quickest plan of streams that fits the region when it is placed, or the smallest.

    Addresses may need more than the bytes in use at one time; then choices with fewer overlaps and lower limits are
    tried. Kernels that write over their operand copy every pixel: where the budget allows, none of them does. Where
    blocks are slow, streams without any come first.
    """
    groups = groups_of(graph, needs, options.max_overhead > 1)

    def search(overwrite: bool, with_groups: bool = True) -> _Search:
        chosen = groups if with_groups else []
        model = StreamModel(
            graph, nodes, needs, options.alignment, options.preserve_inputs, groups=chosen, overwrite=overwrite
        )
        return _Search(Chooser(model), needs, options, region)

    limit = region.size_bytes
    if options.objective is Objective.SPEED and limit is not None:
        ways = [(False, False), (True, False)] if groups and options.slow_blocks else []
        for way in (*ways, (False, True)):
            quick = search(*way)
            if quick.tightest().size_bytes <= limit:
                made = quick.best()
                if _size(made) <= limit:
                    return made
    return search(overwrite=True).best()


class _Search:
    """Choices of streams for one order of the nodes, and what they need when they are placed."""

    def __init__(self, chooser: Chooser, needs: KernelNeeds, options: PlanOptions, region: Region) -> None:
        self.chooser, self.needs, self.options, self.region = chooser, needs, options, region
        macs = sum(node.op.macs(node.input_types) for node in chooser.model.nodes)
        self.most_again = int(macs * (options.max_overhead - 1))

    def tightest(self) -> Choice:
        """The choice with the lowest peak."""
        return self.chooser.smallest(self.most_again)

    def best(self) -> ExecutionPlan:
        tightest = self.tightest()
        limit = self.region.size_bytes
        if self.options.objective is Objective.SPEED and limit is not None:
            for _ in range(LIMITS_TRIED):
                if limit <= tightest.size_bytes:
                    break
                made = self._placed(limit)
                if _size(made) <= limit:
                    return made
                limit -= max(1, _size(made) - limit)
        made = self._placed(tightest.size_bytes)
        for percent in LOOSER_PERCENT if len(self.chooser.model.items) <= LOOSER_NODES else ():
            looser = tightest.size_bytes * percent // 100
            if looser < _size(made):
                made = min(made, self._placed(looser), key=_size)
        return made

    def _placed(self, limit: int) -> ExecutionPlan:
        """The quickest choice within `limit`, or if its addresses need more, what comes closest.

        A quick solver sees every way first; the asked one then begins with those that leave it most freedom.
        """
        ways = [(apart, wide) for apart in (False, True) for wide in (True, False)]
        choices = [choice for way in ways if (choice := self.chooser.quickest(limit, *way)) is not None]
        made_of = [with_blocks(self.chooser.model, choice) for choice in choices]
        layouts = [layout for model, choice in made_of for layout in self._chosen(model, choice, model.overwriting)]
        if self.options.objective is Objective.SPEED:
            needed = ((model, choice, _needed_overwriting(model, choice, limit)) for model, choice in made_of)
            layouts = [layout for way in needed for layout in self._chosen(*way)] + layouts
        assert layouts, "no limit is below the smallest choice"
        quick = (self._build(layout, greedy_by_size) for layout in layouts)
        asked = (self._build(layout, self.options.allocator.solve) for layout in reversed(layouts))
        made: ExecutionPlan | None = None
        for other in chain(quick, asked):
            made = other if made is None else min(made, other, key=_size)
            if _size(made) <= limit:
                break
        assert made is not None
        return made

    def _chosen(self, model: StreamModel, choice: Choice, overwriting: frozenset[int]) -> Iterator[Layout]:
        """The layouts of a choice that differ."""
        keep = self.options.preserve_inputs
        whole = chosen_layout(model, choice, Sharing(parts=False, keep_inputs=keep, overwriting=overwriting))
        parts = chosen_layout(model, choice, Sharing(keep_inputs=keep, overwriting=overwriting))
        return iter((whole,) if parts.shared.idle == whole.shared.idle else (parts, whole))

    def _build(self, layout: Layout, solve: Solver) -> ExecutionPlan:
        return build_plan(layout, self.needs, self.region, solve)


def _needed_overwriting(model: StreamModel, choice: Choice, limit: int) -> frozenset[int]:
    """The nodes that must write over their operand, which costs their kernels a copy of every pixel."""
    needed: set[int] = set()
    for candidate in choice.candidates:
        if candidate.by_rows:
            needed |= {id(model.items[p].node) for p in range(candidate.start, candidate.stop)}
        elif candidate.size_bytes + model.overwritten_bytes(candidate.start) > limit:
            needed.add(id(model.items[candidate.start].node))
    return model.overwriting & needed


def _size(plan: ExecutionPlan) -> int:
    return plan.region_bytes(FAST)
