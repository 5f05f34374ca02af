"""Plans without a planner: every value in a buffer of its own, layer by layer, or as one stream with rings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trivet.backends.plan.selection import Selection
from trivet.core.access import Sliding
from trivet.core.dtype import I8
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Node, State, Value
from trivet.ir.types import TensorType
from trivet.ops.activation import Lookup
from trivet.planning.plan import Buffer, BufferKind, Edge, ExecutionPlan, Region, Stage, Step, Stream, Transfer, View

QUANT = Quant.per_tensor(0.25, -3)


def rows_of(type_: TensorType) -> tuple[int, int]:
    """Rows of an image, and bytes of a row."""
    if type_.rank == 4:
        return type_.shape[1], type_.shape[2] * type_.shape[3] * type_.dtype.size_bytes(1)
    return 1, type_.size_bytes


class Builder:
    """Gives out addresses one after the other."""

    def __init__(self, graph: Graph, selection: Selection | None = None) -> None:
        self.graph, self.selection = graph, selection or Selection()
        self.buffers: list[Buffer] = []
        self.views: dict[int, View] = {}
        self.end = 0
        for value in [*graph.inputs, *(state.read for state in graph.states)]:
            self.place(value)

    def buffer(self, name: str, size: int, kind: BufferKind = BufferKind.ACTIVATION) -> int:
        self.buffers.append(Buffer(name, kind, size, 16, 0, 0, "sram", self.end))
        self.end += -(-size // 16) * 16
        return len(self.buffers) - 1

    def place(self, value: Value, depth: int | None = None) -> View:
        height, row_bytes = rows_of(value.type)
        depth = height if depth is None else min(depth, height)
        size = value.type.size_bytes if depth == height else depth * row_bytes
        view = View(self.buffer(value.name, size), 0, row_bytes, height, depth)
        self.views[id(value)] = view
        return view

    def alias(self, node: Node) -> None:
        """A result that shows its operand's bytes."""
        height, row_bytes = rows_of(node.output.type)
        source = self.views[id(node.inputs[0])]
        self.views[id(node.output)] = View(source.buffer, source.offset, row_bytes, height, height)

    def scratch(self, node: Node, rows: int) -> int | None:
        size = self.selection.scratch_bytes(node, rows)
        return self.buffer("scratch", size, BufferKind.SCRATCH) if size else None

    def plan(self, stages: tuple[Stage, ...]) -> ExecutionPlan:
        return ExecutionPlan(self.graph, stages, tuple(self.buffers), self.views, (Region("sram", None),))


def sequential(graph: Graph, selection: Selection | None = None) -> ExecutionPlan:
    """One stream a node, executed whole."""
    builder = Builder(graph, selection)
    streams = []
    for node in graph.nodes:
        if node.op.views_input:
            builder.alias(node)
            continue
        for value in node.outputs:
            builder.place(value)
        rows = rows_of(node.outputs[0].type)[0]
        streams.append(Stream((Step(node, scratch=builder.scratch(node, rows)),)))
    stores = tuple(_commit(builder, state) for state in graph.states)
    for value in graph.outputs:
        if value.is_constant:
            builder.place(value)
    return builder.plan((Stage(tuple(streams), (), stores),))


def _commit(builder: Builder, state: State) -> Transfer:
    """The copy of what was written to where the state lies."""
    return Transfer(state.written, builder.views[id(state.written)], builder.views[id(state.read)])


def streamed(graph: Graph, depths: Mapping[str, int], rows: int = 1) -> ExecutionPlan:
    """All nodes as one stream; `depths` gives the rows that each named value keeps."""
    builder = Builder(graph)
    steps = []
    made = {id(node.output): index for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        builder.place(node.output, depths.get(node.output.name))
        height = rows_of(node.output.type)[0]
        edges = tuple(edge_of(node, index, made.get(id(value))) for index, value in enumerate(node.inputs)
                      if not value.is_constant)  # fmt: skip
        steps.append(Step(node, -(-height // rows), rows, scratch=builder.scratch(node, rows), edges=edges))
    counters = builder.buffer("counters", 4 * len(steps), BufferKind.COUNTERS)
    return builder.plan((Stage((Stream(tuple(steps), counters),)),))


def edge_of(node: Node, operand: int, source: int | None) -> Edge:
    """The edge that an operator's rule for the row axis says."""
    rule = node.op.access(node.input_types)[operand][1]
    assert isinstance(rule, Sliding), rule
    return Edge(operand, source, rule.size, rule.stride, rule.before, rule.kernel, rule.dilation)


def lookup_node(graph: Graph, x: Value, name: str, seed: int = 0) -> Value:
    table = np.random.default_rng(seed).integers(-128, 128, 256).astype(np.int8)
    return graph.emit(Lookup(QUANT), x, graph.constant(table, TensorType(I8, (256,))), name=name)


def lookups(shape: tuple[int, ...] = (1, 6, 4, 3), count: int = 2) -> Graph:
    """A chain of tables."""
    graph = Graph()
    value = graph.add_input("x", TensorType(I8, shape, QUANT))
    for index in range(count):
        value = lookup_node(graph, value, f"y{index}", index)
    graph.add_output(value)
    return graph


__all__ = ["Builder", "edge_of", "lookup_node", "lookups", "rows_of", "sequential", "streamed"]
