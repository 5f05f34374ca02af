"""How many instructions a plan takes on a core, predicted from the costs of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trivet.analysis.cost import node_macs
from trivet.backends.plan.selection import Selection
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.planning.plan import ExecutionPlan
from trivet.targets.costs import CoreCosts, costs_of


@dataclass(frozen=True, slots=True)
class Estimate:
    """Instructions of one run, of each layer in the order of the plan, and the kernels whose costs are assumed only."""

    cpu: str
    instructions: int
    layers: Sequence[int]
    assumed: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "cpu": self.cpu,
            "instructions": self.instructions,
            "layers": list(self.layers),
            "assumed_kernels": list(self.assumed),
        }

    def __str__(self) -> str:
        assumed = f" ({', '.join(self.assumed)}: never measured there, assumed)" if self.assumed else ""
        return f"about {self.instructions:,} instructions on {self.cpu}{assumed}"


def estimate_on(cpu: str, plan: ExecutionPlan, selection: Selection) -> Estimate | None:
    """What a run of the plan takes on a core, None where its kernels were never measured."""
    costs = costs_of(cpu)
    return None if costs is None else estimate(plan, selection, costs)


def estimate(plan: ExecutionPlan, selection: Selection, costs: CoreCosts) -> Estimate:
    """What a run of the plan takes."""
    layers, assumed = [], set()
    for step in plan.steps():
        kernel = selection.call(step.node).kernel.name
        layers.append(round(costs.instructions(kernel, terms(step.node, step.firings))))
        if kernel not in costs.kernels:
            assumed.add(kernel)
    further = sum(calls(step.node, step.firings) - 1 for step in plan.steps())
    beside = costs.run["layers"] * len(layers) + costs.run["calls"] * further
    return Estimate(costs.cpu, round(beside) + sum(layers), layers, tuple(sorted(assumed)))


def calls(node: Node, firings: int) -> int:
    """How often a layer's kernel is called in a run."""
    type_ = node.outputs[0].type
    return firings * (type_.shape[0] if type_.rank == 4 else 1)


def terms(node: Node, firings: int) -> Mapping[str, int]:
    """The terms of a layer, as `trivet.targets.costs` names them. A result [..., C] has one pixel for C elements."""
    shape = node.outputs[0].type.shape
    outputs = sum(value.type.elements for value in node.outputs)
    channels = max(1, shape[-1] if shape else 1)
    macs = node_macs(node)
    read = max((value.type.elements for value in node.inputs if not value.is_constant), default=0)
    window = macs // channels if macs else read
    return {
        "calls": calls(node, firings),
        "pixels": outputs // channels,
        "outputs": outputs,
        "window": window,
        "rows": outputs // channels * _window_rows(node),
        "steps": outputs * -(-macs // (16 * max(1, outputs))),
        "macs": macs,
    }


def _window_rows(node: Node) -> int:
    """Rows of a window of several pixels, else none: filters are [O, KH, KW, I]."""
    filters = node.inputs[1].type.shape if len(node.inputs) > 1 else ()
    return filters[1] if len(filters) == 4 and filters[1] * filters[2] > 1 else 0
