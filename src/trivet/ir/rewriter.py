"""The only way for a pass to change a graph: it keeps use lists, order and names right, and counts what fired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from trivet.core.interval import Interval
from trivet.core.source import Location
from trivet.ir.graph import Graph, Node, State, Use, Value, relink, unlink_all
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType


class Rewriter:
    """Edits of one pass on one graph. `changed` is true after the first edit; `fired` counts rewrites by label."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.changed = False
        self.fired: Counter[str] = Counter()

    def count(self, label: str) -> None:
        """Record that the rewrite called `label` fired once."""
        self.fired[label] += 1

    def insert_before(
        self, anchor: Node, op: Op, inputs: Sequence[Value], name: str = "", loc: Location | None = None
    ) -> Value:
        """A new single-result operator just before `anchor`."""
        self.changed = True
        position = self._position(anchor)
        return self.graph.insert(position, op, inputs, (name,), loc or anchor.loc).output

    def insert_after(
        self, anchor: Node, op: Op, inputs: Sequence[Value], name: str = "", loc: Location | None = None
    ) -> Value:
        """A new single-result operator just after `anchor`."""
        self.changed = True
        position = self._position(anchor) + 1
        return self.graph.insert(position, op, inputs, (name,), loc or anchor.loc).output

    def constant(self, data: Array, type_: TensorType, name: str = "") -> Value:
        return self.graph.constant(data, type_, name)

    def replace_value(self, old: Value, new: Value) -> None:
        """Every use of `old`, outputs and states included, reads `new` instead."""
        if old is new:
            return
        self.changed = True
        for node in dict.fromkeys(use.node for use in old.uses):
            relink(node, node.op, [new if operand is old else operand for operand in node.inputs])
        graph = self.graph
        graph.outputs[:] = [new if value is old else value for value in graph.outputs]
        graph.states[:] = [State(s.read, new, s.initial) if s.written is old else s for s in graph.states]

    def replace_node(self, node: Node, op: Op, inputs: Sequence[Value]) -> Value:
        """`node` gives way to `op(inputs)` in the same place; the result keeps the old name. One result only."""
        name = node.output.name
        value = self.insert_before(node, op, inputs, name, node.loc)
        self.replace_value(node.output, value)
        self.erase(node)
        return value

    def set_operands(self, node: Node, inputs: Sequence[Value]) -> None:
        """Change what `node` reads; the result types must not change."""
        self.changed = True
        assert node.op.infer(tuple(v.type for v in inputs)) == tuple(v.type for v in node.outputs)
        relink(node, node.op, inputs)

    def permute_input(self, value: Value, perm: tuple[int, ...]) -> Value:
        """Declare a graph input in another order of axes: the new one is transpose{perm} of `value`, which must have
        been replaced before the pass ends. The port keeps the model's order.
        """
        self.changed = True
        graph = self.graph
        index = next(i for i, given in enumerate(graph.inputs) if given is value)
        port, new_axis = graph.input_ports[index], [perm.index(axis) for axis in range(len(perm))]
        old_order = port.perm or tuple(range(len(perm)))
        quant = value.type.quant
        if quant is not None and quant.axis is not None:
            quant = quant.with_axis(new_axis[quant.axis])
        type_ = TensorType(value.type.dtype, tuple(value.type.shape[p] for p in perm), quant)
        moved = Value(type_, value.name)
        graph.inputs[index] = moved
        graph.input_ports[index] = replace(port, perm=_no_identity(tuple(new_axis[a] for a in old_order)))
        return moved

    def accept(self, index: int, interval: Interval | None) -> bool:
        """State what input `index` may hold, None: all of its type; True iff that is new."""
        port = self.graph.input_ports[index]
        if port.accepts == interval:
            return False
        self.changed = True
        self.graph.input_ports[index] = replace(port, accepts=interval)
        return True

    def set_output(self, index: int, value: Value, perm: tuple[int, ...]) -> None:
        """Return `value` for output `index`, which is transpose{perm}(value); the port keeps the model's order."""
        self.changed = True
        graph = self.graph
        port = graph.output_ports[index]
        old_order = port.perm or tuple(range(len(perm)))
        graph.outputs[index] = value
        graph.output_ports[index] = replace(port, perm=_no_identity(tuple(perm[a] for a in old_order)))

    def give_out(self, index: int, value: Value) -> None:
        """Return `value`, which equals what output `index` was, in the same order of axes."""
        self.changed = True
        self.graph.outputs[index] = value

    def drop_state(self, state: State) -> None:
        """A state becomes a constant, its initial value."""
        type_ = state.read.type
        self.replace_value(state.read, self.graph.constant(state.initial, type_, state.read.name))
        self.graph.states[:] = [other for other in self.graph.states if other.read is not state.read]

    def retype(self, value: Value, type_: TensorType) -> None:
        """Change a declared type, for passes that rewrite producer and consumers together."""
        self.changed = True
        value.type = type_

    def rename(self, value: Value, name: str) -> None:
        """Give a value another name."""
        self.changed |= value.name != name
        value.name = name

    def erase(self, node: Node) -> None:
        """Remove a node whose results nobody reads."""
        assert not any(value.uses or self.graph.is_result(value) for value in node.outputs), f"{node!r} is still used"
        self.changed = True
        unlink_all([node])
        self.graph.nodes.remove(node)

    def erase_dead_producers(self, value: Value) -> None:
        """Remove the producer of `value`, and what only fed it, as far as nothing else reads it."""
        pending = [value]
        while pending:
            candidate = pending.pop()
            node = candidate.producer
            if node is None or node not in self.graph.nodes:
                continue
            if any(v.uses or self.graph.is_result(v) for v in node.outputs):
                continue
            pending.extend(node.inputs)
            self.erase(node)

    def _position(self, node: Node) -> int:
        return self.graph.nodes.index(node)


def _no_identity(perm: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if perm == tuple(range(len(perm))) else perm


__all__ = ["Rewriter", "Use"]
