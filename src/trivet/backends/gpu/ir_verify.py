"""Rules of Kernel IR."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.backends.gpu.ir import (
    GID,
    SPECIAL,
    TID,
    Barrier,
    Body,
    For,
    If,
    Kernel,
    Load,
    Statement,
    Value,
    Var,
    assigned,
    bodies_of,
    operands_of,
    reads_of,
    result_of,
    walk,
)
from trivet.backends.gpu.ir_text import print_statement
from trivet.backends.gpu.isa import WORD


def violations(kernel: Kernel) -> Iterator[str]:
    """A sentence for each rule that a kernel breaks."""
    for rule in (_sizes, _immediates, _loops, _assigned_before, _specials, _barriers):
        for sentence in rule(kernel):
            yield f"{kernel.name}: {sentence}"


def _sizes(kernel: Kernel) -> Iterator[str]:
    if kernel.grid < 1 or kernel.block < 1 or kernel.shared_words < 0 or not kernel.launches:
        yield f"grid {kernel.grid}, block {kernel.block}, {len(kernel.launches)} launches"
    for launch in kernel.launches:
        if len(launch) != len(kernel.parameters):
            yield f"{len(kernel.parameters)} parameters, a launch gives {launch}"


def _immediates(kernel: Kernel) -> Iterator[str]:
    for statement in walk(kernel.body):
        for operand in operands_of(statement):
            if isinstance(operand, int) and not WORD.lo <= operand <= WORD.hi:
                yield f"{print_statement(statement)}: {operand} does not fit 32 bits"


def _loops(kernel: Kernel) -> Iterator[str]:
    for loop in walk(kernel.body):
        if not isinstance(loop, For):
            continue
        shown = print_statement(loop)
        if loop.trips < 1 or loop.step == 0:
            yield f"{shown}: a loop runs at least once, by a step that is not 0"
        ends = (loop.start, loop.stop)
        if all(isinstance(end, int) for end in ends) and loop.start + loop.trips * loop.step != loop.stop:  # type: ignore[operator]
            yield f"{shown}: it does not end after {loop.trips} turns"
        inside = assigned(loop.body)
        if loop.counter in inside or loop.counter == loop.stop or loop.stop in inside:
            yield f"{shown}: its counter or its end is assigned inside it"


def _specials(kernel: Kernel) -> Iterator[str]:
    for var in assigned(kernel.body) & (set(SPECIAL) | set(kernel.parameters)):
        yield f"{var} is assigned"


def _assigned_before(kernel: Kernel) -> Iterator[str]:
    yield from _unassigned(kernel.body, set(SPECIAL) | set(kernel.parameters))


def _unassigned(body: Body, known: set[Var]) -> Iterator[str]:
    """Adds what the body assigns on every path to `known`."""
    for statement in body:
        for var in reads_of(statement):
            if var not in known:
                yield f"{print_statement(statement)}: {var} may not be assigned yet"
        match statement:
            case For():
                known.add(statement.counter)
                yield from _unassigned(statement.body, known)
            case If():
                then, orelse = set(known), set(known)
                yield from _unassigned(statement.then, then)
                yield from _unassigned(statement.orelse, orelse)
                known |= then & orelse
            case _:
                result = result_of(statement)
                if result is not None:
                    known.add(result)


def _barriers(kernel: Kernel) -> Iterator[str]:
    varying = thread_dependent(kernel)
    for statement in walk(kernel.body):
        parts = isinstance(statement, If) and any(var in varying for var in reads_of(statement))
        if parts and any(isinstance(inner, Barrier) for body in bodies_of(statement) for inner in walk(body)):
            yield f"{print_statement(statement)}: a barrier where threads of a block may part"


def thread_dependent(kernel: Kernel) -> set[Var]:
    """Variables that may differ between the threads of one block: what comes from thread ids or from memory."""
    varying = {TID, GID} if kernel.block > 1 else set()
    while True:
        before = len(varying)
        _spread(kernel.body, varying, False)
        if len(varying) == before:
            return varying


def _spread(body: Body, varying: set[Var], parted: bool) -> None:
    for statement in body:
        differs = parted or isinstance(statement, Load) or _reads_varying(statement, varying)
        result = result_of(statement)
        if result is not None and differs:
            varying.add(result)
        for inner in bodies_of(statement):
            _spread(inner, varying, parted or _reads_varying(statement, varying))


def _reads_varying(statement: Statement, varying: set[Var]) -> bool:
    values: tuple[Value, ...] = operands_of(statement)
    return any(value in varying for value in values)
