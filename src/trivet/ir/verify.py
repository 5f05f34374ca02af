"""The structural invariants of a graph, checked after every pass."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import TypeMismatch


class BrokenGraph(AssertionError):
    """The graph contradicts itself: a fault of the pass that made it."""


def verify(graph: Graph) -> None:
    """Check definitions, use lists, types and ports.

    Raises: BrokenGraph naming the first violation.
    """
    for violation in violations(graph):
        raise BrokenGraph(violation)


def violations(graph: Graph) -> Iterator[str]:
    """A sentence for every broken invariant, in order of the graph."""
    yield from _ports(graph)
    defined = {id(v) for v in graph.inputs} | {id(s.read) for s in graph.states}
    if len(defined) != len(graph.inputs) + len(graph.states):
        yield "a value is two inputs or states at once"
    for node in graph.nodes:
        if not all([_is_sound(value, defined) for value in node.inputs]):
            yield from _operands(node, defined)
        yield from _results(node, defined)
        if not node.is_inferred():
            yield from _types(node)
    for value in graph.results():
        if not value.is_constant and id(value) not in defined:
            yield f"%{value.name} is returned and never defined"
    yield from _state_types(graph)
    if not _use_lists_agree(graph):
        yield "use lists disagree with the operands"


def _ports(graph: Graph) -> Iterator[str]:
    for kind, values, ports in (
        ("input", graph.inputs, graph.input_ports),
        ("output", graph.outputs, graph.output_ports),
    ):
        if len(values) != len(ports):
            yield f"{len(values)} {kind}s have {len(ports)} ports"
        for value, port in zip(values, ports, strict=False):
            stored = value.type.shape
            if port.perm is not None and sorted(port.perm) != list(range(len(stored))):
                yield f"{kind} %{value.name}: {port.perm} is no permutation"
            elif port.type.shape != (stored if port.perm is None else tuple(stored[p] for p in port.perm)):
                yield f"{kind} %{value.name}: {value.type} is not the port's {port.type} under {port.perm}"


def _is_sound(value: Value, defined: set[int]) -> bool:
    """True iff an operand is a constant of its type, or defined."""
    data = value.data
    if data is None:
        return id(value) in defined
    return data.shape == value.type.shape and data.dtype == value.type.dtype.numpy


def _operands(node: Node, defined: set[int]) -> Iterator[str]:
    for value in node.inputs:
        if not _is_sound(value, defined) and value.is_constant:
            yield f"constant %{value.name} is not {value.type}"
        elif not _is_sound(value, defined):
            yield f"{node!r} reads %{value.name} before it is defined"


def _results(node: Node, defined: set[int]) -> Iterator[str]:
    for value in node.outputs:
        if id(value) in defined:
            yield f"%{value.name} is defined twice"
        if value.producer is not node or value.is_constant:
            yield f"%{value.name} does not know that {node!r} produces it"
        defined.add(id(value))


def _types(node: Node) -> Iterator[str]:
    declared = tuple([v.type for v in node.outputs])
    try:
        expected = node.op.infer(node.input_types)
    except TypeMismatch as error:
        yield f"{node!r}: {error}"
        return
    if expected == declared:
        node.note_inferred()
    else:
        yield f"{node!r} gives {expected}, declared {declared}"


def _state_types(graph: Graph) -> Iterator[str]:
    for state in graph.states:
        read, written = state.read.type, state.written.type
        if (read.dtype, read.shape) != (written.dtype, written.shape):
            yield f"state %{state.read.name} is {read} and becomes {written}"
        if state.initial.shape != read.shape or state.initial.dtype != read.dtype.numpy:
            yield f"the initial value of state %{state.read.name} is not {read}"


def _use_lists_agree(graph: Graph) -> bool:
    """True iff the use lists name every operand of every node once, and nothing else."""
    nodes = {id(node) for node in graph.nodes}
    values = {id(value): value for value in _values(graph)}
    listed = 0
    for value in values.values():
        listed += len(value.uses)
        for use in value.uses:
            node, index = use.node, use.index
            if id(node) not in nodes or not 0 <= index < len(node.inputs) or node.inputs[index] is not value:
                return False
        if len(value.uses) > 1 and len({(id(use.node), use.index) for use in value.uses}) < len(value.uses):
            return False
    return listed == sum(len(node.inputs) for node in graph.nodes)


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from (state.read for state in graph.states)
    yield from graph.results()
    for node in graph.nodes:
        yield from node.inputs
        yield from node.outputs
