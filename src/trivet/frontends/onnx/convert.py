"""ONNX models to graphs: every reachable operator is converted or refused, and all refusals come in one report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import NoReturn

from trivet.core.dtype import from_numpy
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.core.source import Operator
from trivet.errors import CompileError, InvalidModel, Problems, Unsupported
from trivet.frontends.onnx.context import Builder, Context, Converter
from trivet.frontends.onnx.inputs import input_types
from trivet.frontends.onnx.model import Body, ForeignNode, Model, PortInfo, Unreadable
from trivet.frontends.onnx.ops import CONVERTERS
from trivet.frontends.onnx.order import execution_order
from trivet.frontends.onnx.read import inferred_types, read
from trivet.frontends.onnx.refusals import refusal
from trivet.frontends.options import ADDED_ONNX, Loaded, LoadOptions
from trivet.ir.graph import Graph, Node, Port, Value, unlink_all
from trivet.ir.op import Array
from trivet.ir.types import Shape, TensorType

OLDEST_OPSET = 1
"""Before it, casts and shapes were stated in other ways."""

Scope = dict[str, Value | None]
"""Values by name; None stands for a result that could not be converted, whose readers are not blamed."""


def load(path: Path | str, options: LoadOptions | None = None) -> Loaded:
    """The graph of an ONNX file.

    Raises: InvalidModel (not an ONNX model, or damaged), Problems (all that cannot be converted).
    """
    path = Path(path)
    options = options or LoadOptions()
    model = read(path)
    if options.subgraph != 0:
        raise CompileError(f"an ONNX file holds one graph, subgraph {options.subgraph} was asked for", where=path)
    version = model.opsets.get("", OLDEST_OPSET)
    if version < OLDEST_OPSET:
        raise Unsupported(
            f"the model uses operator set {version}, {OLDEST_OPSET} is the oldest that is read",
            where=path,
            hint="convert it with onnx.version_converter.convert_version(model, 13)",
        )
    return _Import(path, model, options).run()


@dataclass(slots=True)
class _Import:
    """One load: the graph that grows, and the problems found on the way."""

    path: Path
    model: Model
    options: LoadOptions
    problems: list[tuple[int, CompileError]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    inferred: dict[str, PortInfo] | None = None

    def run(self) -> Loaded:
        body = self.model.body
        graph = Graph(name=body.name or self.path.stem)
        numerics = self.options.numerics or Numerics.ONNX
        builder = Builder(graph, self.model.opsets, numerics, self._inline)
        scope = self._constants(graph, body)
        types, notes, problems = input_types(body, self.options, self.path)
        self.notes += notes
        self.shapes = {name: type_.shape for name, type_ in types.items()}
        self.problems += ((-1, problem) for problem in problems)
        for port in body.inputs:
            if port.name in types:
                scope[port.name] = graph.add_input(port.name, types[port.name])
            else:
                scope.setdefault(port.name, None)
        for name, array in self.options.bindings.items():
            scope[name] = self._bound(graph, body, name, array)
        self._convert_body(builder, body, scope)
        self._add_outputs(graph, body, scope)
        if self.problems:
            self._fail()
        _drop_dead(graph)
        return Loaded(graph, tuple(self.notes), numerics)

    def _fail(self) -> NoReturn:
        ordered = [problem for _, problem in sorted(self.problems, key=lambda pair: pair[0])]
        raise Problems(str(self.path), ordered, self.notes)

    def _constants(self, graph: Graph, body: Body) -> Scope:
        scope: Scope = {}
        wanted = {name for node in body.nodes for name in node.reads()} | {port.name for port in body.outputs}
        for name, data in body.initializers.items():
            if isinstance(data, Unreadable):
                scope[name] = None
                if name in wanted:
                    self.problems.append((-1, Unsupported(data.reason, where=self.path)))
            else:
                scope[name] = _constant(graph, data, name)
        return scope

    def _bound(self, graph: Graph, body: Body, name: str, array: Array) -> Value | None:
        port = next((port for port in body.inputs if port.name == name), None)
        if port is None:
            names = ", ".join(f"'{port.name}'" for port in body.inputs)
            self.problems.append(
                (-1, CompileError(f"the model has no input '{name}' to bind", hint=f"inputs: {names}"))
            )
            return None
        if from_numpy(array.dtype) is None or (port.dtype is not None and array.dtype != port.dtype.numpy):
            message = f"input '{name}' is {port.foreign_dtype}, it cannot be bound to {array.dtype.name} elements"
            self.problems.append((-1, CompileError(message, where=self.path)))
            return None
        return _constant(graph, array, name)

    def _convert_body(self, builder: Builder, body: Body, scope: Scope) -> None:
        for node in execution_order(body, scope, self.path):
            results = self._convert_node(builder, node, scope)
            for index, name in enumerate(node.outputs):
                if not name:
                    continue
                value = results[index] if index < len(results) else self._stand_in(name)
                scope[name] = value
                if value is not None and not value.name:
                    value.name = name

    def _stand_in(self, name: str) -> Value | None:
        """A value for a result that could not be converted, so that its readers are checked too; the graph is lost.

        Integers have none: they are shapes and indices, whose readers would be blamed for not knowing them.
        """
        if self.inferred is None:
            self.inferred = inferred_types(self.path, self.shapes)
        port = self.inferred.get(name)
        if port is None or port.dtype is None or not port.dtype.is_float or port.dims is None:
            return None
        dims = tuple(dim for dim in port.dims if isinstance(dim, int))
        return Value(TensorType(port.dtype, dims), name) if len(dims) == len(port.dims) else None

    def _convert_node(self, builder: Builder, node: ForeignNode, scope: Scope) -> tuple[Value, ...]:
        loc = Operator(self.path.name, node.index, node.qualified_kind, node.name)
        converter = CONVERTERS.get((node.domain, node.kind)) or ADDED_ONNX.get((node.domain, node.kind))
        if converter is None:
            self.problems.append((node.index, refusal(node, loc)))
            return ()
        if any(scope[name] is None for name in node.reads()):
            return ()
        try:
            return self._apply(converter, Context(builder, node, _operands(node, scope), loc, scope))
        except Problems:
            raise
        except CompileError as error:
            self.problems.append((node.index, error))
            return ()

    def _apply(self, converter: Converter, context: Context) -> tuple[Value, ...]:
        results = converter(context)
        results = results if isinstance(results, tuple) else (results,)
        for name in context.node.outputs[len(results) :]:
            if name:
                context.refuse(f"its result '{name}' is not supported")
        return results

    def _inline(self, body: Body, context: Context, entries: Mapping[str, Value]) -> list[Value]:
        """Convert a body where its operator stands; `entries` are its inputs by name.

        Raises: Unsupported (a result could not be converted; the cause is reported on its own).
        """
        builder = context.builder
        scope: Scope = {**context.scope, **self._constants(builder.graph, body), **entries}
        self._convert_body(builder, body, scope)
        results = [scope.get(port.name) for port in body.outputs]
        values = [value for value in results if value is not None]
        if len(values) != len(results):
            context.refuse("an operator of the chosen branch cannot be converted")
        return values

    def _add_outputs(self, graph: Graph, body: Body, scope: Scope) -> None:
        if not body.outputs:
            self.problems.append((-1, InvalidModel("the graph has no outputs", where=self.path)))
        for port in body.outputs:
            if port.name not in scope:
                self.problems.append((-1, InvalidModel(f"nothing defines output '{port.name}'", where=self.path)))
            elif (value := scope[port.name]) is not None:
                self._check_output(port, value.type)
                graph.add_output(value, Port(port.name, value.type))

    def _check_output(self, port: PortInfo, found: TensorType) -> None:
        if port.dtype is not None and port.dtype is not found.dtype:
            message = f"output '{port.name}' is declared {port.dtype.name}, its operator gives {found.dtype.name}"
            self.problems.append((-1, InvalidModel(message, where=self.path)))


def _operands(node: ForeignNode, scope: Mapping[str, Value | None]) -> tuple[Value | None, ...]:
    return tuple(scope[name] if name else None for name in node.inputs)


def _constant(graph: Graph, data: Array, name: str) -> Value:
    dtype = from_numpy(data.dtype)
    assert dtype is not None, f"{data.dtype} has no element type"
    return graph.constant(data, TensorType(dtype, data.shape), name)


def _drop_dead(graph: Graph) -> None:
    """Take out what only shape arithmetic read."""
    needed = {id(value) for value in graph.results()}
    live: list[Node] = []
    dead: list[Node] = []
    for node in reversed(graph.nodes):
        if any(id(value) in needed for value in node.outputs):
            live.append(node)
            needed.update(id(value) for value in node.inputs)
        else:
            dead.append(node)
    unlink_all(dead)
    graph.nodes[:] = reversed(live)
