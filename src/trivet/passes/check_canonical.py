"""The end of normalization."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass
from trivet.passes.specs import CANONICAL, Spec


@dataclass(frozen=True, slots=True)
class CheckCanonical(Pass):
    """Changes nothing: from here on the manager checks the spec `canonical` after every pass."""

    name: ClassVar[str] = "check-canonical"
    ensures: ClassVar[Spec | None] = CANONICAL

    def rewrite(self, rw: Rewriter) -> None:
        """Nothing to rewrite."""
