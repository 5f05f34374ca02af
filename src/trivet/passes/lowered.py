"""What a backend makes of a graph, as instruments see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from trivet.core.record import dataclass
from trivet.ir.op import Array


class Lowered(Protocol):
    """A program that a backend makes of a graph."""

    def text(self) -> str:
        """The program as people read it."""
        ...

    def violations(self) -> Iterable[str]:
        """A sentence for each rule of its form that it breaks."""
        ...

    def interpret(self, invocations: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The outputs of one invocation after another, states living on; arrays are in storage order."""
        ...


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage, done. `fired` counts its rewrites."""

    name: str
    program: Lowered
    changed: bool
    seconds: float
    fired: Counter[str]
