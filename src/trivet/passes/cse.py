"""Equal computations and equal constants."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class Cse(Pass):
    """%a = op(%x); %b = op(%x); f(%a, %b)  -->  %a = op(%x); f(%a, %a); equal constants become one as well."""

    name: ClassVar[str] = "cse"

    def rewrite(self, rw: Rewriter) -> None:
        self._intern(rw)
        seen: dict[Hashable, Node] = {}
        for node in list(rw.graph.nodes):
            first = seen.setdefault(_key(node), node)
            if first is not node:
                for old, new in zip(node.outputs, first.outputs, strict=True):
                    rw.replace_value(old, new)
                rw.erase(node)
                rw.count("equal node")

    def _intern(self, rw: Rewriter) -> None:
        seen: dict[Hashable, Value] = {}
        for value in list(rw.graph.constants()):
            assert value.data is not None
            first = seen.setdefault((value.type, value.data.tobytes()), value)
            if first is not value:
                rw.replace_value(value, first)
                rw.count("equal constant")


def _key(node: Node) -> Hashable:
    operands = [id(value) for value in node.inputs]
    if node.op.commutative:
        operands[:2] = sorted(operands[:2])
    return node.op, tuple(operands)
