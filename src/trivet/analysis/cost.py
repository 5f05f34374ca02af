"""What a graph costs: multiply-accumulates, parameters, bytes of constants."""

from __future__ import annotations

from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class Cost:
    """Totals of a graph; `parameters` are elements of constants, `constant_bytes` what they take."""

    operators: int
    macs: int
    parameters: int
    constant_bytes: int


def node_macs(node: Node) -> int:
    """Multiply-accumulates of one execution of a node."""
    return node.op.macs(node.input_types)


def total_cost(graph: Graph) -> Cost:
    """Totals over all nodes; a constant that several nodes read counts once."""
    constants = list(graph.constants())
    return Cost(
        operators=len(graph.nodes),
        macs=sum(node_macs(node) for node in graph.nodes),
        parameters=sum(value.type.elements for value in constants),
        constant_bytes=sum(value.type.size_bytes for value in constants),
    )
