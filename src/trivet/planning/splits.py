"""Channel splits: dense layers whose long operand or result goes by groups of features, as rows of a stream.

    %h = dense(%x)  %y = dense(%h)  -->  %h = dense_to_rows{rows}(%x)  %y = dense_of_rows(%h)
    %f = reshape(%map)  %y = dense(%f)  -->  %y = dense_of_rows(%map)
    %h = dense(%x)  %y = send{chunks}(%h)  -->  %h = dense_to_rows{rows}(%x)  %y = send{chunks}(%h)

Elementwise operators may stand between the two. What was a vector is then a ring of some groups, and the second layer
keeps int32 sums instead. The numbers are the same: sums of products are exact in any grouping.
"""

from __future__ import annotations

from collections.abc import Iterator

from trivet.core.dtype import I8
from trivet.ir.graph import Graph, Node, State, Value
from trivet.ops.border import Send
from trivet.ops.dense_rows import DenseOfRows, DenseToRows
from trivet.ops.matmul import Dense
from trivet.ops.movement import Reshape
from trivet.planning.plan import KernelNeeds

LARGEST_GROUP = 32
"""Features of a group; fewer would cost calls, more memory."""

MOST_FEATURES = 1 << 16
"""So many products add up inside int32."""

SUM_BYTES = 4
"""Of an int32 sum."""

FEATURE_ALIGNMENT = 4
"""A group's features are a multiple of this, so that rows start at whole words."""


def split_channels(graph: Graph, needs: KernelNeeds) -> Graph | None:
    """A copy of the graph with its dense layers split where that can help; None if there is none."""
    found = _Splits(graph)
    if not found.of_rows and not found.to_rows:
        return None
    split = _Splitter(graph, found).split()
    streams = all(needs.computes_rows(n) for n in split.nodes if isinstance(n.op, DenseOfRows | DenseToRows))
    return split if streams else None


class _Splits:
    """Which layers take rows and which give them, by id of the node; `passing` are operators between two of them.

    No layer does both, as it needs all sums before the first result: where several layers follow each other, those with
    the longest vectors between them are paired first.
    """

    def __init__(self, graph: Graph) -> None:
        self.results = {id(value) for value in graph.results()}
        self.of_rows: dict[int, Value] = {}
        self.to_rows: dict[int, int] = {}
        self.passing: set[int] = set()
        for node in filter(self._is_dense, graph.nodes):
            self._look_ahead(node)
        for node in sorted(filter(self._is_dense, graph.nodes), key=lambda node: -node.inputs[0].type.elements):
            if id(node) not in self.to_rows:
                self._look_at(node)

    def _is_dense(self, node: Node) -> bool:
        """True iff the node is an int8 layer with constant weights on one vector."""
        if not isinstance(node.op, Dense) or any(not v.is_constant for v in node.inputs[1:]):
            return False
        x, w = node.inputs[0].type, node.inputs[1].type
        zeros = set(w.quant.zero_points) if w.quant is not None else set()
        is_int8 = x.dtype is I8 and w.dtype is I8 and len(zeros) == 1
        return is_int8 and x.elements == x.shape[-1] == w.shape[1] <= MOST_FEATURES

    def _look_ahead(self, node: Node) -> None:
        """A layer whose result goes to the caller in chunks gives them, unless its operand is what takes memory."""
        shaped = [use.node for use in node.output.uses]
        if len(shaped) != 1 or not isinstance(shaped[0].op, Reshape) or id(node.output) in self.results:
            return
        rows, maker = shaped[0].output, node.inputs[0].producer
        sends = len(rows.uses) == 1 and isinstance(rows.uses[0].node.op, Send)
        takes_rows = maker is not None and isinstance(maker.op, Reshape) and _has_rows(maker.inputs[0])
        if sends and not (takes_rows and node.inputs[0].type.elements > SUM_BYTES * node.output.type.elements):
            self.to_rows[id(node)] = rows.type.shape[1]

    def _look_at(self, node: Node) -> None:
        """Follow the operand of a layer back to a map, or to a layer that can give rows."""
        value, between = node.inputs[0], list[Node]()
        while value.producer is not None and len(value.uses) == 1 and id(value) not in self.results:
            maker = value.producer
            if isinstance(maker.op, Reshape) and not between and _has_rows(maker.inputs[0]):
                self.of_rows[id(node)] = maker.inputs[0]
                return
            if (
                self._is_dense(maker)
                and id(maker) not in self.of_rows
                and id(maker) not in self.to_rows
                and (rows := _rows(maker.output.type.elements)) > 1
                and _is_worth(maker, node, rows)
            ):
                self.of_rows[id(node)] = node.inputs[0]
                self.to_rows[id(maker)] = rows
                self.passing.update(id(other) for other in between)
                return
            if self._is_dense(maker) or not _is_elementwise(maker):
                return
            between.append(maker)
            value = maker.inputs[0]


def _has_rows(value: Value) -> bool:
    shape = value.type.shape
    return len(shape) == 4 and shape[0] == 1 and shape[1] > 1 and not value.is_constant


def _is_elementwise(node: Node) -> bool:
    """True iff the node maps every element of its only operand by itself, or is a view of a vector."""
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.inputs[0].type.elements != node.output.type.elements:
        return False
    return node.op.reuses_input and node.output.type.shape == node.inputs[0].type.shape


def _rows(features: int) -> int:
    """How many groups a vector has; 1 if it has no good ones."""
    for group in range(LARGEST_GROUP, 0, -FEATURE_ALIGNMENT):
        if features % group == 0 and features > group:
            return features // group
    return 1


def _is_worth(maker: Node, taker: Node, rows: int) -> bool:
    """True iff the sums of the second layer take less than the vector between the two."""
    given, between, made = (v.type.elements for v in (maker.inputs[0], maker.output, taker.output))
    return given + 2 * between // rows + SUM_BYTES * made < max(given + between, between + made)


class _Splitter:
    """Copies a graph with the splits in it."""

    def __init__(self, graph: Graph, found: _Splits) -> None:
        self.graph, self.found = graph, found
        self.new = Graph(graph.name)
        self.place: dict[int, Value] = {}

    def split(self) -> Graph:
        graph, new = self.graph, self.new
        for value, port in zip(graph.inputs, graph.input_ports, strict=True):
            self.place[id(value)] = new.add_input(value.name, value.type, port)
        for state in graph.states:
            self.place[id(state.read)] = new.add_state(state.read.name, state.read.type, state.initial)
        for node in graph.nodes:
            for value, made in zip(node.outputs, self._copy(node), strict=True):
                self.place[id(value)] = made
        for value, port in zip(graph.outputs, graph.output_ports, strict=True):
            new.add_output(self._find(value), port)
        new.states[:] = [State(self.place[id(s.read)], self._find(s.written), s.initial) for s in graph.states]
        return _without_dead_views(new)

    def _find(self, value: Value) -> Value:
        if value.data is not None and id(value) not in self.place:
            self.place[id(value)] = Value(value.type, value.name, value.data, defined=value.defined)
        return self.place[id(value)]

    def _copy(self, node: Node) -> Iterator[Value]:
        inputs = [self._find(value) for value in node.inputs]
        name, shape = node.outputs[0].name, node.outputs[0].type.shape
        if not isinstance(node.op, Dense) or (
            id(node) not in self.found.of_rows and id(node) not in self.found.to_rows
        ):
            made = self.new.append(node.op, inputs, [value.name for value in node.outputs], node.loc)
            for value, new in zip(node.outputs, made.outputs, strict=True):
                if id(node) not in self.found.passing:
                    new.type = value.type
            yield from made.outputs
            return
        y = self._dense(node, inputs, name)
        keeps_rows = id(node) in self.found.to_rows
        yield y if keeps_rows or y.type.shape == shape else self.new.emit(Reshape(shape), y, name=name, loc=node.loc)

    def _dense(self, node: Node, inputs: list[Value], name: str) -> Value:
        """The layer by rows."""
        op = node.op
        assert isinstance(op, Dense)
        rows = self.found.to_rows.get(id(node))
        source = self.found.of_rows.get(id(node))
        if source is not None:
            return self.new.emit(
                DenseOfRows(op.clamp, op.out, op.numerics), self._find(source), *inputs[1:], name=name, loc=node.loc
            )
        assert rows is not None
        x = inputs[0]
        if x.type.rank != 2:
            x = self.new.emit(Reshape((1, x.type.elements)), x, name=f"{name}.flat")
        split = DenseToRows(rows, op.clamp, op.out, op.numerics)
        return self.new.emit(split, x, *inputs[1:], name=name, loc=node.loc)


def _without_dead_views(graph: Graph) -> Graph:
    """Reshapes that nobody reads any more are gone."""
    kept = {id(value) for value in graph.results()}
    for node in reversed(list(graph.nodes)):
        if isinstance(node.op, Reshape) and not node.output.uses and id(node.output) not in kept:
            node.inputs[0].uses[:] = [use for use in node.inputs[0].uses if use.node is not node]
            graph.nodes.remove(node)
    return graph
