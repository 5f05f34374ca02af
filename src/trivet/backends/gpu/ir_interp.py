"""Runs Kernel IR as it stands: the check of lowering and of every kernel pass. It knows nothing of the machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trivet.backends.gpu.ir import (
    BID,
    GID,
    TID,
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
    Store,
    Value,
    Var,
)
from trivet.backends.gpu.ir_text import print_statement
from trivet.backends.gpu.isa import WORD, Opcode
from trivet.core import fixedpoint

Words = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NOBODY, _SEVERAL = -1, -2
"""Instead of a thread: who touched a word of shared memory since the last barrier."""


def interpret(kernel: Kernel, memory: Words) -> None:
    """Every launch of the kernel, on `memory` in place. Faults are assertions: a verified kernel has none."""
    for launch in kernel.launches:
        run = _Threads(kernel, memory)
        run.values |= {
            parameter: np.full(kernel.threads, value, np.int64)
            for parameter, value in zip(kernel.parameters, launch, strict=True)
        }
        run.execute(kernel.body, np.ones(kernel.threads, np.bool_))


class _Threads:
    """What every thread holds; statements are executed by all threads of a mask at once."""

    def __init__(self, kernel: Kernel, memory: Words) -> None:
        ids = np.arange(kernel.threads, dtype=np.int64)
        self.values: dict[Var, Words] = {BID: ids // kernel.block, TID: ids % kernel.block, GID: ids}
        self.block = ids // kernel.block
        self.memory = memory
        self.shared = np.zeros((kernel.grid, kernel.shared_words), np.int64)
        self.reader, self.writer = (np.full_like(self.shared, _NOBODY) for _ in range(2))
        self.count = kernel.threads

    def value(self, operand: Value) -> Words:
        return np.full(self.count, operand, np.int64) if isinstance(operand, int) else self.values[operand]

    def assign(self, result: Var, words: Words, mask: Mask, shown: str) -> None:
        inside = words[mask]
        assert inside.size == 0 or (inside.min() >= WORD.lo and inside.max() <= WORD.hi), f"{shown}: leaves 32 bits"
        old = self.values.get(result)
        self.values[result] = np.where(mask, words, 0 if old is None else old)

    def execute(self, body: Body, mask: Mask) -> None:
        for statement in body:
            match statement:
                case Set(result, value):
                    self.assign(result, self.value(value), mask, "")
                case Binary(op, result, a, b):
                    words = _compute(op, np.where(mask, self.value(a), 0), np.where(mask, self.value(b), 0))
                    self.assign(result, words, mask, print_statement(statement))
                case Load(result, address, space):
                    where = self._where(address, space, mask, print_statement(statement))
                    self.assign(result, self._read(where, space, mask, print_statement(statement)), mask, "")
                case Store(address, value, space):
                    where = self._where(address, space, mask, print_statement(statement))
                    self._write(where, self.value(value), space, mask, print_statement(statement))
                case For():
                    self._loop(statement, mask)
                case If():
                    holds = _holds(statement.relation, self.value(statement.a), self.value(statement.b))
                    self._branch(statement, mask & holds, mask & ~holds)
                case Barrier():
                    self.reader[:], self.writer[:] = _NOBODY, _NOBODY

    def _branch(self, statement: If, then: Mask, orelse: Mask) -> None:
        if then.any():
            self.execute(statement.then, then)
        if orelse.any():
            self.execute(statement.orelse, orelse)

    def _loop(self, loop: For, mask: Mask) -> None:
        counter = self.value(loop.start)
        for _ in range(loop.trips):
            self.assign(loop.counter, counter, mask, print_statement(loop))
            self.execute(loop.body, mask)
            counter = self.values[loop.counter] + loop.step
        self.assign(loop.counter, counter, mask, print_statement(loop))
        assert (counter == self.value(loop.stop))[mask].all(), f"{print_statement(loop)}: it does not end there"

    def _where(self, address: Value, space: Space, mask: Mask, shown: str) -> Words:
        where = np.where(mask, self.value(address), 0)
        size = self.memory.size if space is Space.GLOBAL else self.shared.shape[1]
        assert where.min() >= 0 and where.max() < max(size, 1), f"{shown}: an address outside {size} words"
        return where

    def _read(self, where: Words, space: Space, mask: Mask, shown: str) -> Words:
        """Shared memory may only be read where no other thread has written since the last barrier."""
        if space is Space.GLOBAL:
            return self.memory[where]
        place = self.block[mask], where[mask]
        threads = np.flatnonzero(mask)
        writer = self.writer[place]
        assert ((writer == _NOBODY) | (writer == threads)).all(), f"{shown}: no barrier since another thread wrote it"
        known = self.reader[place]
        self.reader[place] = np.where((known == _NOBODY) | (known == threads), threads, _SEVERAL)
        self.reader[place] = np.where(self.reader[place] == threads, self.reader[place], _SEVERAL)
        return self.shared[self.block, where]

    def _write(self, where: Words, words: Words, space: Space, mask: Mask, shown: str) -> None:
        if space is Space.GLOBAL:
            self.memory[where[mask]] = words[mask]
        else:
            place = self.block[mask], where[mask]
            threads = np.flatnonzero(mask)
            for known in (self.reader[place], self.writer[place]):
                assert ((known == _NOBODY) | (known == threads)).all(), f"{shown}: no barrier since another was there"
            self.writer[place] = threads
            assert (self.writer[place] == threads).all(), f"{shown}: two threads write one word"
            self.shared[place] = words[mask]


def _compute(op: Opcode, a: Words, b: Words) -> Words:
    match op:
        case Opcode.ADD:
            return a + b
        case Opcode.MUL:
            return a * b
        case Opcode.SUB:
            return a - b
        case Opcode.MIN:
            return np.minimum(a, b)
        case Opcode.MAX:
            return np.maximum(a, b)
        case Opcode.SHL:
            return a << b
        case Opcode.SHR:
            return a >> b
        case Opcode.SHRN:
            return fixedpoint.rdbp(a, b)
    assert op is Opcode.MULH, f"{op.mnemonic} makes no word of two"
    return fixedpoint.srdhm(a, b)


def _holds(relation: Relation, a: Words, b: Words) -> Mask:
    match relation:
        case Relation.EQ:
            return np.equal(a, b)
        case Relation.NE:
            return np.not_equal(a, b)
        case Relation.LT:
            return np.less(a, b)
        case Relation.LE:
            return np.less_equal(a, b)
        case Relation.GT:
            return np.greater(a, b)
    return np.greater_equal(a, b)
