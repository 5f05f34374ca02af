"""Short loops become straight code."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trivet.backends.gpu.ir import (
    Barrier,
    Binary,
    Body,
    For,
    If,
    Kernel,
    Set,
    Statement,
    Var,
    assigned,
    reads_of,
    result_of,
    walk,
)
from trivet.backends.gpu.ir_rewrite import Names, renamed, with_bodies
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.machine import Machine
from trivet.core.record import dataclass

MOST_TURNS = 16
MOST_STATEMENTS = 512
"""What a loop's body may grow to."""


@dataclass(frozen=True, slots=True)
class Unroll:
    """for k = 0 to 2 { s }  -->  k = 0; s; k.1 = add k, 1; s    for k = 0 to 40 step 1 { s }  -->  10 copies, step 10

    Innermost loops: in full up to 16 turns, else by the largest divisor up to 16 of their number. Variables that live
    inside one turn get a name for each copy.
    """

    name: str = "unroll"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        return replace(kernel, body=_Unroller(kernel, fired).body(kernel.body))


class _Unroller:
    def __init__(self, kernel: Kernel, fired: Counter[str]) -> None:
        self.names = Names(kernel)
        self.fired = fired
        self.reads = Counter(var for statement in walk(kernel.body) for var in reads_of(statement))

    def body(self, body: Body) -> Body:
        done: list[Statement] = []
        for statement in body:
            if isinstance(statement, For) and not any(isinstance(s, For) for s in walk(statement.body)):
                done += self._loop(statement)
            else:
                done.append(with_bodies(statement, self.body))
        return tuple(done)

    def _loop(self, loop: For) -> list[Statement]:
        size = sum(1 for _ in walk(loop.body))
        most = min(MOST_TURNS, MOST_STATEMENTS // max(size, 1))
        copies = max((d for d in range(1, most + 1) if loop.trips % d == 0), default=1)
        if copies == 1 and loop.trips > 1:
            return [loop]
        self.fired["full" if copies == loop.trips else "partial"] += 1
        local = self._local(loop)
        body: list[Statement] = []
        for turn in range(copies):
            counter = loop.counter
            if turn:
                counter = self.names.fresh(loop.counter.name)
                body.append(Binary(Opcode.ADD, counter, loop.counter, turn * loop.step))
            names = {var: self.names.fresh(var.name) for var in sorted(local, key=str)} if turn else {}
            body += renamed(loop.body, {**names, loop.counter: counter})
        if copies == loop.trips:
            start: list[Statement] = [] if loop.start == loop.counter else [Set(loop.counter, loop.start)]
            return start + body
        return [replace(loop, step=loop.step * copies, trips=loop.trips // copies, body=tuple(body))]

    def _local(self, loop: For) -> set[Var]:
        """Variables that are assigned in a turn before they are read, and not read outside the loop."""
        inside = Counter(var for statement in walk(loop.body) for var in reads_of(statement))
        carried: set[Var] = set()
        _exposed(loop.body, set(), carried)
        return {var for var in assigned(loop.body) - carried if self.reads[var] == inside[var]}


def _exposed(body: Body, known: set[Var], carried: set[Var]) -> None:
    """Adds to `carried` what may be read before the body assigns it."""
    for statement in body:
        carried.update(var for var in reads_of(statement) if var not in known)
        match statement:
            case If():
                then, orelse = set(known), set(known)
                _exposed(statement.then, then, carried)
                _exposed(statement.orelse, orelse, carried)
                known |= then & orelse
            case Barrier():
                pass
            case _:
                result = result_of(statement)
                if result is not None:
                    known.add(result)
