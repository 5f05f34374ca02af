"""Writes a graph as a `.tiny` program that reads back as the same graph.

Results without a name that one operator reads are written where they are read, as long as reading the text again gives
the operators in the same order; every other result gets a `let`.
"""

from __future__ import annotations

import re

import numpy as np

from trivet.core.dtype import I8, I32
from trivet.core.numerics import Overflow
from trivet.core.record import dataclass
from trivet.errors import Unsupported
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul

NESTING = 50
"""Brackets inside brackets before a result gets a name."""

_NAME = re.compile(r"(?!(?:input|const|let|output|relu)\b)[A-Za-z_]\w*", re.ASCII)
_SUM, _PRODUCT, _ATOM = range(3)


def print_program(graph: Graph) -> str:
    """The text of a graph of inputs, constants, exact products and sums, and relu.

    A fused product is written as the steps that it does, which `fuse` joins again.

    Raises: Unsupported for any other graph.
    """
    return _Printer(graph).text()


@dataclass(frozen=True, slots=True)
class _Text:
    """An expression; `kind` says how tightly it binds, `depth` how many brackets it nests."""

    text: str
    kind: int
    depth: int

    def inside(self, kind: int) -> _Text:
        """The expression as an operand that must bind at least as tightly as `kind`."""
        return self if self.kind >= kind else _Text(f"({self.text})", _ATOM, self.depth + 1)


class _Printer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.pending: list[tuple[Value, _Text]] = []

    def text(self) -> str:
        graph = self.graph
        if graph.states:
            raise Unsupported("a .tiny program has no states", where=graph.name)
        constants = list(graph.constants())
        produced = [value for node in graph.nodes for value in node.outputs]
        self._take_names([*graph.inputs, *constants, *produced])
        for value in graph.inputs:
            self.lines.append(f"input {self._name(value)}: {_type(value)}")
        for value in constants:
            self.lines.append(f"const {self._name(value)}: {_type(value)} = {_data(value)}")
        for node in graph.nodes:
            self._node(node)
        self._flush(len(self.pending))
        self.lines += [f"output {self._name(value)}" for value in graph.outputs]
        return "\n".join(self.lines) + "\n"

    def _take_names(self, values: list[Value]) -> None:
        """Names that the language allows are kept, the first time that they occur."""
        for value in values:
            if _NAME.fullmatch(value.name) and value.name not in self.taken:
                self.names[id(value)] = value.name
                self.taken.add(value.name)

    def _name(self, value: Value) -> str:
        if id(value) not in self.names:
            count = len(self.names)
            while f"t{count}" in self.taken:
                count += 1
            self.names[id(value)] = f"t{count}"
            self.taken.add(f"t{count}")
        return self.names[id(value)]

    def _node(self, node: Node) -> None:
        inlined = {id(value) for value, _ in self.pending}
        count = sum(id(value) in inlined for value in node.inputs)
        first = len(self.pending) - count
        top = [id(value) for value, _ in self.pending[first:]]
        if top != [id(value) for value in node.inputs if id(value) in inlined]:
            first = len(self.pending)
            self._flush(first)
            first = 0
        operands = [self._operand(value) for value in node.inputs]
        del self.pending[first:]
        text = _expression(node, operands)
        value = node.output
        self.pending.append((value, text))
        keeps = value.name or len(value.uses) != 1 or self.graph.is_result(value) or text.depth >= NESTING
        if keeps:
            self._flush(len(self.pending))

    def _operand(self, value: Value) -> _Text:
        for pending, text in self.pending:
            if pending is value:
                return text
        return _Text(self._name(value), _ATOM, 0)

    def _flush(self, count: int) -> None:
        """Give names to the first pending expressions."""
        for value, text in self.pending[:count]:
            self.lines.append(f"let {self._name(value)} = {text.text}")
        del self.pending[:count]


def _expression(node: Node, operands: list[_Text]) -> _Text:
    match node.op:
        case MatMul(bias=bias, relu=relu):
            text = _joined(operands[0].inside(_PRODUCT), "@", operands[1].inside(_ATOM), _PRODUCT)
            text = _joined(text, "+", operands[2].inside(_PRODUCT), _SUM) if bias else text
            return _relu(text) if relu else text
        case Add(overflow=Overflow.EXACT) if _adds_in_tiny(node):
            return _joined(operands[0], "+", operands[1].inside(_PRODUCT), _SUM)
        case Relu():
            return _relu(operands[0])
    raise Unsupported(f"a .tiny program has no {node.op.name} of {node.input_types}", where=node.loc)


def _adds_in_tiny(node: Node) -> bool:
    a, b = node.input_types
    return a.shape == b.shape or ({a.rank, b.rank} == {1, 2} and a.shape[-1] == b.shape[-1])


def _joined(a: _Text, sign: str, b: _Text, kind: int) -> _Text:
    return _Text(f"{a.text} {sign} {b.text}", kind, max(a.depth, b.depth))


def _relu(x: _Text) -> _Text:
    return _Text(f"relu({x.text})", _ATOM, x.depth + 1)


def _type(value: Value) -> TensorType:
    type_ = value.type
    if type_.dtype not in (I8, I32) or type_.rank not in (1, 2) or type_.quant is not None:
        raise Unsupported(f"a .tiny program has no {type_}", where=value.name)
    return type_


def _data(value: Value) -> str:
    assert value.data is not None
    first = int(value.data.flat[0])
    return str(first) if bool(np.all(value.data == first)) else _list(value.data)


def _list(data: Array) -> str:
    return str(data.tolist())
