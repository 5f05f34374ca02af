"""Graphs compared as text, whatever their values are called."""

from __future__ import annotations

from dataclasses import replace

from trivet.ir.graph import Graph
from trivet.ir.text.printer import print_graph


def normal_form(graph: Graph) -> str:
    """The text of a graph with values named by their order."""
    produced = [value for node in graph.nodes for value in node.outputs]
    for index, value in enumerate([*graph.inputs, *(s.read for s in graph.states), *graph.constants(), *produced]):
        value.name = f"v{index}"
    graph.input_ports[:] = [replace(port, name=v.name) for v, port in zip(graph.inputs, graph.input_ports, strict=True)]
    graph.output_ports[:] = [
        replace(port, name=value.name) for value, port in zip(graph.outputs, graph.output_ports, strict=True)
    ]
    return print_graph(graph)
