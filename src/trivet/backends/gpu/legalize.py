"""What the tiny GPU can run: the last pass before kernels."""

from __future__ import annotations

from typing import ClassVar

from trivet.backends.gpu.limits import Limits, problems
from trivet.core.record import dataclass
from trivet.errors import Problems
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass
from trivet.passes.const_fold import fold


@dataclass(frozen=True, slots=True)
class LegalizeGpu(Pass):
    """op(constants)  -->  constant, where `const-fold` has left one; what then has no kernel or no room is refused.

    An operator with more elements than a launch has threads is split over launches when it is lowered.
    """

    name: ClassVar[str] = "legalize-gpu"
    limits: Limits

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if node.inputs and all(value.is_constant for value in node.inputs):
                fold(rw, node)
        found = problems(rw.graph, self.limits)
        if len(found) == 1:
            raise found[0]
        if found:
            raise Problems("the tiny GPU does not run this model", found)
