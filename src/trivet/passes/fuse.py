"""Steps after an exact matrix product become part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trivet.core.numerics import Overflow
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul
from trivet.passes.base import Pass
from trivet.passes.patterns import only_reader


@dataclass(frozen=True, slots=True)
class Fuse(Pass):
    """%p = matmul(%a, %b); %s = add(%p, %bias); %y = relu(%s)  -->  %y = matmul{bias, relu}(%a, %b, %bias), any prefix.

    A step is absorbed only if it alone reads the previous result, which is no output. The fused operator stands where
    the last absorbed step stood, and keeps its place in the source.
    """

    name: ClassVar[str] = "fuse"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if isinstance(node.op, MatMul):
                self._absorb(rw, node)

    def _absorb(self, rw: Rewriter, product: Node) -> None:
        node = product
        while (step := only_reader(rw.graph, node.output)) is not None:
            fused = _fused(node, step)
            if fused is None:
                return
            op, operands = fused
            value = rw.replace_node(step, op, operands)
            rw.erase(node)
            assert value.producer is not None
            node = value.producer
            rw.count("relu" if isinstance(op, MatMul) and op.relu else "bias")


def _fused(node: Node, step: Node) -> tuple[MatMul, list[Value]] | None:
    op = node.op
    assert isinstance(op, MatMul)
    match step.op:
        case Add(overflow=Overflow.EXACT) if not op.bias and not op.relu:
            bias = step.inputs[1] if step.inputs[0] is node.output else step.inputs[0]
            if node.output.type.rank >= 1 and bias.type.shape == node.output.type.shape[-1:]:
                return replace(op, bias=True), [*node.inputs, bias]
        case Relu() if not op.relu:
            return replace(op, relu=True), list(node.inputs)
    return None
