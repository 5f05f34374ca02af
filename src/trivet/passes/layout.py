"""Transposes cancel until a convolutional network has none inside."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.movement import Reshape, Transpose
from trivet.passes.base import Pass, Preserves, Relative
from trivet.passes.commute import Commuted, Perm, commuted, compose, data_operands
from trivet.passes.feature_order import absorb_into_weights
from trivet.passes.lift import Lift, Ports
from trivet.passes.patterns import made_by
from trivet.passes.remove_identities import is_identity, joins_border


@dataclass(frozen=True, slots=True)
class CancelTransposes(Pass):
    """transpose(transpose(%x))  -->  transpose(%x) or %x;
    f(transpose(%x), c)  -->  transpose(f'(%x, transpose(c))): a transpose sinks through elementwise operators, concat,
    pad, slice, reductions, softmax, gather, reshapes that keep its blocks together, towards the one that undoes it;
    dense(reshape(transpose(%x)), w)  -->  dense(reshape(%x), w with its columns reordered);
    transpose(f(..))  -->  f'(..), where every operand of f can be had in the other order for nothing: a constant, a
    transpose that cancels, a dense layer whose rows are reordered, or (`ports`) a model input.

    With `ports`, a transpose that reaches a model input becomes the permutation of its port: storage order is then the
    order in which the network computes, and the declared order is the port's.

    Elements only move, but a dense layer with reordered columns adds its float products in another order.
    """

    ports: bool = True
    name: ClassVar[str] = "cancel-transposes"
    preserves: ClassVar[Preserves] = Relative(1e-6)

    def rewrite(self, rw: Rewriter) -> None:
        _name_operands(rw)
        lift = Lift(rw, Ports.CHANNELS_LAST if self.ports else Ports.CLOSED)
        for node in list(rw.graph.nodes):
            if isinstance(node.op, Transpose):
                _merge(rw, node) or lift_transpose(rw, node, lift)
            else:
                _sink(rw, node, lift)


def _name_operands(rw: Rewriter) -> None:
    """A transpose that vanishes leaves its name to its operand, which may have none (a frontend names results only)."""
    for node in rw.graph.nodes:
        if isinstance(node.op, Transpose) and node.output.name and not node.inputs[0].name:
            rw.rename(node.inputs[0], f"{node.output.name}.t")


def _merge(rw: Rewriter, node: Node) -> bool:
    inner = made_by(node.inputs[0], Transpose)
    if inner is None:
        return False
    assert isinstance(inner.op, Transpose) and isinstance(node.op, Transpose)
    perm = compose(inner.op.perm, node.op.perm)
    old = node.inputs[0]
    if perm == tuple(range(len(perm))):
        source = inner.inputs[0]
        if source.producer is None and rw.graph.is_result(node.output):
            return False
        rw.replace_value(node.output, source)
        rw.erase(node)
        rw.count("transposes cancel")
    else:
        rw.replace_node(node, Transpose(perm), inner.inputs)
        rw.count("transposes merge")
    rw.erase_dead_producers(old)
    return True


def lift_transpose(rw: Rewriter, node: Node, lift: Lift) -> bool:
    """Replace a transpose by its operand in the other order, if that is free."""
    assert isinstance(node.op, Transpose)
    if joins_border(rw.graph, node):
        return False
    make = lift.plan(node.inputs[0], node.op.perm)
    if make is None:
        return False
    old = node.inputs[0]
    rw.replace_value(node.output, make(node))
    rw.erase(node)
    rw.erase_dead_producers(old)
    rw.count("transpose absorbed upwards")
    return True


def _sink(rw: Rewriter, node: Node, lift: Lift) -> None:
    """Move the transposes in front of `node` behind it."""
    if len(node.outputs) != 1:
        return
    candidates = [node.inputs[i] for i in data_operands(node) if i < len(node.inputs)]
    transposed = [t for value in candidates if (t := made_by(value, Transpose)) is not None and not is_identity(t)]
    for transpose in sorted(transposed, key=lambda t: -t.output.type.elements):
        assert isinstance(transpose.op, Transpose)
        if transpose.output.type.rank != node.output.type.rank and len(candidates) > 1:
            continue
        if _sink_through(rw, node, transpose.op.perm, lift):
            return
    if transposed and isinstance(node.op, Reshape):
        absorb_into_weights(rw, node, transposed[0])


def _sink_through(rw: Rewriter, node: Node, perm: Perm, lift: Lift) -> bool:
    how = commuted(node, perm)
    if how is None:
        return False
    operands = lift.operands(node, perm)
    if operands is None:
        return False
    old = node.inputs
    _rebuild(rw, node, how, [make(node) for make in operands])
    for value in old:
        rw.erase_dead_producers(value)
    rw.count(f"transpose sinks through {how.op.name}")
    return True


def _rebuild(rw: Rewriter, node: Node, how: Commuted, operands: list[Value]) -> None:
    name = node.output.name
    inner = rw.insert_before(node, how.op, operands, f"{name}.t" if name else "", node.loc)
    if how.after == tuple(range(len(how.after))):
        rw.rename(inner, name)
        outer = inner
    else:
        outer = rw.insert_before(node, Transpose(how.after), [inner], name, node.loc)
    assert outer.type == node.output.type, f"{node!r}: {outer!r}"
    rw.replace_value(node.output, outer)
    rw.erase(node)
