"""Every form of Clip, ReLU and min/max with a constant as one clamp."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trivet.core.bounds import Bounds
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.rewriter import Rewriter
from trivet.ops.activation import Clamp
from trivet.ops.elementwise import Maximum, Minimum
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by, read_once, scalar


@dataclass(frozen=True, slots=True)
class MergeClamps(Pass):
    """maximum(%x, c)  -->  clamp{c..}(%x); minimum(%x, c)  -->  clamp{..c}(%x), for one float number c;
    clamp{b}(clamp{a}(%x))  -->  clamp{a then b}(%x), floats, or stored integers that keep their quantization.
    """

    name: ClassVar[str] = "merge-clamps"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if isinstance(node.op, Maximum | Minimum):
                node = _extremum(rw, node)
            if isinstance(node.op, Clamp):
                _chain(rw, node)


def _extremum(rw: Rewriter, node: Node) -> Node:
    x, limit = node.inputs if node.inputs[1].is_constant else node.inputs[::-1]
    number = scalar(limit)
    if number is None or not x.type.dtype.is_float or node.output.type != x.type:
        return node
    bounds = Bounds(lo=number) if isinstance(node.op, Maximum) else Bounds(hi=number)
    value = rw.replace_node(node, Clamp(bounds), [x])
    rw.count("extremum with a number")
    assert value.producer is not None
    return value.producer


def _chain(rw: Rewriter, node: Node) -> None:
    inner = made_by(node.inputs[0], Clamp)
    outer_op = node.op
    if inner is None or not isinstance(inner.op, Clamp) or not isinstance(outer_op, Clamp):
        return
    middle = inner.output
    keeps = outer_op.out == inner.op.out and outer_op.numerics is inner.op.numerics
    if not keeps or not read_once(rw.graph, middle):
        return
    merged = replace(inner.op, bounds=inner.op.bounds.intersect(outer_op.bounds))
    rw.replace_node(node, merged, inner.inputs)
    rw.erase_dead_producers(middle)
    rw.count("clamp of clamp")
