"""What the C runtime can run: the last pass before planning."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from trivet.backends.plan.selection import Selection
from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class LegalizePlan(Pass):
    """The graph stays as it is: accepted, or rejected with every operator that no kernel of the C runtime takes.

    `selection` keeps the kernels that it found, for the plan.
    """

    name: ClassVar[str] = "legalize-plan"
    selection: Selection = field(default_factory=Selection, compare=False)

    def rewrite(self, rw: Rewriter) -> None:
        self.selection.check(rw.graph)
