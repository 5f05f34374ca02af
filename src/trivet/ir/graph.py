"""The graph: values, nodes in execution order, and the use lists that only this module and `rewriter` change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from operator import is_

import numpy as np

from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.core.source import Location
from trivet.ir.op import Array, Op, TypeMismatch
from trivet.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Use:
    """Operand `index` of `node`."""

    node: Node
    index: int


@dataclass(slots=True, eq=False)
class Value:
    """A tensor: a graph input, a state, a constant (`data` is set) or a result of `producer`.

    `defined` is where the source defines an input or a constant.
    """

    type: TensorType
    name: str = ""
    data: Array | None = None
    producer: Node | None = None
    uses: list[Use] = field(default_factory=list)
    defined: Location | None = None

    @property
    def loc(self) -> Location | None:
        """Where the value comes from in the source; a result comes from where its operator stands."""
        return self.producer.loc if self.producer is not None else self.defined

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def said(self) -> str:
        """Its name for messages, or what makes it where it has none."""
        if self.name or self.producer is None:
            return f"%{self.name}"
        return f"{self.producer.op.name}(...)"

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(slots=True, eq=False)
class Node:
    """One application of an operator to values."""

    op: Op
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    loc: Location | None = None
    _inferred_with: list[object] | None = None

    @property
    def output(self) -> Value:
        """The result of an operator that has exactly one."""
        assert len(self.outputs) == 1, f"{self.op.name} has {len(self.outputs)} results"
        return self.outputs[0]

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return tuple(value.type for value in self.inputs)

    def is_inferred(self) -> bool:
        """True iff the results' types are known to be what the operator infers.

        Operators and types never change: what was inferred once is right as long as the node has the very same ones.
        """
        known = self._inferred_with
        if known is None:
            return False
        facts = self._facts()
        return len(known) == len(facts) and all(map(is_, known, facts))

    def note_inferred(self) -> None:
        """The operator was asked, and the results' types are right."""
        self._inferred_with = self._facts()

    def _facts(self) -> list[object]:
        return [self.op, *[v.type for v in self.inputs], None, *[v.type for v in self.outputs]]

    def __repr__(self) -> str:
        results = ", ".join(f"%{v.name}" for v in self.outputs)
        operands = ", ".join(f"%{v.name}" for v in self.inputs)
        return f"{results} = {self.op.name}({operands})"


@dataclass(frozen=True, slots=True)
class State:
    """What survives an invocation: `read` holds it at the start, `written` becomes it at the end."""

    read: Value
    written: Value
    initial: Array


@dataclass(frozen=True, slots=True)
class Port:
    """The interface of a graph input or output as the source model declares it.

    `perm` maps storage axes to model axes: model array = storage array transposed by `perm` (None: the same).
    `type` is the model's own type, in the model's axis order. `accepts` is what an input may hold where that is less
    than its type (None: all of it): whoever runs the program checks it.
    """

    name: str
    type: TensorType
    perm: tuple[int, ...] | None = None
    accepts: Interval | None = None


@dataclass(slots=True, eq=False)
class Graph:
    """Nodes in execution order, with the values that enter and leave.

    `input_ports` and `output_ports` run parallel to `inputs` and `outputs`.
    """

    name: str = "main"
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    input_ports: list[Port] = field(default_factory=list)
    output_ports: list[Port] = field(default_factory=list)

    def add_input(self, name: str, type_: TensorType, port: Port | None = None) -> Value:
        value = Value(type_, name)
        self.inputs.append(value)
        self.input_ports.append(port or Port(name, type_))
        return value

    def add_output(self, value: Value, port: Port | None = None) -> None:
        self.outputs.append(value)
        self.output_ports.append(port or Port(value.name, value.type))

    def add_state(self, name: str, type_: TensorType, initial: Array) -> Value:
        """Declare a state; `set_state` says later what is written to it."""
        read = Value(type_, name)
        self.states.append(State(read, read, initial))
        return read

    def set_state(self, read: Value, written: Value) -> None:
        for index, state in enumerate(self.states):
            if state.read is read:
                self.states[index] = State(read, written, state.initial)
                return
        raise AssertionError(f"{read!r} is not a state of this graph")

    def constant(self, data: Array, type_: TensorType, name: str = "") -> Value:
        """A constant value; `data` must have the type's shape and array type."""
        assert data.shape == type_.shape and data.dtype == type_.dtype.numpy, f"{data.dtype}{data.shape} is not {type_}"
        data = np.ascontiguousarray(data).reshape(type_.shape)
        data.flags.writeable = False
        return Value(type_, name, data)

    def append(self, op: Op, inputs: Sequence[Value], names: Sequence[str] = (), loc: Location | None = None) -> Node:
        """Add an operator at the end; result types come from `op.infer`.

        Raises: TypeMismatch.
        """
        return self.insert(len(self.nodes), op, inputs, names, loc)

    def insert(
        self, position: int, op: Op, inputs: Sequence[Value], names: Sequence[str] = (), loc: Location | None = None
    ) -> Node:
        """Add an operator before the node that now stands at `position`."""
        types = op.infer(tuple(value.type for value in inputs))
        padded = list(names) + [""] * (len(types) - len(names))
        outputs = tuple(Value(type_, name) for type_, name in zip(types, padded, strict=True))
        node = Node(op, tuple(inputs), outputs, loc)
        for value in outputs:
            value.producer = node
        node.note_inferred()
        _link(node)
        self.nodes.insert(position, node)
        return node

    def emit(self, op: Op, *inputs: Value, name: str = "", loc: Location | None = None) -> Value:
        """Append an operator with one result, and return the result."""
        return self.append(op, inputs, (name,), loc).output

    def constants(self) -> Iterator[Value]:
        """Every constant that a node reads or the graph returns, once, in order of first use."""
        seen: set[int] = set()
        operands = (value for node in self.nodes for value in node.inputs)
        for value in (*operands, *self.outputs, *(state.written for state in self.states)):
            if value.is_constant and id(value) not in seen:
                seen.add(id(value))
                yield value

    def results(self) -> list[Value]:
        """What must be computed: the outputs, then the written states."""
        return [*self.outputs, *(state.written for state in self.states)]

    def is_result(self, value: Value) -> bool:
        return any(value is result for result in self.results())


def _link(node: Node) -> None:
    for index, value in enumerate(node.inputs):
        value.uses.append(Use(node, index))


def _unlink(node: Node) -> None:
    for value in dict.fromkeys(node.inputs):
        value.uses[:] = [use for use in value.uses if use.node is not node]


def relink(node: Node, op: Op, inputs: Sequence[Value]) -> None:
    """Give `node` another operator and operands; its result types must stay as they are declared."""
    _unlink(node)
    node.op, node.inputs = op, tuple(inputs)
    _link(node)


def unlink_all(nodes: Iterable[Node]) -> None:
    """Take nodes that are about to leave the graph out of every use list."""
    for node in nodes:
        _unlink(node)


__all__ = ["Graph", "Node", "Port", "State", "TypeMismatch", "Use", "Value", "relink", "unlink_all"]
