"""Kernel IR: one structured program for each operator, executed by every thread of a grid.

Variables hold 32-bit words of one thread and may be assigned several times. `bid`, `tid` and `gid` are block, thread in
block and global thread; a kernel never assigns them. Loops run a fixed number of times, at least once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from trivet.backends.gpu.isa import Opcode
from trivet.core.record import dataclass


class Var(str):
    """A word of the thread: its name, so that maps of variables are as quick as those of strings."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)


Value: TypeAlias = Var | int

BID, TID, GID = Var("bid"), Var("tid"), Var("gid")
SPECIAL = (BID, TID, GID)

BINARY = (
    Opcode.ADD,
    Opcode.MUL,
    Opcode.SUB,
    Opcode.MIN,
    Opcode.MAX,
    Opcode.SHL,
    Opcode.SHR,
    Opcode.SHRN,
    Opcode.MULH,
)
"""What makes one word of two."""


class Space(Enum):
    """Which memory: all threads', or the block's."""

    GLOBAL = ""
    SHARED = "shared "


class Relation(Enum):
    """How two words compare."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Set:
    """result = value"""

    result: Var
    value: Value


@dataclass(frozen=True, slots=True)
class Binary:
    """result = op(a, b), exact: a result outside 32 bits is a fault"""

    op: Opcode
    result: Var
    a: Value
    b: Value


@dataclass(frozen=True, slots=True)
class Load:
    """result = memory[address]"""

    result: Var
    address: Value
    space: Space = Space.GLOBAL


@dataclass(frozen=True, slots=True)
class Store:
    """memory[address] = value"""

    address: Value
    value: Value
    space: Space = Space.GLOBAL


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block wait for each other."""


@dataclass(frozen=True, slots=True)
class For:
    """`trips` times: counter = start, start + step, ...; `stop` = start + trips * step.

    The test against `stop` comes before each turn, or only after it where the loop is `inverted`.
    """

    counter: Var
    start: Value
    stop: Value
    step: int
    trips: int
    body: Body
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """`then` where the relation holds, `orelse` where it does not"""

    a: Value
    relation: Relation
    b: Value
    then: Body
    orelse: Body = ()


Statement: TypeAlias = Set | Binary | Load | Store | Barrier | For | If
Body: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """What all threads execute, on `grid` blocks of `block` threads, once for each tuple of `launches`.

    `parameters` are variables that a launch gives values to: `launches` holds one for each of them.
    """

    name: str
    grid: int
    block: int
    body: Body
    shared_words: int = 0
    parameters: tuple[Var, ...] = ()
    launches: tuple[tuple[int, ...], ...] = field(default=((),))

    @property
    def threads(self) -> int:
        return self.grid * self.block


def result_of(statement: Statement) -> Var | None:
    """What a simple statement assigns; a loop assigns its counter."""
    match statement:
        case Set() | Binary() | Load():
            return statement.result
        case For():
            return statement.counter
    return None


def operands_of(statement: Statement) -> tuple[Value, ...]:
    """What a statement itself reads, bodies left out."""
    match statement:
        case Set():
            return (statement.value,)
        case Binary() | If():
            return (statement.a, statement.b)
        case Load():
            return (statement.address,)
        case Store():
            return (statement.address, statement.value)
        case For():
            return (statement.start, statement.stop)
    return ()


def reads_of(statement: Statement) -> tuple[Var, ...]:
    """The variables among its operands."""
    return tuple(operand for operand in operands_of(statement) if isinstance(operand, Var))


def bodies_of(statement: Statement) -> tuple[Body, ...]:
    """The statements inside a statement."""
    match statement:
        case For():
            return (statement.body,)
        case If():
            return (statement.then, statement.orelse)
    return ()


def walk(body: Body) -> Iterator[Statement]:
    """Every statement, outer ones before inner ones, in the order of the text."""
    for statement in body:
        yield statement
        for inner in bodies_of(statement):
            yield from walk(inner)


def assigned(body: Body) -> set[Var]:
    """Every variable that a body assigns."""
    return {result for statement in walk(body) if (result := result_of(statement)) is not None}


def variables(kernel: Kernel) -> set[Var]:
    """Every variable that occurs, specials and parameters too."""
    found = assigned(kernel.body) | set(kernel.parameters) | set(SPECIAL)
    for statement in walk(kernel.body):
        found.update(reads_of(statement))
    return found
