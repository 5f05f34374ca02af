"""What a graph was at one moment, cheaply: enough to tell whether it changed, and to write it down if it broke."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from trivet.core.record import dataclass
from trivet.core.source import Location
from trivet.ir.graph import Graph, Node, Port, State, Use, Value
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class _Facts:
    """Everything that some values hold, a list for each kind of fact: comparing lists takes no loop of ours."""

    types: list[TensorType]
    names: list[str]
    data: list[Array | None]
    producers: list[Node | None]
    uses: list[Use]
    readers: list[int]

    @staticmethod
    def of(values: tuple[Value, ...]) -> _Facts:
        return _Facts(
            [v.type for v in values],
            [v.name for v in values],
            [v.data for v in values],
            [v.producer for v in values],
            [use for v in values for use in v.uses],
            [len(v.uses) for v in values],
        )

    def same(self, other: _Facts) -> bool:
        """True iff both hold the very same objects."""
        return (
            self.names == other.names
            and self.readers == other.readers
            and _same(self.types, other.types)
            and _same(self.data, other.data)
            and _same(self.producers, other.producers)
            and _same(self.uses, other.uses)
        )


@dataclass(frozen=True, slots=True)
class _Applied:
    """What some nodes apply to what, in the same way."""

    ops: list[Op]
    inputs: list[tuple[Value, ...]]
    outputs: list[tuple[Value, ...]]

    @staticmethod
    def of(nodes: Sequence[Node]) -> _Applied:
        return _Applied([n.op for n in nodes], [n.inputs for n in nodes], [n.outputs for n in nodes])

    def same(self, other: _Applied) -> bool:
        """True iff both apply the very same operators to the same values."""
        return _same(self.ops, other.ops) and self.inputs == other.inputs and self.outputs == other.outputs


@dataclass(frozen=True, slots=True)
class Snapshot:
    """References to all parts of a graph, which is what edits replace: operators, types and constants never change.

    It covers all that structural verification reads, so an unchanged graph needs no second verification.
    """

    name: str
    nodes: list[Node]
    applied: _Applied
    locations: list[Location | None]
    values: tuple[Value, ...]
    facts: _Facts
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    states: tuple[State, ...]
    input_ports: tuple[Port, ...]
    output_ports: tuple[Port, ...]

    @staticmethod
    def take(graph: Graph) -> Snapshot:
        values = _values(graph)
        return Snapshot(
            graph.name,
            list(graph.nodes),
            _Applied.of(graph.nodes),
            [node.loc for node in graph.nodes],
            values,
            _Facts.of(values),
            tuple(graph.inputs),
            tuple(graph.outputs),
            tuple(graph.states),
            tuple(graph.input_ports),
            tuple(graph.output_ports),
        )

    def equals(self, graph: Graph) -> bool:
        """True iff every part of `graph` is the very same as it was."""
        return (
            _same(graph.nodes, self.nodes)
            and self._same_interface(graph)
            and self.applied.same(_Applied.of(self.nodes))
            and self.facts.same(_Facts.of(self.values))
        )

    def _same_interface(self, graph: Graph) -> bool:
        return (
            _same(graph.inputs, self.inputs)
            and _same(graph.outputs, self.outputs)
            and _same(graph.states, self.states)
            and _same(graph.input_ports, self.input_ports)
            and _same(graph.output_ports, self.output_ports)
        )

    def restore(self) -> Graph:
        """A graph of its own that is what the first one was."""
        made = {
            id(value): Value(type_, name, data)
            for value, type_, name, data in zip(
                self.values, self.facts.types, self.facts.names, self.facts.data, strict=True
            )
        }
        graph = Graph(self.name)
        applied = self.applied
        for op, inputs, outputs, loc in zip(applied.ops, applied.inputs, applied.outputs, self.locations, strict=True):
            node = Node(op, tuple(made[id(v)] for v in inputs), tuple(made[id(v)] for v in outputs), loc)
            for value in node.outputs:
                value.producer = node
            for index, value in enumerate(node.inputs):
                value.uses.append(Use(node, index))
            graph.nodes.append(node)
        graph.inputs = [made[id(v)] for v in self.inputs]
        graph.outputs = [made[id(v)] for v in self.outputs]
        graph.states = [State(made[id(s.read)], made[id(s.written)], s.initial) for s in self.states]
        graph.input_ports, graph.output_ports = list(self.input_ports), list(self.output_ports)
        return graph


def _values(graph: Graph) -> tuple[Value, ...]:
    """Every value once: of the interface, read and computed."""
    found: dict[int, Value] = {}
    for value in (*graph.inputs, *graph.outputs):
        found[id(value)] = value
    for state in graph.states:
        found[id(state.read)] = state.read
        found[id(state.written)] = state.written
    for node in graph.nodes:
        for value in node.inputs:
            found[id(value)] = value
        for value in node.outputs:
            found[id(value)] = value
    return tuple(found.values())


def _same(now: Sequence[object], was: Sequence[object]) -> bool:
    """True iff both hold the same objects in the same order."""
    return len(now) == len(was) and all(map(is_, now, was))
