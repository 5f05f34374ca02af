"""Depthwise convolutions fused with the pointwise ones around them: what lies between needs no rows of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ops.block import Block
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.planning.plan import KernelNeeds

STRIPS = (4, 2)
"""Pixels that a block makes at a time: fewer need less memory and more calls of kernels."""


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive layers that one block computes: their nodes, and the block's operator."""

    nodes: tuple[Node, ...]
    op: Block

    def with_strip(self, strip: int) -> Group:
        return Group(self.nodes, replace(self.op, strip=strip))

    @property
    def key(self) -> tuple[int, ...]:
        return tuple(id(node) for node in self.nodes)


def groups_of(graph: Graph, needs: KernelNeeds, again: bool = False) -> list[Group]:
    """The groups that a kernel runs around each depthwise convolution; `again`: also those that compute rows again."""
    depthwise = [node for node in graph.nodes if isinstance(node.op, DepthwiseConv2D)]
    found = [group for node in depthwise for group in _around(graph, node)]
    if again:
        found += [group_of(group.nodes, keeps_lines=False) for group in found if group.op.expand is not None]
    found = [group.with_strip(strip) for group in found for strip in STRIPS]
    return [group for group in found if needs.runs(block_node(group))]


def _around(graph: Graph, middle: Node) -> Iterator[Group]:
    """Every way to fuse a depthwise convolution with its neighbours."""
    before, after = middle.inputs[0].producer, _only_reader(graph, middle.output)
    head = before if before is not None and _is_pointwise(before) and _only_reader(graph, before.output) else None
    tail = after if after is not None and _is_pointwise(after) else None
    for first, last in ((head, tail), (head, None), (None, tail)):
        nodes = tuple(node for node in (first, middle, last) if node is not None)
        if len(nodes) > 1 and (first is head or head is not None) and (last is tail or tail is not None):
            yield group_of(nodes)


def group_of(nodes: tuple[Node, ...], keeps_lines: bool = True) -> Group:
    """The group of consecutive layers, the middle one of which, or the first or last of two, is depthwise."""
    expand = nodes[0].op if isinstance(nodes[0].op, Conv2D) else None
    project = nodes[-1].op if isinstance(nodes[-1].op, Conv2D) else None
    middle = next(node.op for node in nodes if isinstance(node.op, DepthwiseConv2D))
    counts = tuple(len(node.inputs) - 1 for node in nodes)
    return Group(nodes, Block(expand, middle, project, counts, keeps_lines))


def _only_reader(graph: Graph, value: Value) -> Node | None:
    """The node that alone reads a value, which is no result."""
    if len(value.uses) != 1 or value.uses[0].index != 0 or graph.is_result(value):
        return None
    return value.uses[0].node


def _is_pointwise(node: Node) -> bool:
    op = node.op
    if not isinstance(op, Conv2D) or any(value.data is None for value in node.inputs[1:]):
        return False
    return node.inputs[1].type.shape[1:3] == (1, 1) and op.stride == (1, 1) and op.groups == 1


def block_node(group: Group) -> Node:
    """The block as a node of a graph of its own."""
    x = group.nodes[0].inputs[0]
    graph = Graph()
    constants = [Value(v.type, v.name, v.data) for node in group.nodes for v in node.inputs[1:]]
    return graph.append(group.op, [Value(x.type, x.name), *constants])


class Fusion:
    """A copy of a graph in which groups are blocks."""

    def __init__(self, graph: Graph, groups: Iterable[Group], needs: KernelNeeds) -> None:
        self.old, self.needs = graph, needs
        self.graph = Graph(graph.name)
        self.values: dict[int, Value] = {}
        self.last = {id(group.nodes[-1]): group for group in groups}
        self.inner = {id(node) for group in self.last.values() for node in group.nodes}

    def fused(self, order: Sequence[Node]) -> Graph:
        """The copy, its nodes in the given order."""
        old = self.old
        for value, port in zip(old.inputs, old.input_ports, strict=True):
            self.values[id(value)] = self.graph.add_input(value.name, value.type, port)
        for state in old.states:
            self.values[id(state.read)] = self.graph.add_state(state.read.name, state.read.type, state.initial)
        for node in order:
            if id(node) in self.last:
                self._block(self.last[id(node)])
            elif id(node) not in self.inner:
                self._copy(node)
        for state in old.states:
            self.graph.set_state(self.values[id(state.read)], self._value(state.written))
        for value, port in zip(old.outputs, old.output_ports, strict=True):
            self.graph.add_output(self._value(value), port)
        return self.graph

    def _copy(self, node: Node) -> None:
        names = [value.name for value in node.outputs]
        made = self.graph.append(node.op, [self._value(v) for v in node.inputs], names, node.loc)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            new.type = old.type
            self.values[id(old)] = new
        self.needs.adopt(made, node)

    def _block(self, group: Group) -> None:
        first, last = group.nodes[0], group.nodes[-1]
        constants = [self._value(v) for node in group.nodes for v in node.inputs[1:]]
        operands = [self._value(first.inputs[0]), *constants]
        made = self.graph.append(group.op, operands, [last.output.name], last.loc)
        made.output.type = last.output.type
        self.values[id(last.output)] = made.output

    def _value(self, value: Value) -> Value:
        if id(value) not in self.values:
            assert value.data is not None, f"{value!r} is used before it is made"
            self.values[id(value)] = Value(value.type, value.name, value.data, defined=value.defined)
        return self.values[id(value)]
