"""Repetition that broadcasting does anyway."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.op import TypeMismatch
from trivet.ir.rewriter import Rewriter
from trivet.ops.activation import Lookup
from trivet.ops.movement import Expand
from trivet.passes.base import Pass
from trivet.passes.commute import ELEMENTWISE
from trivet.passes.patterns import made_by


@dataclass(frozen=True, slots=True)
class BroadcastExpands(Pass):
    """add(%x, expand(%y))  -->  add(%x, %y), for every elementwise operator whose result keeps its shape."""

    name: ClassVar[str] = "broadcast-expands"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if not isinstance(node.op, ELEMENTWISE) or isinstance(node.op, Lookup):
                continue
            for index, value in enumerate(node.inputs):
                expand = made_by(value, Expand)
                if expand is None:
                    continue
                operands = [*node.inputs[:index], expand.inputs[0], *node.inputs[index + 1 :]]
                try:
                    types = node.op.infer(tuple(operand.type for operand in operands))
                except TypeMismatch:
                    continue
                if types == tuple(result.type for result in node.outputs):
                    rw.set_operands(node, operands)
                    rw.erase_dead_producers(value)
                    rw.count("expand")
