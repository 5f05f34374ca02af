"""What the machine can run: the last pass of the graph."""

from __future__ import annotations

from typing import ClassVar

from trivet.backends.tpu.lower import check
from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass
from trivet.passes.const_fold import fold


@dataclass(frozen=True, slots=True)
class LegalizeTpu(Pass):
    """op(constants)  -->  constant, where `const-fold` has left one.

    What then has no lowering is rejected, every such operator in one report: every operand of a product is an int8
    input, a constant that fits int8, or a requantized value; sums and functions are those of the epilogue unit.
    """

    name: ClassVar[str] = "legalize-tpu"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if node.inputs and all(value.is_constant for value in node.inputs):
                fold(rw, node)
        check(rw.graph)
