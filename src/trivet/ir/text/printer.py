"""Graph to text."""

from __future__ import annotations

import base64
import json
import re

import numpy as np

from trivet.ir.graph import Graph, Node, Port, Value
from trivet.ir.op import Array, Op
from trivet.ir.text.values import format_float, format_float32, format_quant, format_value, is_default, op_fields
from trivet.ir.types import TensorType

INLINE_ELEMENTS = 64
"""Constants of at most this many elements are written where they are defined."""

_BARE = re.compile(r"[A-Za-z0-9_.]+")


def print_graph(graph: Graph, elide: bool = False) -> str:
    """The text form of a graph; `elide` leaves out the data of large constants, for reading.

    A broken graph prints too, for messages: a value that is never defined has a `?` in its name.
    """
    return _Printer(graph, elide).text()


def print_type(type_: TensorType) -> str:
    """`i8[1, 4]{scale=0.5, zero=-3}`."""
    text = f"{type_.dtype.name}[{', '.join(map(str, type_.shape))}]"
    return text if type_.quant is None else f"{text}{{{format_quant(type_.quant)}}}"


def print_op(op: Op) -> str:
    """The operator with the attributes that differ from their defaults."""
    given = [(f.name, getattr(op, f.name)) for f in op_fields(op) if not is_default(f, getattr(op, f.name))]
    attributes = ", ".join(f"{name}={format_value(value)}" for name, value in given)
    return f"{op.name}{{{attributes}}}" if attributes else op.name


def value_names(graph: Graph) -> dict[int, str]:
    """The name under which `print_graph` writes each value, by id(value)."""
    printer = _Printer(graph, elide=True)
    printer.text()
    return printer.names


class _Printer:
    def __init__(self, graph: Graph, elide: bool) -> None:
        self.graph = graph
        self.elide = elide
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.resources: list[tuple[str, Array]] = []

    def text(self) -> str:
        graph = self.graph
        constants = list(graph.constants())
        produced = (v for node in graph.nodes for v in node.outputs)
        for value in (*graph.inputs, *(s.read for s in graph.states), *constants, *produced):
            self._name(value)
        lines = [f"graph {_quoted(graph.name)}({', '.join(self._inputs())}) {{"]
        lines += [f"  {line}" for line in self._ports()]
        lines += [f"  {line}" for line in self._states()]
        lines += [f"  {self._constant(value)}" for value in constants]
        lines += [f"  {self._node(node)}" for node in graph.nodes]
        lines.append(f"  return {', '.join(self._ref(v) for v in graph.outputs)}".rstrip())
        lines.append("}")
        return "\n".join(lines) + "\n" + self._resources()

    def _name(self, value: Value) -> None:
        if id(value) in self.names:
            return
        name, count = value.name, 0
        while not name or name in self.taken:
            name = f"{value.name}.{count}" if value.name else str(len(self.taken) + count)
            count += 1
        self.taken.add(name)
        self.names[id(value)] = name

    def _ref(self, value: Value) -> str:
        return f"%{_quoted(self.names.get(id(value), f'{value.name}?'))}"

    def _inputs(self) -> list[str]:
        return [f"{self._ref(v)}: {print_type(v.type)}" for v in self.graph.inputs]

    def _ports(self) -> list[str]:
        graph, lines = self.graph, []
        for kind, values, ports in (
            ("input", graph.inputs, graph.input_ports),
            ("output", graph.outputs, graph.output_ports),
        ):
            for index, (value, port) in enumerate(zip(values, ports, strict=False)):
                if port != Port(self.names[id(value)], value.type):
                    perm = f" perm={format_value(port.perm)}" if port.perm is not None else ""
                    accepts = f" accepts=({port.accepts.lo}, {port.accepts.hi})" if port.accepts is not None else ""
                    name = json.dumps(port.name)
                    lines.append(f"port {kind} {index} {name}: {print_type(port.type)}{perm}{accepts}")
        return lines

    def _states(self) -> list[str]:
        lines = []
        for state in self.graph.states:
            name = self.names[id(state.read)]
            data = self._data(f"{name}.initial", state.initial)
            lines.append(f"state {self._ref(state.read)}: {print_type(state.read.type)} = {data}")
        for state in self.graph.states:
            if state.written is not state.read:
                lines.append(f"next {self._ref(state.read)} = {self._ref(state.written)}")
        return lines

    def _constant(self, value: Value) -> str:
        assert value.data is not None
        return f"const {self._ref(value)}: {print_type(value.type)} = {self._data(self.names[id(value)], value.data)}"

    def _data(self, name: str, data: Array) -> str:
        if data.size <= INLINE_ELEMENTS:
            return f"[{', '.join(_element(v) for v in data.ravel())}]"
        self.resources.append((name, data))
        return f"#{_quoted(name)}"

    def _node(self, node: Node) -> str:
        results = ", ".join(f"{self._ref(v)}: {print_type(v.type)}" for v in node.outputs)
        return f"{results} = {print_op(node.op)}({', '.join(self._ref(v) for v in node.inputs)})"

    def _resources(self) -> str:
        if self.elide or not self.resources:
            return ""
        lines = []
        for name, data in self.resources:
            little = data.astype(data.dtype.newbyteorder("<"), copy=False)
            lines.append(f'  #{_quoted(name)} = "{base64.b64encode(little.tobytes()).decode()}"')
        return "\nresources {\n" + "\n".join(lines) + "\n}\n"


def _quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _element(value: np.generic) -> str:
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.float32):
        return format_float32(float(value))
    if isinstance(value, np.floating):
        return format_float(float(value))
    return str(int(value))
