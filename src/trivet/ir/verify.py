"""The structural invariants of a graph, checked after every pass."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_

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


class Inferred:
    """The nodes whose declared types were found to be what their operators infer, with what that was judged by.

    Operators and types never change, so a node that still has the very same ones needs no second inference.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, list[object]]] = {}
        self._found: dict[int, tuple[Node, list[object]]] = {}

    def violations(self, node: Node) -> Iterator[str]:
        """A sentence if the node's results are not declared as its operator infers them."""
        facts: list[object] = [node.op, *[v.type for v in node.inputs], None, *[v.type for v in node.outputs]]
        _, before = self._known.get(id(node), (None, ()))
        if len(before) != len(facts) or not all(map(is_, before, facts)):
            declared = tuple([v.type for v in node.outputs])
            try:
                expected = node.op.infer(node.input_types)
            except TypeMismatch as error:
                yield f"{node!r}: {error}"
                return
            if expected != declared:
                yield f"{node!r} gives {expected}, declared {declared}"
                return
        self._found[id(node)] = (node, facts)

    def forget_others(self) -> None:
        """Keep only the nodes that were judged since this was last called."""
        self._known, self._found = self._found, {}


def violations(graph: Graph, inferred: Inferred | None = None) -> Iterator[str]:
    """A sentence for every broken invariant, in order of the graph.

    `inferred` remembers from one check to the next what need not be inferred again.
    """
    inferred = inferred if inferred is not None else Inferred()
    yield from _ports(graph)
    defined = {id(v) for v in graph.inputs} | {id(s.read) for s in graph.states}
    if len(defined) != len(graph.inputs) + len(graph.states):
        yield "a value is two inputs or states at once"
    for node in graph.nodes:
        yield from _operands(node, defined)
        yield from _results(node, defined)
        yield from inferred.violations(node)
    inferred.forget_others()
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


def _operands(node: Node, defined: set[int]) -> Iterator[str]:
    for value in node.inputs:
        if value.data is not None:
            if value.data.shape != value.type.shape or value.data.dtype != value.type.dtype.numpy:
                yield f"constant %{value.name} is not {value.type}"
        elif id(value) not in defined:
            yield f"{node!r} reads %{value.name} before it is defined"


def _results(node: Node, defined: set[int]) -> Iterator[str]:
    for value in node.outputs:
        if id(value) in defined:
            yield f"%{value.name} is defined twice"
        if value.producer is not node or value.is_constant:
            yield f"%{value.name} does not know that {node!r} produces it"
        defined.add(id(value))


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
