"""Writes Kernel IR: one statement a call, nothing simplified."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from trivet.backends.gpu.ir import (
    Binary,
    Body,
    For,
    If,
    Load,
    Relation,
    Set,
    Space,
    Statement,
    Store,
    Value,
    Var,
)
from trivet.backends.gpu.ir_rewrite import Names
from trivet.backends.gpu.isa import Opcode


class Builder:
    """A body under construction; `loop` and `when` open a place inside a statement."""

    def __init__(self) -> None:
        self.names = Names()
        for special in ("bid", "tid", "gid"):
            self.names.fresh(special)
        self._open: list[list[Statement]] = [[]]

    def body(self) -> Body:
        """All of it."""
        assert len(self._open) == 1, "a loop or a branch is still open"
        return tuple(self._open[0])

    def emit(self, statement: Statement) -> None:
        self._open[-1].append(statement)

    def binary(self, op: Opcode, a: Value, b: Value, stem: str = "t") -> Var:
        result = self.names.fresh(stem)
        self.emit(Binary(op, result, a, b))
        return result

    def add(self, a: Value, b: Value, stem: str = "t") -> Var:
        return self.binary(Opcode.ADD, a, b, stem)

    def mul(self, a: Value, b: Value, stem: str = "t") -> Var:
        return self.binary(Opcode.MUL, a, b, stem)

    def set(self, value: Value, stem: str) -> Var:
        """A new variable that starts with a value."""
        result = self.names.fresh(stem)
        self.emit(Set(result, value))
        return result

    def assign(self, result: Var, value: Value) -> None:
        self.emit(Set(result, value))

    def update(self, op: Opcode, result: Var, b: Value) -> None:
        """result = op(result, b)"""
        self.emit(Binary(op, result, result, b))

    def load(self, address: Value, stem: str, space: Space = Space.GLOBAL) -> Var:
        result = self.names.fresh(stem)
        self.emit(Load(result, address, space))
        return result

    def store(self, address: Value, value: Value, space: Space = Space.GLOBAL) -> None:
        self.emit(Store(address, value, space))

    @contextlib.contextmanager
    def loop(self, trips: int, stem: str = "k") -> Iterator[Var]:
        """The statements inside run with the counter at 0, 1, ... trips - 1."""
        counter = self.names.fresh(stem)
        self._open.append([])
        yield counter
        body = tuple(self._open.pop())
        self.emit(For(counter, 0, trips, 1, trips, body))

    @contextlib.contextmanager
    def when(self, a: Value, relation: Relation, b: Value) -> Iterator[None]:
        """The statements inside run where the relation holds."""
        self._open.append([])
        yield
        body = tuple(self._open.pop())
        self.emit(If(a, relation, b, body))
