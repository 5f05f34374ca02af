"""Shapes of every value from the shapes of the inputs."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class ShapeInfer(Pass):
    """%y: T = op(%x)  -->  %y: op.infer(type of %x) = op(%x), where the declared type is another.

    Every frontend builds its nodes with inferred types, so this only acts on graphs whose inputs were given new types.
    """

    name: ClassVar[str] = "shape-infer"

    def rewrite(self, rw: Rewriter) -> None:
        for node in rw.graph.nodes:
            for value, type_ in zip(node.outputs, node.op.infer(node.input_types), strict=True):
                if value.type != type_:
                    rw.retype(value, type_)
                    rw.count("type")
