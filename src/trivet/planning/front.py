"""What less memory costs: the choices of streams that nothing beats in bytes, repeated work and kernel calls."""

from __future__ import annotations

from dataclasses import replace

from trivet.core.record import dataclass
from trivet.ir.graph import Graph
from trivet.planning.blocks import groups_of
from trivet.planning.choice import Choice, Chooser
from trivet.planning.options import PlanOptions
from trivet.planning.order import find_order
from trivet.planning.plan import KernelNeeds
from trivet.planning.streams import StreamModel

SHARES = (0.0, 0.3, 1.0)
"""Of the repeated work that is allowed, for which the smallest choice is found."""

STEPS = 5
"""Limits that are tried between the smallest choice without repeated work and the layers."""


@dataclass(frozen=True, slots=True)
class Point:
    """A choice: the most bytes in use at one time, the MACs that are done again, the calls of kernels."""

    fast_bytes: int
    repeated_macs: int
    kernel_calls: int

    def beats(self, other: Point) -> bool:
        """True iff it is another point and nowhere worse."""
        ours, theirs = self.as_tuple(), other.as_tuple()
        return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))

    def as_tuple(self) -> tuple[int, int, int]:
        return self.fast_bytes, self.repeated_macs, self.kernel_calls


def pareto_front(graph: Graph, needs: KernelNeeds, options: PlanOptions) -> tuple[Point, ...]:
    """From the fewest bytes to those of whole layers; work is repeated up to the options' `max_overhead`.

    Bytes are those in use: addresses may need a few more.
    """
    nodes = find_order(graph).nodes
    groups = groups_of(graph, needs, options.max_overhead > 1)
    model = StreamModel(graph, nodes, needs, options.alignment, options.preserve_inputs, groups=groups)
    chooser = Chooser(model)
    macs = sum(node.op.macs(node.input_types) for node in nodes)
    most = macs * (options.max_overhead - 1)
    choices = [chooser.layer_wise(), *(chooser.smallest(int(most * share)) for share in SHARES)]
    once = min(choice.size_bytes for choice in choices if not choice.repeated_macs)
    limits = [once + (choices[0].size_bytes - once) * step // STEPS for step in range(STEPS)]
    found = (chooser.quickest(limit) for limit in dict.fromkeys(limits))
    points = [_point(choice) for choice in (*choices, *found) if choice is not None]
    front = {p.as_tuple(): p for p in points if not any(other.beats(p) for other in points)}
    return tuple(front[key] for key in sorted(front))


def _point(choice: Choice) -> Point:
    calls = sum(candidate.firings if candidate.by_rows else 1 for candidate in choice.candidates)
    return Point(choice.size_bytes, choice.repeated_macs, calls)


def with_overhead(options: PlanOptions, least: float) -> PlanOptions:
    """The options with at least so much repeated work."""
    return replace(options, max_overhead=max(options.max_overhead, least))
