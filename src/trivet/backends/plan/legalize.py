"""What the C runtime can run: the last pass before planning."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from trivet.backends.plan.selection import Selection
from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass
from trivet.passes.const_fold import fold


@dataclass(frozen=True, slots=True)
class LegalizePlan(Pass):
    """op(constants)  -->  constant, where `const-fold` has left one: kernels read at least one value from memory.

    What then has no kernel is rejected, every such operator in one report. `selection` keeps the kernels for the plan.
    """

    name: ClassVar[str] = "legalize-plan"
    selection: Selection = field(default_factory=Selection, compare=False)

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if node.inputs and all(value.is_constant for value in node.inputs):
                fold(rw, node)
        self.selection.check(rw.graph)
