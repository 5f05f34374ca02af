"""Dead code."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class Dce(Pass):
    """%a = op(...), read by nobody  -->  nothing. Inputs and written states are kept."""

    name: ClassVar[str] = "dce"

    def rewrite(self, rw: Rewriter) -> None:
        for node in reversed(list(rw.graph.nodes)):
            if not any(value.uses or rw.graph.is_result(value) for value in node.outputs):
                rw.erase(node)
                rw.count("dead node")
