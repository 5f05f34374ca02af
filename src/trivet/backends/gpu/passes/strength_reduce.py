"""Addresses that grow evenly with a loop become pointers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from trivet.backends.gpu.ir import (
    Binary,
    Body,
    For,
    Kernel,
    Set,
    Statement,
    Value,
    Var,
    assigned,
    bodies_of,
    reads_of,
    walk,
)
from trivet.backends.gpu.ir_rewrite import Names, renamed, with_bodies, with_operands, with_result
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.passes.licm import single_assignments
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class StrengthReduce:
    """for k { t = mul k, 4; u = add t, tid; load [u] }  -->  p = add 0, tid; for k { load [p]; p = add p, 4 }

    Chains of two or more additions and multiplications on the counter whose last value is not read after the loop.
    Where nothing else reads the counter, a pointer takes its place: for p = p to end step 4.
    """

    name: str = "strength-reduce"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        reducer = _Reducer(kernel, fired)
        return replace(kernel, body=reducer.body(kernel.body))


@dataclass(frozen=True, slots=True)
class _Affine:
    """A variable that grows by `slope` with each 1 of the counter; `chain` are the statements that make it of it."""

    slope: int
    chain: tuple[int, ...]


class _Reducer:
    def __init__(self, kernel: Kernel, fired: Counter[str]) -> None:
        self.kernel = kernel
        self.fired = fired
        self.names = Names(kernel)
        self.once = single_assignments(kernel.body)
        self.reads = Counter(var for statement in walk(kernel.body) for var in reads_of(statement))

    def body(self, body: Body) -> Body:
        done: list[Statement] = []
        for statement in body:
            statement = with_bodies(statement, self.body)
            done += self._reduce(statement) if isinstance(statement, For) else [statement]
        return tuple(done)

    def _reduce(self, loop: For) -> list[Statement]:
        before: list[Statement] = []
        pointers: list[tuple[Var, int]] = []
        affine = self._affine(loop)
        heads = {var: self.names.fresh("p") for var in self._heads(loop, affine)}
        if not heads:
            return [loop]
        for var, pointer in heads.items():
            found = affine[var]
            before += self._start(loop, [loop.body[i] for i in found.chain], pointer)
            pointers.append((pointer, found.slope * loop.step))
            self.fired["pointer"] += 1
        made = {affine[var].chain[-1] for var in heads}
        body = renamed(tuple(s for i, s in enumerate(loop.body) if i not in made), heads)
        return self._counted(replace(loop, body=_without_dead(body)), before, pointers)

    def _affine(self, loop: For) -> dict[Var, _Affine]:
        """Every variable of the loop's own body that is made of the counter by additions and multiplications."""
        inside = assigned(loop.body) | {loop.counter}
        found = {loop.counter: _Affine(1, ())}
        for index, statement in enumerate(loop.body):
            if not isinstance(statement, Binary) or statement.result not in self.once:
                continue
            slope = _slope(statement, found, inside)
            if slope is not None:
                chains = [found[v].chain for v in reads_of(statement) if v in found]
                chain = sorted({i for c in chains for i in c} | {index})
                found[statement.result] = _Affine(slope, tuple(chain))
        return found

    def _heads(self, loop: For, affine: dict[Var, _Affine]) -> list[Var]:
        """The last variables of chains: read by something that is no link of a chain, and only in the loop."""
        links = {i for found in affine.values() for i in found.chain}
        others = [s for i, s in enumerate(loop.body) if i not in links]
        wanted = {var for s in others for inner in walk((s,)) for var in reads_of(inner)}
        inner = Counter(var for s in walk(loop.body) for var in reads_of(s))
        return [
            var
            for var, found in affine.items()
            if var in wanted and len(found.chain) >= 2 and found.slope and self.reads[var] == inner[var]
        ]

    def _start(self, loop: For, chain: Sequence[Statement], pointer: Var) -> list[Statement]:
        """The chain for the first turn; its last result is the pointer."""
        now: dict[Var, Value] = {loop.counter: loop.start}
        made: list[Statement] = []
        for statement in chain:
            first = with_operands(statement, lambda v: now.get(v, v) if isinstance(v, Var) else v)
            assert isinstance(statement, Binary) and isinstance(first, Binary)
            value = _trivial(first)
            if statement is chain[-1]:
                made.append(Set(pointer, value) if value is not None else with_result(first, pointer))
            elif value is None:
                value = self.names.fresh("t")
                made.append(with_result(first, value))
            now[statement.result] = value if value is not None else pointer
        return made

    def _counted(self, loop: For, before: list[Statement], pointers: list[tuple[Var, int]]) -> list[Statement]:
        """The loop with its pointers moved on at the end of a turn, one of them instead of the counter if it can be."""
        read_inside = any(loop.counter in reads_of(s) for s in walk(loop.body))
        outside = self.reads[loop.counter] > sum(
            s.count(loop.counter) for s in map(reads_of, walk(self._original(loop)))
        )
        if read_inside or outside:
            return [*before, replace(loop, body=(*loop.body, *map(_bump, pointers)))]
        (pointer, step), *rest = pointers
        end = self.names.fresh("end")
        before.append(Binary(Opcode.ADD, end, pointer, step * loop.trips))
        body = (*loop.body, *map(_bump, rest))
        self.fired["counter"] += 1
        return [*before, For(pointer, pointer, end, step, loop.trips, body, loop.inverted)]

    def _original(self, loop: For) -> Body:
        """The loop's body as it was: the counter names it."""
        for statement in walk(self.kernel.body):
            if isinstance(statement, For) and statement.counter == loop.counter:
                return statement.body
        return ()


def _trivial(statement: Binary) -> Value | None:
    """The result where no instruction is needed for it."""
    match statement.op, statement.a, statement.b:
        case Opcode.ADD, Var() as a, 0:
            return a
        case Opcode.ADD, 0, Var() as b:
            return b
        case Opcode.ADD, int(a), int(b):
            return a + b
        case Opcode.MUL, int(a), int(b):
            return a * b
    return None


def _bump(pointer: tuple[Var, int]) -> Statement:
    var, step = pointer
    return Binary(Opcode.ADD, var, var, step)


def _slope(statement: Binary, found: dict[Var, _Affine], inside: set[Var]) -> int | None:
    """How a result grows with the counter, None if it does not do so evenly."""
    if not any(isinstance(v, Var) and v in found for v in (statement.a, statement.b)):
        return None
    return slope_of(statement, lambda operand: _operand_slope(operand, found, inside))


def slope_of(statement: Binary, of: Callable[[Value], int | None]) -> int | None:
    """How a result grows with something, from how its operands do; None if it does not do so evenly."""
    a, b = of(statement.a), of(statement.b)
    if a is None or b is None:
        return None
    match statement.op:
        case Opcode.ADD:
            return a + b
        case Opcode.SUB:
            return a - b
        case Opcode.MUL if isinstance(statement.b, int):
            return a * statement.b
        case Opcode.MUL if isinstance(statement.a, int):
            return b * statement.a
    return None


def _operand_slope(operand: Value, found: dict[Var, _Affine], inside: set[Var]) -> int | None:
    if isinstance(operand, Var) and operand in found:
        return found[operand].slope
    return None if isinstance(operand, Var) and operand in inside else 0


def _without_dead(body: Body) -> Body:
    """Without arithmetic of the loop's own body that nothing reads any more."""
    while True:
        read = {var for statement in walk(body) for var in reads_of(statement)}
        kept = tuple(s for s in body if not isinstance(s, Binary) or s.result in read or bodies_of(s))
        if len(kept) == len(body):
            return body
        body = kept
