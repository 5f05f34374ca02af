"""What a pass is."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.graph import Graph
from trivet.ir.rewriter import Rewriter
from trivet.passes.specs import IMPORTED, Spec


@dataclass(frozen=True, slots=True)
class Exact:
    """Every surviving value keeps every bit."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Integers may move by `count` units, floats by what one unit of the quantization nearby is worth."""

    count: int


@dataclass(frozen=True, slots=True)
class Relative:
    """Floats may move by `epsilon` times the largest magnitude of their tensor."""

    epsilon: float


Preserves = Exact | Steps | Relative


@dataclass(frozen=True, slots=True)
class Pass:
    """One named transformation. The docstring of a subclass is its rewrite: before --> after."""

    name: ClassVar[str]
    requires: ClassVar[Spec] = IMPORTED
    ensures: ClassVar[Spec | None] = None
    """A spec that holds afterwards, beyond what held before."""

    preserves: ClassVar[Preserves] = Exact()

    @abstractmethod
    def rewrite(self, rw: Rewriter) -> None:
        """Change `rw.graph` through `rw`, and count each rewrite that fired."""

    def run(self, graph: Graph, fired: Counter[str] | None = None) -> bool:
        """Apply the pass; True iff it changed the graph. `fired` collects how often each rewrite fired."""
        rw = Rewriter(graph)
        self.rewrite(rw)
        if fired is not None:
            fired.update(rw.fired)
        return rw.changed
