"""Several blocks' work in one block: what does not depend on the block is done once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from trivet.backends.gpu.ir import (
    BID,
    GID,
    Barrier,
    Binary,
    Body,
    For,
    If,
    Kernel,
    Load,
    Set,
    Space,
    Statement,
    Store,
    Value,
    Var,
    bodies_of,
    reads_of,
    result_of,
    walk,
)
from trivet.backends.gpu.ir_rewrite import Names, renamed, with_operands
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.passes.licm import single_assignments
from trivet.backends.gpu.passes.strength_reduce import slope_of


def of_several_blocks(kernel: Kernel, count: int) -> Kernel | None:
    """A kernel whose blocks do what `count` neighbouring blocks did; None where that is not possible.

    Statements that depend on the block are written once for each of them, side by side, so that loops are joined.
    Right because blocks do not read what the kernel writes.
    """
    if kernel.grid % count or not _is_simple(kernel):
        return None
    merger = _Merger(kernel, count)
    rows = merger.copies[BID] = [merger.names.fresh("row") for _ in range(count)]
    body = (Binary(Opcode.MUL, rows[0], BID, count), *_apart(rows, 1), *merger.body(kernel.body))
    return replace(kernel, grid=kernel.grid // count, body=body)


def _is_simple(kernel: Kernel) -> bool:
    """True iff nothing is shared yet and no thread asks for its global number."""
    for statement in walk(kernel.body):
        if isinstance(statement, Barrier) or GID in reads_of(statement):
            return False
        if isinstance(statement, Load | Store) and statement.space is Space.SHARED:
            return False
    return True


class _Merger:
    """Writes statements for all rows; `copies` maps a variable that depends on the block to its names."""

    def __init__(self, kernel: Kernel, count: int) -> None:
        self.names = Names(kernel)
        self.count = count
        self.dependent = _dependent(kernel)
        self.copies: dict[Var, list[Var]] = {}
        self.once = single_assignments(kernel.body)
        self.slopes: dict[Var, int] = {BID: 1}
        """By how much a variable's copies differ from one row to the next, where that is a constant."""

    def body(self, body: Body) -> Body:
        """Statements that depend on the block wait, so that a row's work stands together; the others go ahead."""
        done: list[Statement] = []
        waiting: list[Statement] = []
        for statement in body:
            if isinstance(statement, Store) or (_is_plain(statement) and result_of(statement) in self.dependent):
                waiting.append(statement)
                continue
            if not _is_plain(statement) or any(result_of(statement) in reads_of(other) for other in waiting):
                done += self._rows(waiting)
                waiting = []
            done += [statement] if _is_plain(statement) else self._control(statement)
        return (*done, *self._rows(waiting))

    def _rows(self, waiting: Sequence[Statement]) -> list[Statement]:
        """Plain statements for one row after the other."""
        times = Counter(map(result_of, waiting))
        slopes = [self._slope(statement) if times[result_of(statement)] == 1 else None for statement in waiting]
        done: list[Statement] = []
        for row in range(self.count):
            for statement, slope in zip(waiting, slopes, strict=True):
                result = result_of(statement)
                if row and slope is not None and result is not None:
                    first = self._name(result, 0)
                    done.append(Binary(Opcode.ADD, self._name(result, row), first, row * slope))
                else:
                    done.append(self._simple(statement, row))
        return done

    def _control(self, statement: Statement) -> list[Statement]:
        match statement:
            case For():
                return self._loop(statement)
            case If() if not any(var in self.dependent for var in reads_of(statement)):
                return [replace(statement, then=self.body(statement.then), orelse=self.body(statement.orelse))]
        return [self._simple(statement, row) for row in range(self.count)]

    def _slope(self, statement: Statement) -> int | None:
        """By how much the result grows from row to row, None if it does not do so evenly."""
        if not isinstance(statement, Binary) or statement.result not in self.dependent:
            return None
        slope = slope_of(statement, self._slope_of_operand)
        if slope is not None and statement.result in self.once:
            self.slopes[statement.result] = slope
        return slope

    def _slope_of_operand(self, operand: Value) -> int | None:
        if isinstance(operand, Var) and operand in self.dependent:
            return self.slopes.get(operand)
        return 0

    def _row(self, statement: Statement, row: int) -> dict[Var, Var]:
        """What the variables inside a statement are called for one row."""
        inside = {v for s in walk((statement,)) for v in (*reads_of(s), result_of(s)) if v in self.dependent}
        return {var: self._name(var, row) for var in inside if var is not None}

    def _name(self, var: Var, row: int) -> Var:
        if var not in self.copies:
            self.copies[var] = [self.names.fresh(var.name) for _ in range(self.count)]
        return self.copies[var][row]

    def _value(self, value: Value, row: int) -> Value:
        return self._name(value, row) if isinstance(value, Var) and value in self.dependent else value

    def _simple(self, statement: Statement, row: int) -> Statement:
        return renamed((statement,), self._row(statement, row))[0]

    def _loop(self, loop: For) -> list[Statement]:
        """One loop for all rows: the first row's counter counts, the others' are moved on at its end."""
        if loop.counter not in self.dependent:
            return [replace(loop, body=self.body(loop.body))]
        before: list[Statement] = []
        after: list[Statement] = []
        for row in range(1, self.count):
            counter, start = self._name(loop.counter, row), self._value(loop.start, row)
            if start != counter:
                before.append(Set(counter, start))
            after.append(Binary(Opcode.ADD, counter, counter, loop.step))
        whole = with_operands(loop, lambda value: self._value(value, 0))
        assert isinstance(whole, For)
        body = (*self.body(loop.body), *after)
        return [*before, replace(whole, counter=self._name(loop.counter, 0), body=body)]


def _is_plain(statement: Statement) -> bool:
    return isinstance(statement, Set | Binary | Load | Store)


def _apart(names: Sequence[Var], slope: int) -> list[Statement]:
    """Copies of a variable from that of the first row."""
    return [Binary(Opcode.ADD, name, names[0], row * slope) for row, name in enumerate(names) if row]


def _dependent(kernel: Kernel) -> set[Var]:
    """Variables that depend on the block."""
    found = {BID}
    while True:
        before = len(found)
        _spread(kernel.body, found, False)
        if len(found) == before:
            return found


def _spread(body: Body, found: set[Var], parted: bool) -> None:
    for statement in body:
        depends = parted or any(var in found for var in reads_of(statement))
        result = result_of(statement)
        if result is not None and depends:
            found.add(result)
        inside = isinstance(statement, If) and depends
        for inner in bodies_of(statement):
            _spread(inner, found, inside)
