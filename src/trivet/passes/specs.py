"""What is true of a graph between passes. A spec is a list of claims that can be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trivet.ir.graph import Graph

Claim = Callable[[Graph], Iterator[str]]
"""Yields a sentence for every place where the claim does not hold."""


@dataclass(frozen=True)
class Spec:
    """A named set of claims; `base` claims hold as well."""

    name: str
    claims: tuple[Claim, ...] = field(default=())
    base: Spec | None = None

    def violations(self, graph: Graph) -> Iterator[str]:
        """Every sentence of every claim that fails, the base's first."""
        if self.base is not None:
            yield from self.base.violations(graph)
        for claim in self.claims:
            yield from claim(graph)

    def implies(self, other: Spec) -> bool:
        """True iff whatever satisfies this spec satisfies `other`."""
        spec: Spec | None = self
        while spec is not None:
            if spec is other:
                return True
            spec = spec.base
        return False


IMPORTED = Spec("imported")
