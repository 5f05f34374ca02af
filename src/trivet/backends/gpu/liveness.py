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


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines [start, stop) that are executed one after the other, and what is alive before and after them.

    The last line is a label or a jump, or the last of the code.
    """

    start: int
    stop: int
    entering: frozenset[Var]
    leaving: frozenset[Var]


class _Part:
    """A stretch while liveness is computed: what it reads before it assigns it, what it assigns, where it leads."""

    def __init__(self, code: Sequence[Line], start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.reads: set[Var] = set()
        self.assigns: set[Var] = set()
        self.leaving: set[Var] = set()
        for line in code[start:stop]:
            if isinstance(line, Virtual):
                self.reads.update(var for var in line.reads() if var not in self.assigns)
                result = line.result()
                if result is not None:
                    self.assigns.add(result)
        self.entering = set(self.reads)
        last = code[stop - 1]
        self.target = last.target() if isinstance(last, Virtual) else None
        self.goes_on = not (isinstance(last, Virtual) and last.opcode is Opcode.JMP)


def stretches(code: Sequence[Line]) -> list[Stretch]:
    """The code in pieces, each with what is read later on some way."""
    parts = _parts(code)
    after_label = {
        line: index + 1 for index, part in enumerate(parts) if isinstance(line := code[part.stop - 1], Label)
    }
    changed = True
    while changed:
        changed = False
        for index in range(len(parts) - 1, -1, -1):
            part = parts[index]
            leads = [index + 1] if part.goes_on else []
            leads += [after_label[part.target]] if part.target is not None else []
            leaving = {var for lead in leads if lead < len(parts) for var in parts[lead].entering}
            if leaving != part.leaving:
                part.leaving, changed = leaving, True
                part.entering = part.reads | (leaving - part.assigns)
    return [Stretch(p.start, p.stop, frozenset(p.entering), frozenset(p.leaving)) for p in parts]


def _parts(code: Sequence[Line]) -> list[_Part]:
    parts = []
    start = 0
    for index, line in enumerate(code):
        if isinstance(line, Label) or line.target() is not None or index == len(code) - 1:
            parts.append(_Part(code, start, index + 1))
            start = index + 1
    return parts


def intervals(code: Sequence[Line], entry: Sequence[Var]) -> dict[Var, Interval]:
    """The interval of every variable; those of `entry` hold a value from the start, if they are read at all."""
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}

    def needed(var: Var, moment: int) -> None:
        first.setdefault(var, moment)
        last[var] = moment

    for stretch in stretches(code):
        for var in stretch.entering:
            needed(var, 2 * stretch.start)
        for index in range(stretch.start, stretch.stop):
            line = code[index]
            if isinstance(line, Virtual):
                for var in line.reads():
                    needed(var, 2 * index)
                result = line.result()
                if result is not None:
                    needed(result, 2 * index + 1)
        for var in stretch.leaving:
            needed(var, 2 * stretch.stop - 1)
    return {var: Interval(-1 if var in entry else start, last[var]) for var, start in first.items()}
