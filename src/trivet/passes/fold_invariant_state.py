"""States that never change."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class FoldInvariantState(Pass):
    """A state that is only ever written its own value  -->  a constant, its initial value."""

    name: ClassVar[str] = "fold-invariant-state"

    def rewrite(self, rw: Rewriter) -> None:
        for state in list(rw.graph.states):
            if state.written is state.read:
                rw.drop_state(state)
                rw.count("state without change")
