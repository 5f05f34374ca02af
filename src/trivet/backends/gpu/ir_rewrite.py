"""Rebuilding statements: operands replaced, results renamed, bodies mapped."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from trivet.backends.gpu.ir import Binary, Body, For, If, Kernel, Load, Set, Statement, Store, Value, Var, variables

Replace = Callable[[Value], Value]


def with_operands(statement: Statement, of: Replace) -> Statement:
    """The statement reading `of(operand)` for each operand; bodies stay."""
    match statement:
        case Set():
            return Set(statement.result, of(statement.value))
        case Binary():
            return Binary(statement.op, statement.result, of(statement.a), of(statement.b))
        case Load():
            return Load(statement.result, of(statement.address), statement.space)
        case Store():
            return Store(of(statement.address), of(statement.value), statement.space)
        case For():
            return replace(statement, start=of(statement.start), stop=of(statement.stop))
        case If():
            return replace(statement, a=of(statement.a), b=of(statement.b))
    return statement


def with_bodies(statement: Statement, of: Callable[[Body], Body]) -> Statement:
    """The statement with `of(body)` for each of its bodies."""
    match statement:
        case For():
            return replace(statement, body=of(statement.body))
        case If():
            return replace(statement, then=of(statement.then), orelse=of(statement.orelse))
    return statement


def with_result(statement: Statement, result: Var) -> Statement:
    """The statement assigning another variable."""
    match statement:
        case Set() | Binary() | Load():
            return replace(statement, result=result)
        case For():
            return replace(statement, counter=result)
    return statement


def renamed(body: Body, names: Mapping[Var, Var]) -> Body:
    """Every occurrence of a variable in `names` replaced, assignments too."""

    def value(operand: Value) -> Value:
        return names.get(operand, operand) if isinstance(operand, Var) else operand

    def one(statement: Statement) -> Statement:
        changed = with_bodies(with_operands(statement, value), lambda inner: renamed(inner, names))
        match changed:
            case Set() | Binary() | Load():
                return with_result(changed, names.get(changed.result, changed.result))
            case For():
                return with_result(changed, names.get(changed.counter, changed.counter))
        return changed

    return tuple(one(statement) for statement in body)


class Names:
    """Variables that a kernel does not use yet."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._taken = {var.name for var in variables(kernel)} if kernel is not None else set()
        self._count: dict[str, itertools.count[int]] = {}

    def fresh(self, stem: str) -> Var:
        """A new variable; its name begins with `stem`, or with what stands before the dot there."""
        stem = stem.partition(".")[0]
        numbers = self._count.setdefault(stem, itertools.count())
        while True:
            number = next(numbers)
            name = stem if number == 0 else f"{stem}.{number}"
            if name not in self._taken:
                self._taken.add(name)
                return Var(name)
