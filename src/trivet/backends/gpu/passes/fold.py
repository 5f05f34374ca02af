"""What is known while compiling is not computed again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeAlias

from trivet.backends.gpu.ir import (
    BID,
    GID,
    TID,
    Binary,
    Body,
    For,
    If,
    Kernel,
    Relation,
    Set,
    Statement,
    Value,
    Var,
    assigned,
    reads_of,
    result_of,
    walk,
)
from trivet.backends.gpu.ir_rewrite import with_operands, with_result
from trivet.backends.gpu.isa import WORD, Opcode
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.passes.licm import single_assignments
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class _Sum:
    """base + offset"""

    base: Var
    offset: int


@dataclass(frozen=True, slots=True)
class _Product:
    """base * factor"""

    base: Var
    factor: int


Known: TypeAlias = int | _Sum | _Product
"""What is known of a variable."""

Facts: TypeAlias = dict[Var, Known]


@dataclass(frozen=True, slots=True)
class Fold:
    """t = mul 2, 8; u = add t, tid; v = add u, 4; w = v  -->  v = add tid, 20

    Constants, sums of a variable and constants, copies; bid * block + tid is gid. Results that are only copied go to
    where they are copied to.
    """

    name: str = "fold"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        body = kernel.body
        for _ in range(4):
            folder = _Folder(kernel, body, fired)
            folded = _joined_copies(folder.body(body, _given(kernel)), fired)
            if folded == body:
                break
            body = folded
        return replace(kernel, body=body)


def _given(kernel: Kernel) -> Facts:
    """What the grid says of the ids."""
    facts: Facts = {}
    if kernel.grid == 1:
        facts[BID] = 0
        facts[GID] = _Sum(TID, 0)
    if kernel.block == 1:
        facts[TID] = 0
        facts[GID] = _Sum(BID, 0) if kernel.grid > 1 else 0
    return facts


class _Folder:
    """One walk over a kernel, in the order of execution."""

    def __init__(self, kernel: Kernel, body: Body, fired: Counter[str]) -> None:
        self.kernel = kernel
        self.fired = fired
        self.seen: Counter[Var] = Counter()
        """How many of the `reads` the walk has come past."""
        self.counters: set[Var] = set()
        """Of the loops around, which are needed to the loops' ends."""
        self.reads = Counter(var for statement in walk(body) for var in reads_of(statement))

    def body(self, body: Body, facts: Facts) -> Body:
        """The body, given facts, which are brought up to its end."""
        done: list[Statement] = []
        for statement in body:
            self.seen.update(reads_of(statement))
            statement = with_operands(statement, lambda value: _resolved(value, facts))
            match statement:
                case For():
                    done.append(self._loop(statement, facts))
                case If():
                    done += self._branch(statement, facts)
                case Binary():
                    done.append(self._binary(statement, facts))
                case _:
                    done.append(statement)
                    _learn(statement, facts)
        return tuple(done)

    def _loop(self, loop: For, facts: Facts) -> For:
        _forget(assigned(loop.body) | {loop.counter}, facts)
        self.counters.add(loop.counter)
        body = self.body(loop.body, dict(facts))
        self.counters.discard(loop.counter)
        return replace(loop, body=body)

    def _branch(self, branch: If, facts: Facts) -> list[Statement]:
        if isinstance(branch.a, int) and isinstance(branch.b, int):
            self.fired["branch"] += 1
            taken = branch.then if _holds(branch.relation, branch.a, branch.b) else branch.orelse
            return list(self.body(taken, facts))
        then, orelse = self.body(branch.then, dict(facts)), self.body(branch.orelse, dict(facts))
        _forget(assigned(branch.then) | assigned(branch.orelse), facts)
        return [replace(branch, then=then, orelse=orelse)]

    def _binary(self, statement: Binary, facts: Facts) -> Statement:
        known = self._value(statement, facts)
        simpler: Statement = statement
        if isinstance(known, int):
            simpler = Set(statement.result, known)
        elif isinstance(known, _Sum) and known.offset == 0:
            simpler = Set(statement.result, known.base)
        elif isinstance(known, _Sum) and self._shortens(statement, known, facts):
            simpler = Binary(Opcode.ADD, statement.result, known.base, known.offset)
        elif isinstance(known, _Product) and known.base not in (statement.a, statement.b):
            simpler = Binary(Opcode.MUL, statement.result, known.base, known.factor)
        self.fired["folded"] += simpler != statement
        _forget({statement.result}, facts)
        if known is not None and (isinstance(known, int) or known.base != statement.result):
            facts[statement.result] = known
        return simpler

    def _shortens(self, statement: Binary, known: _Sum, facts: Facts) -> bool:
        """A chain of sums is cut short where nothing else needs its link, or where the base lives on anyway.

        Else the base would be kept only for that.
        """
        link = statement.a if isinstance(statement.a, Var) else statement.b
        if not isinstance(link, Var) or link == known.base:
            return False
        lives_on = known.base in self.counters or self.seen[known.base] < self.reads[known.base]
        return lives_on or (self.reads[link] == 1 and link != statement.result)

    def _value(self, statement: Binary, facts: Facts) -> Known | None:
        a, b = statement.a, statement.b
        if isinstance(a, int) and isinstance(b, int):
            return _computed(statement.op, a, b)
        if isinstance(a, int) and statement.op in (Opcode.ADD, Opcode.MUL):
            a, b = b, a
        match statement.op:
            case Opcode.ADD if isinstance(a, Var) and isinstance(b, int):
                base = facts.get(a)
                if isinstance(base, _Sum) and base.offset + b in WORD:
                    return _Sum(base.base, base.offset + b)
                return _Sum(a, b)
            case Opcode.ADD:
                return self._is_gid(a, b, facts) or self._is_gid(b, a, facts)
            case Opcode.SUB if isinstance(a, Var) and isinstance(b, int):
                return _Sum(a, -b) if b != WORD.lo else None
            case Opcode.MUL if isinstance(a, Var) and isinstance(b, int):
                product = facts.get(a)
                if isinstance(product, _Product) and self.reads[a] == 1 and product.factor * b in WORD:
                    return _Product(product.base, product.factor * b)
                return 0 if b == 0 else _Sum(a, 0) if b == 1 else _Product(a, b)
        return None

    def _is_gid(self, product: Value, thread: Value, facts: Facts) -> _Sum | None:
        same = isinstance(product, Var) and facts.get(product) == _Product(BID, self.kernel.block)
        return _Sum(GID, 0) if same and thread == TID else None


def _resolved(value: Value, facts: Facts) -> Value:
    """A constant or an older variable that holds the same."""
    known = facts.get(value) if isinstance(value, Var) else None
    match known:
        case int():
            return known
        case _Sum(base, 0):
            return base
    return value


def _learn(statement: Statement, facts: Facts) -> None:
    result = result_of(statement)
    if result is None:
        return
    _forget({result}, facts)
    if isinstance(statement, Set) and statement.value != result:
        value = statement.value
        facts[result] = value if isinstance(value, int) else _Sum(value, 0)


def _forget(changed: set[Var], facts: Facts) -> None:
    """Variables get other values: what is known of them, and in terms of them, is known no longer."""
    for var, known in list(facts.items()):
        if var in changed or (not isinstance(known, int) and known.base in changed):
            del facts[var]


def _computed(op: Opcode, a: int, b: int) -> int | None:
    """What an instruction gives, None where it faults."""
    match op:
        case Opcode.ADD:
            value = a + b
        case Opcode.MUL:
            value = a * b
        case Opcode.SUB:
            value = a - b
        case Opcode.MIN:
            value = min(a, b)
        case Opcode.MAX:
            value = max(a, b)
        case _:
            return None
    return value if WORD.lo <= value <= WORD.hi else None


def _holds(relation: Relation, a: int, b: int) -> bool:
    match relation:
        case Relation.EQ:
            return a == b
        case Relation.NE:
            return a != b
        case Relation.LT:
            return a < b
        case Relation.LE:
            return a <= b
        case Relation.GT:
            return a > b
    return a >= b


def _joined_copies(body: Body, fired: Counter[str]) -> Body:
    """x = op ...; v = x, and nothing else reads x  -->  v = op ..."""
    once = single_assignments(body)
    reads = Counter(var for statement in walk(body) for var in reads_of(statement))
    return _join(body, {var for var in once if reads[var] == 1}, fired)


def _join(body: Body, private: set[Var], fired: Counter[str]) -> Body:
    done: list[Statement] = []
    for statement in body:
        match statement:
            case For():
                statement = replace(statement, body=_join(statement.body, private, fired))
            case If():
                then, orelse = (_join(inner, private, fired) for inner in (statement.then, statement.orelse))
                statement = replace(statement, then=then, orelse=orelse)
            case Set(result, Var() as source) if source in private:
                maker = _maker(done, source, result)
                if maker is not None:
                    done[maker] = with_result(done[maker], result)
                    fired["copy"] += 1
                    continue
        done.append(statement)
    return tuple(done)


def _maker(done: list[Statement], source: Var, result: Var) -> int | None:
    """The statement that makes `source`, if `result` is neither read nor assigned since."""
    for index in range(len(done) - 1, -1, -1):
        statement = done[index]
        if result_of(statement) == source:
            return index if not isinstance(statement, For) else None
        touched = {var for inner in walk((statement,)) for var in (*reads_of(inner), result_of(inner))}
        if result in touched:
            return None
    return None
