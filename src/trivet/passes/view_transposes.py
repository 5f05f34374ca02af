"""Transposes that move no byte."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.ops.movement import Reshape, Transpose
from trivet.passes.base import Pass
from trivet.passes.patterns import keeps_order


@dataclass(frozen=True, slots=True)
class ViewTransposes(Pass):
    """transpose(%x: [N, 1, 1, C])  -->  reshape(%x), when the axes longer than one keep their order.

    Runs after cancel-transposes, which finds more to cancel while they are still transposes.
    """

    name: ClassVar[str] = "view-transposes"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if not isinstance(node.op, Transpose) or not keeps_order(node.inputs[0].type.shape, node.op.perm):
                continue
            quant = node.inputs[0].type.quant
            if quant is None or quant.axis is None:
                rw.replace_node(node, Reshape(node.output.type.shape), node.inputs)
                rw.count("transpose of unit axes")
