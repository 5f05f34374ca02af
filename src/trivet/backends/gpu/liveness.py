"""Which variables are needed where in straight code."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.backends.gpu.flatten import Label, Line, Virtual
from trivet.backends.gpu.ir import Var
from trivet.backends.gpu.isa import Opcode
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """From the first to the last moment at which a variable is needed: line i reads at 2 i and writes at 2 i + 1.

    -1 is the start of the program.
    """

    start: int
    end: int

    def covers(self, moment: int) -> bool:
        return self.start <= moment <= self.end


def live_after(code: Sequence[Line]) -> list[frozenset[Var]]:
    """For each line the variables that are read later on some way."""
    places = {line: index for index, line in enumerate(code) if isinstance(line, Label)}
    after: list[frozenset[Var]] = [frozenset()] * len(code)
    before: list[frozenset[Var]] = [frozenset()] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(code) - 1, -1, -1):
            line = code[index]
            live = frozenset() if _leaves(line) else before[index + 1]
            if isinstance(line, Virtual) and (target := line.target()) is not None:
                live |= before[places[target]]
            after[index] = live
            if isinstance(line, Virtual):
                live = (live - {line.result()}) | set(line.reads())
            if live != before[index]:
                before[index], changed = live, True
    return after


def _leaves(line: Line) -> bool:
    return isinstance(line, Virtual) and line.opcode is Opcode.JMP


def intervals(code: Sequence[Line], entry: Sequence[Var]) -> dict[Var, Interval]:
    """The interval of every variable; those of `entry` hold a value from the start, if they are read at all."""
    moments: dict[Var, list[int]] = {}
    after = live_after(code)
    for index, line in enumerate(code):
        if isinstance(line, Virtual):
            for var in line.reads():
                moments.setdefault(var, []).append(2 * index)
            result = line.result()
            if result is not None:
                moments.setdefault(result, []).append(2 * index + 1)
        for var in after[index]:
            moments.setdefault(var, []).append(2 * index + 1)
    found = {var: Interval(min(times), max(times)) for var, times in moments.items()}
    return {var: Interval(-1, i.end) if var in entry else i for var, i in found.items()}


def pressure(found: dict[Var, Interval]) -> dict[int, int]:
    """How many variables are needed at each moment at which one begins."""
    return {start: sum(i.covers(start) for i in found.values()) for start in {i.start for i in found.values()}}
