"""One of several equal ways to write an operator."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.numerics import Overflow
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by


@dataclass(frozen=True, slots=True)
class Canonicalize(Pass):
    """add(%constant, %x)  -->  add(%x, %constant), for every commutative operator;
    add(%vector, %matrix)  -->  add(%matrix, %vector); exact adds of one shape order their operands by definition;
    relu(relu(%x))  -->  relu(%x).
    """

    name: ClassVar[str] = "canonicalize"

    def rewrite(self, rw: Rewriter) -> None:
        order = _definition_order(rw.graph)
        for node in list(rw.graph.nodes):
            if node.op.commutative and len(node.inputs) == 2 and _swapped(node, order):
                rw.set_operands(node, node.inputs[::-1])
                rw.count("operand order")
            elif isinstance(node.op, Relu) and made_by(node.inputs[0], Relu):
                rw.replace_value(node.output, node.inputs[0])
                rw.erase(node)
                rw.count("relu of relu")


def _definition_order(graph: Graph) -> dict[int, int]:
    values: list[Value] = [*graph.inputs, *(state.read for state in graph.states)]
    values += [value for node in graph.nodes for value in node.outputs]
    return {id(value): index for index, value in enumerate(values)}


def _swapped(node: Node, order: dict[int, int]) -> bool:
    a, b = node.inputs
    if a.is_constant or b.is_constant:
        return a.is_constant and not b.is_constant
    if a.type.rank != b.type.rank:
        return a.type.rank < b.type.rank
    if isinstance(node.op, Add) and node.op.overflow is Overflow.EXACT and a.type.shape == b.type.shape:
        return order[id(a)] > order[id(b)]
    return False
