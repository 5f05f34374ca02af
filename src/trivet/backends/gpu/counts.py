"""What a launch executed, and what that costs under the cycle model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trivet.backends.gpu.group import Shape
from trivet.backends.gpu.isa import Kind, Program
from trivet.backends.gpu.machine import CycleModel
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Thread-instructions by kind, how often threads parted, and cycles; sums over launches add up.

    `issued` counts instructions of rows of lanes: what the machine fetches.
    """

    instructions: int = 0
    loads: int = 0
    stores: int = 0
    shared_loads: int = 0
    shared_stores: int = 0
    branches: int = 0
    barriers: int = 0
    divergences: int = 0
    issued: int = 0
    cycles: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.names()))

    @staticmethod
    def names() -> tuple[str, ...]:
        return tuple(Counts.__dataclass_fields__)

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.names()}


_COUNTED = {
    "loads": (Kind.LOAD, Kind.SWAP),
    "stores": (Kind.STORE, Kind.SWAP),
    "shared_loads": (Kind.SHARED_LOAD,),
    "shared_stores": (Kind.SHARED_STORE,),
    "branches": (Kind.BRANCH,),
    "barriers": (Kind.BARRIER,),
}


class Tally:
    """Counts executions of stretches of a program while it runs; the sums are made at the end."""

    def __init__(self, model: CycleModel) -> None:
        self.model = model
        self.visits: Counter[tuple[int, int, Shape]] = Counter()
        """How often instructions [start, stop) were executed by a group of that shape."""
        self.partings: Counter[tuple[int, ...]] = Counter()
        """Rows of each core that parted."""

    def part(self, whole: Shape, one: Shape, other: Shape) -> None:
        both = tuple(a + b - c for a, b, c in zip(one.rows, other.rows, whole.rows, strict=True))
        if any(both):
            self.partings[both] += 1

    def counts(self, program: Program) -> Counts:
        """All of it."""
        threads: Counter[Kind] = Counter()
        cores = [0] * self.model.cores
        issued = 0
        for (start, stop, shape), times in self.visits.items():
            kinds = [instruction.opcode.kind for instruction in program.code[start:stop]]
            for kind in kinds:
                threads[kind] += times * shape.threads
            cost = sum(self.model.cost(kind) for kind in kinds)
            for core, rows in enumerate(shape.rows):
                cores[core] += times * rows * cost
                issued += times * rows * len(kinds)
        divergences = 0
        for rows_parted, times in self.partings.items():
            for core, rows in enumerate(rows_parted):
                cores[core] += times * rows * self.model.divergence
                divergences += times * rows
        named = {name: _sum(threads, kinds) for name, kinds in _COUNTED.items()}
        return Counts(
            instructions=sum(threads.values()), divergences=divergences, issued=issued, cycles=max(cores), **named
        )


def _sum(threads: Counter[Kind], kinds: Iterable[Kind]) -> int:
    return sum(threads[kind] for kind in kinds)
