"""Structured kernels to straight code with labels; registers are still variables."""

from __future__ import annotations

import itertools
from typing import TypeAlias

from trivet.backends.gpu.ir import (
    Barrier,
    Binary,
    Body,
    For,
    If,
    Kernel,
    Load,
    Relation,
    Set,
    Space,
    Statement,
    Store,
    Value,
    Var,
)
from trivet.backends.gpu.isa import Opcode
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the code."""

    number: int


@dataclass(frozen=True, slots=True)
class Virtual:
    """An instruction on variables; `weight` is how often a thread executes it, taking every branch."""

    opcode: Opcode
    operands: tuple[Value | Label, ...]
    weight: int = 1

    def reads(self) -> tuple[Var, ...]:
        read = self.operands[1:] if self.opcode.has_result else self.operands
        return tuple([operand for operand in read if isinstance(operand, Var)])

    def result(self) -> Var | None:
        result = self.operands[0] if self.opcode.has_result else None
        return result if isinstance(result, Var) else None

    def target(self) -> Label | None:
        """Where it may jump to."""
        last = self.operands[-1] if self.operands else None
        return last if isinstance(last, Label) else None


Line: TypeAlias = Virtual | Label


def flatten(kernel: Kernel) -> list[Line]:
    """The kernel's code, in the order of its statements."""
    writer = _Writer()
    writer.body(kernel.body, 1)
    return writer.lines


class _Writer:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.labels = map(Label, itertools.count())

    def emit(self, weight: int, opcode: Opcode, *operands: Value | Label) -> None:
        self.lines.append(Virtual(opcode, operands, weight))

    def body(self, body: Body, weight: int) -> None:
        for statement in body:
            self.statement(statement, weight)

    def statement(self, statement: Statement, weight: int) -> None:
        match statement:
            case Set(result, value):
                self.emit(weight, Opcode.SET, result, value)
            case Binary(op, result, a, b):
                self.emit(weight, op, result, a, b)
            case Load(result, address, space):
                self.emit(weight, Opcode.LD if space is Space.GLOBAL else Opcode.SHLD, result, address)
            case Store(address, value, space):
                self.emit(weight, Opcode.ST if space is Space.GLOBAL else Opcode.SHST, address, value)
            case Barrier():
                self.emit(weight, Opcode.SYNCB)
            case For():
                self._loop(statement, weight)
            case If():
                self._branch(statement, weight)

    def _loop(self, loop: For, weight: int) -> None:
        turns = weight * loop.trips
        top = next(self.labels)
        if loop.start != loop.counter:
            self.emit(weight, Opcode.SET, loop.counter, loop.start)
        self.lines.append(top)
        if loop.inverted:
            self.body(loop.body, turns)
            self.emit(turns, Opcode.ADD, loop.counter, loop.counter, loop.step)
            self.emit(turns, Opcode.BNE, loop.counter, loop.stop, top)
            return
        end = next(self.labels)
        self.emit(turns + weight, Opcode.BEQ, loop.counter, loop.stop, end)
        self.body(loop.body, turns)
        self.emit(turns, Opcode.ADD, loop.counter, loop.counter, loop.step)
        self.emit(turns, Opcode.JMP, top)
        self.lines.append(end)

    def _branch(self, branch: If, weight: int) -> None:
        """`then` stands first, so what jumps away is the opposite of the relation."""
        orelse = next(self.labels)
        self._unless(branch, weight, orelse)
        self.body(branch.then, weight)
        if branch.orelse:
            end = next(self.labels)
            self.emit(weight, Opcode.JMP, end)
            self.lines.append(orelse)
            self.body(branch.orelse, weight)
            self.lines.append(end)
        else:
            self.lines.append(orelse)

    def _unless(self, branch: If, weight: int, target: Label) -> None:
        """Jump where the relation does not hold. `<` and `>` against an immediate need one branch, else two."""
        a, b = branch.a, branch.b
        jumps: tuple[Opcode, ...]
        match branch.relation:
            case Relation.EQ:
                self.emit(weight, Opcode.BNE, a, b, target)
                return
            case Relation.NE:
                self.emit(weight, Opcode.BEQ, a, b, target)
                return
            case Relation.LE | Relation.GE:
                jumps = (Opcode.BRGT if branch.relation is Relation.LE else Opcode.BRLT,)
            case Relation.LT:
                b, jumps = _closed(b, -1, Opcode.BRGT)
            case _:
                b, jumps = _closed(b, 1, Opcode.BRLT)
        self.emit(weight, Opcode.CMP, a, b)
        for jump in jumps:
            self.emit(weight, jump, target)


def _closed(b: Value, step: int, jump: Opcode) -> tuple[Value, tuple[Opcode, ...]]:
    """a < b is a <= b - 1; without an immediate, equality jumps too."""
    return (b + step, (jump,)) if isinstance(b, int) else (b, (jump, Opcode.BRZ))
