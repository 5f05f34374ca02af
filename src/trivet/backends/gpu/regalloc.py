"""Registers for variables: linear scan over intervals; what does not fit is recomputed or spilled to shared memory.

At the first moment with too many variables the one is taken out that is cheapest by the innermost loop that touches it
and, of those, needed for longest. On straight code that takes out as few as possible: the relaxed problem, in which a
variable that is taken out needs no register at all, is solved exactly by this rule. Intervals overlap at most as often
as there are registers then, so that first come, first served always finds one.

A spilled variable lies in a word of shared memory of the thread's own, at its slot * block + tid.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import field, replace

from trivet.backends.gpu.flatten import Line, Virtual
from trivet.backends.gpu.ir import BID, GID, SPECIAL, TID, Kernel, Value, Var
from trivet.backends.gpu.isa import BLOCK_ID, GLOBAL_ID, THREAD_ID, Opcode
from trivet.backends.gpu.liveness import Interval, intervals
from trivet.backends.gpu.webs import renumbered
from trivet.core.record import dataclass
from trivet.errors import DoesNotFit

MOST_TO_PRUNE = 400
"""Lines of code for which it is tried what need not be taken out after all."""

_AT_START = {BID: BLOCK_ID, TID: THREAD_ID, GID: GLOBAL_ID}


@dataclass(frozen=True, slots=True)
class Allocation:
    """Code with a register for every variable; `slots` words of shared memory for each thread hold `spilled`."""

    code: tuple[Line, ...]
    registers: dict[Var, int]
    spilled: tuple[Var, ...] = field(default=())
    recomputed: tuple[Var, ...] = field(default=())

    @property
    def slots(self) -> int:
        return len(self.spilled)


def allocate(kernel: Kernel, code: Sequence[Line], registers: int, prune: bool = True) -> Allocation:
    """Registers for the code of a kernel; without `prune` sooner, and maybe with a few more spills.

    Raises: DoesNotFit where even an empty machine has too few for one instruction.
    """
    named = renumbered(code)
    spiller = _Spiller(kernel, named, registers)
    while (moment := crowded(spiller.intervals(), registers)) is not None:
        spiller.make_room(moment)
    if prune and len(named) <= MOST_TO_PRUNE:
        spiller = _pruned(spiller, named)
    chosen = _assign(spiller.code, spiller.intervals(), kernel.parameters)
    return Allocation(tuple(spiller.code), chosen, tuple(spiller.spilled), tuple(spiller.recomputed))


def _pruned(spiller: _Spiller, named: Sequence[Line]) -> _Spiller:
    """Without what need not be taken out any more, now that others are: the code of a spill crowds its neighbours."""
    taken = spiller.taken
    for var in list(taken):
        fewer = [other for other in taken if other != var]
        attempt = _Spiller(spiller.kernel, named, spiller.registers)
        for other in fewer:
            attempt.take_out(other)
        if crowded(attempt.intervals(), spiller.registers) is None:
            spiller, taken = attempt, fewer
    return spiller


def crowded(found: dict[Var, Interval], registers: int) -> int | None:
    """The first moment at which more variables are needed than there are registers."""
    active: list[int] = []
    for interval in sorted(found.values(), key=lambda i: i.start):
        while active and active[0] < interval.start:
            heapq.heappop(active)
        heapq.heappush(active, interval.end)
        if len(active) > registers:
            return interval.start
    return None


def fewest_spills(found: dict[Var, Interval], registers: int, pinned: frozenset[Var] = frozenset()) -> int:
    """A lower bound: how many variables must be taken out if one that is needs no register at all.

    `pinned` cannot be taken out. Taking out what is needed for longest is optimal for intervals.
    """
    left, count = dict(found), 0
    while (moment := crowded(left, registers)) is not None:
        here = [var for var, interval in left.items() if interval.covers(moment) and var not in pinned]
        del left[max(here, key=lambda var: left[var].end)]
        count += 1
    return count


class _Spiller:
    """Takes variables out of the code, one at a time."""

    def __init__(self, kernel: Kernel, code: Sequence[Line], registers: int) -> None:
        self.kernel = kernel
        self.code = list(code)
        self.registers = registers
        self.taken: list[Var] = []
        self.spilled: list[Var] = []
        self.recomputed: list[Var] = []
        self.fixed: set[Var] = {TID} if kernel.block > 1 else set()
        """Short-lived ones that exist because something was taken out, and what their code needs."""
        self.names = map(Var, (f"spill.{i}" for i in itertools.count()))

    def intervals(self) -> dict[Var, Interval]:
        """Of the code as it is now."""
        return intervals(self.code, (*SPECIAL, *self.kernel.parameters))

    def make_room(self, moment: int) -> None:
        """Take out what is cheapest of what is needed at a moment."""
        found = self.intervals()
        here = [
            v for v, i in found.items() if i.covers(moment) and v not in self.fixed and not self._touches(moment, v)
        ]
        if not here:
            raise DoesNotFit(
                f"{self.registers} registers are too few for one instruction of {self.kernel.name}",
                where=self.kernel.name,
                hint="a machine has at least 8 registers a thread",
            )
        self.take_out(min(here, key=lambda v: self._cost(v, found)))

    def take_out(self, var: Var) -> None:
        """Compute it where it is read, or spill it."""
        self.taken.append(var)
        origin = self._recomputable(var)
        if origin is not None:
            self.recomputed.append(var)
            self._recompute(var, origin)
        else:
            self.spilled.append(var)
            self._spill(var, self.kernel.shared_words + (len(self.spilled) - 1) * self.kernel.block)

    def _cost(self, var: Var, found: dict[Var, Interval]) -> tuple[int, bool, int, str]:
        """Constants cost nothing; then by the innermost loop; then what can be computed again; then the longest."""
        origin = self._recomputable(var, found)
        weight = 0 if origin is not None and origin.opcode is Opcode.SET else self._weight(var)
        return weight, origin is None, -found[var].end, var.name

    def _touches(self, moment: int, var: Var) -> bool:
        """True iff taking the variable out would need a register for it at once."""
        line = self.code[moment // 2] if moment >= 0 else None
        if not isinstance(line, Virtual):
            return False
        return var == line.result() if moment % 2 else var in line.reads()

    def _weight(self, var: Var) -> int:
        """How often the innermost instruction that touches it is executed."""
        return max(line.weight for line in self.code if isinstance(line, Virtual) and _mentions(line, var))

    def _recomputable(self, var: Var, found: dict[Var, Interval] | None = None) -> Virtual | None:
        """The only instruction that makes it, if its operands are there as long as the variable is needed."""
        makers = [line for line in self.code if isinstance(line, Virtual) and line.result() == var]
        if len(makers) != 1 or var in SPECIAL or var in self.kernel.parameters:
            return None
        (maker,) = makers
        if maker.opcode not in (Opcode.SET, Opcode.ADD, Opcode.MUL, Opcode.SUB):
            return None
        if maker.opcode is Opcode.SET and maker.reads():
            return None
        if not all(v in (*SPECIAL, *self.kernel.parameters) for v in maker.reads()):
            return None
        found = found or self.intervals()
        return maker if all(found[v].end >= found[var].end for v in maker.reads()) else None

    def _recompute(self, var: Var, maker: Virtual) -> None:
        value = maker.operands[1]
        if maker.opcode is Opcode.SET and isinstance(value, int):
            self.code = [_substituted(line, var, value) for line in self.code if line is not maker]
            return
        code: list[Line] = []
        for line in self.code:
            if line is maker:
                continue
            if isinstance(line, Virtual) and var in line.reads():
                again = self._temporary()
                code.append(replace(maker, operands=(again, *maker.operands[1:]), weight=line.weight))
                line = _substituted(line, var, again)
            code.append(line)
        self.code = code

    def _spill(self, var: Var, slot: int) -> None:
        """Every read loads it first, every write stores it after; a special or a parameter is stored at the start."""
        code: list[Line] = []
        if var in SPECIAL or var in self.kernel.parameters:
            code += self._stored(var, slot, 1)
            self.fixed.add(var)
        for line in self.code:
            if not isinstance(line, Virtual) or not _mentions(line, var):
                code.append(line)
                continue
            name = self._temporary()
            if var in line.reads():
                code += self._loaded(name, slot, line.weight)
            code.append(_substituted(line, var, name, results=True))
            if var == line.result():
                code += self._stored(name, slot, line.weight)
        self.code = code

    def _temporary(self) -> Var:
        name = next(self.names)
        self.fixed.add(name)
        return name

    def _loaded(self, name: Var, slot: int, weight: int) -> list[Line]:
        if self.kernel.block == 1:
            return [Virtual(Opcode.SHLD, (name, slot), weight)]
        address = Virtual(Opcode.ADD, (name, TID, slot), weight)
        return [address, Virtual(Opcode.SHLD, (name, name), weight)]

    def _stored(self, name: Var, slot: int, weight: int) -> list[Line]:
        if self.kernel.block == 1:
            return [Virtual(Opcode.SHST, (slot, name), weight)]
        address = self._temporary()
        return [Virtual(Opcode.ADD, (address, TID, slot), weight), Virtual(Opcode.SHST, (address, name), weight)]


def _mentions(line: Virtual, var: Var) -> bool:
    return var in line.operands


def _substituted(line: Line, var: Var, value: Value, results: bool = False) -> Line:
    """The line with `value` read instead of `var`, and written too where `results` says so."""
    if not isinstance(line, Virtual) or not _mentions(line, var):
        return line
    kept = 0 if results or line.result() is None else 1
    operands = tuple(value if o == var and i >= kept else o for i, o in enumerate(line.operands))
    return replace(line, operands=operands)


def _assign(code: Sequence[Line], found: dict[Var, Interval], parameters: Sequence[Var]) -> dict[Var, int]:
    """First come, first served; a copy gets the register of what it copies where that one ends."""
    copies = {
        line.operands[0]: line.operands[1] for line in code if isinstance(line, Virtual) and line.opcode is Opcode.SET
    }
    at_start = {**_AT_START, **{parameter: index for index, parameter in enumerate(parameters)}}
    order = sorted(found, key=lambda v: (found[v].start, v.name))
    chosen: dict[Var, int] = {}
    active: list[Var] = []
    for var in order:
        active = [v for v in active if found[v].end >= found[var].start]
        active.append(var)
        if var in at_start:
            chosen[var] = at_start[var]
            continue
        taken = {chosen[v] for v in active[:-1]}
        source = copies.get(var)
        wanted = chosen.get(source) if isinstance(source, Var) else None
        free = (r for r in itertools.count() if r not in taken)
        chosen[var] = wanted if wanted is not None and wanted not in taken else next(free)
    return chosen
