"""Kernel IR as text, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trivet.backends.gpu.ir import (
    BINARY,
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
from trivet.backends.gpu.isa import BY_MNEMONIC
from trivet.core.source import TextSpan
from trivet.errors import InvalidModel


def print_kernel(kernel: Kernel) -> str:
    """The kernel as text that `parse_kernels` reads."""
    shared = f" shared {kernel.shared_words}" if kernel.shared_words else ""
    head = f"kernel {kernel.name} grid {kernel.grid} block {kernel.block}{shared}"
    if kernel.parameters:
        names = ", ".join(map(str, kernel.parameters))
        values = " ".join(f"({', '.join(map(str, launch))})" for launch in kernel.launches)
        head += f" launch ({names}) with {values}"
    lines = [f"{head} {{", *_lines(kernel.body, 1), "}"]
    return "".join(f"{line}\n" for line in lines)


def print_statement(statement: Statement) -> str:
    """The first line of a statement, for messages."""
    return next(iter(_lines((statement,), 0))).rstrip(" {")


def _lines(body: Body, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for statement in body:
        match statement:
            case Set(result, value):
                yield f"{pad}{result} = {value}"
            case Binary(op, result, a, b):
                yield f"{pad}{result} = {op.mnemonic.lower()} {a}, {b}"
            case Load(result, address, space):
                yield f"{pad}{result} = load {space.value}[{address}]"
            case Store(address, value, space):
                yield f"{pad}store {space.value}[{address}] {value}"
            case Barrier():
                yield f"{pad}barrier"
            case For():
                how = " inverted" if statement.inverted else ""
                turns = f"{statement.start} to {statement.stop} step {statement.step} times {statement.trips}{how}"
                yield f"{pad}for {statement.counter} = {turns} {{"
                yield from _lines(statement.body, depth + 1)
                yield f"{pad}}}"
            case If():
                yield f"{pad}if {statement.a} {statement.relation.value} {statement.b} {{"
                yield from _lines(statement.then, depth + 1)
                if statement.orelse:
                    yield f"{pad}}} else {{"
                    yield from _lines(statement.orelse, depth + 1)
                yield f"{pad}}}"


_V = r"-?[\w.$]+"
_KERNEL = re.compile(
    rf"kernel ({_V}) grid (\d+) block (\d+)(?: shared (\d+))?(?: launch \(([^)]*)\) with ((?:\([^)]*\) ?)+))? ?\{{"
)
_BINARY = re.compile(rf"({_V}) = ([a-z]+) ({_V}), ({_V})")
_SET = re.compile(rf"({_V}) = ({_V})")
_LOAD = re.compile(rf"({_V}) = load (shared )?\[({_V})\]")
_STORE = re.compile(rf"store (shared )?\[({_V})\] ({_V})")
_FOR = re.compile(rf"for ({_V}) = ({_V}) to ({_V}) step (-?\d+) times (\d+)( inverted)? \{{")
_IF = re.compile(rf"if ({_V}) (==|!=|<=|>=|<|>) ({_V}) \{{")


def parse_kernels(text: str, name: str = "<text>") -> list[Kernel]:
    """Every kernel of a text.

    Raises: InvalidModel with the line.
    """
    return _Parser(text, name).kernels()


class _Parser:
    """A cursor over lines; blank ones and comments (`//`) are skipped."""

    def __init__(self, text: str, name: str) -> None:
        lines = (line.split("//")[0].strip() for line in text.splitlines())
        self.lines = [(number, line) for number, line in enumerate(lines, 1) if line]
        self.name = name
        self.at = 0

    def kernels(self) -> list[Kernel]:
        found = []
        while self.at < len(self.lines):
            head = _KERNEL.fullmatch(self._take())
            if head is None:
                raise self._error("expected `kernel NAME grid N block N {`")
            body, _ = self._body()
            found.append(self._kernel(head, body))
        return found

    def _kernel(self, head: re.Match[str], body: Body) -> Kernel:
        name, grid, block, shared, names, values = head.groups()
        parameters = tuple(Var(word.strip()) for word in (names or "").split(",") if word.strip())
        launches: tuple[tuple[int, ...], ...] = ((),)
        if values:
            groups = re.findall(r"\(([^)]*)\)", values)
            launches = tuple(tuple(int(word) for word in group.split(",") if word.strip()) for group in groups)
        return Kernel(name, int(grid), int(block), body, int(shared or 0), parameters, launches)

    def _take(self) -> str:
        if self.at >= len(self.lines):
            raise self._error("the text ends inside a kernel")
        self.at += 1
        return self.lines[self.at - 1][1]

    def _error(self, reason: str) -> InvalidModel:
        number, line = self.lines[min(self.at, len(self.lines)) - 1] if self.lines else (1, "")
        span = TextSpan(self.name, number, 1, number, len(line) + 1, (line,))
        return InvalidModel(f"'{line}': {reason}", where=span)

    def _body(self) -> tuple[Body, str]:
        """Statements up to a closing line, and that line."""
        statements: list[Statement] = []
        while (line := self._take()) not in ("}", "} else {"):
            statements.append(self._statement(line))
        return tuple(statements), line

    def _statement(self, line: str) -> Statement:
        if line == "barrier":
            return Barrier()
        if (found := _FOR.fullmatch(line)) is not None:
            counter, start, stop, step, trips, inverted = found.groups()
            body, _ = self._body()
            return For(Var(counter), _value(start), _value(stop), int(step), int(trips), body, inverted is not None)
        if (found := _IF.fullmatch(line)) is not None:
            then, closing = self._body()
            orelse = self._body()[0] if closing == "} else {" else ()
            return If(_value(found[1]), Relation(found[2]), _value(found[3]), then, orelse)
        return self._simple(line)

    def _simple(self, line: str) -> Statement:
        if (found := _STORE.fullmatch(line)) is not None:
            return Store(_value(found[2]), _value(found[3]), _space(found[1]))
        if (found := _LOAD.fullmatch(line)) is not None:
            return Load(Var(found[1]), _value(found[3]), _space(found[2]))
        if (found := _BINARY.fullmatch(line)) is not None:
            op = BY_MNEMONIC.get(found[2].upper())
            if op in BINARY:
                return Binary(op, Var(found[1]), _value(found[3]), _value(found[4]))
            raise self._error(f"{found[2]} is no operation")
        if (found := _SET.fullmatch(line)) is not None:
            return Set(Var(found[1]), _value(found[2]))
        raise self._error("is no statement")


def _space(word: str | None) -> Space:
    return Space.SHARED if word else Space.GLOBAL


def _value(word: str) -> Value:
    return int(word) if re.fullmatch(r"-?\d+", word) else Var(word)
