"""Values that nothing needs are not computed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trivet.backends.gpu.ir import (
    Barrier,
    Body,
    For,
    If,
    Kernel,
    Statement,
    Store,
    Var,
    assigned,
    bodies_of,
    reads_of,
    result_of,
    walk,
)
from trivet.backends.gpu.ir_rewrite import with_bodies
from trivet.backends.gpu.machine import Machine
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class KernelDce:
    """t = add t, 1, where nothing but itself reads t  -->  (nothing)

    What stays reaches a store, a branch or the control of a loop that has one inside. First by name, so that a value
    that only updates itself goes; then by liveness, so that the last update of a pointer goes.
    """

    name: str = "kernel-dce"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        body = _by_name(kernel.body)
        live: set[Var] = set()
        body = _alive(body, live)
        fired["removed"] += sum(1 for _ in walk(kernel.body)) - sum(1 for _ in walk(body))
        return replace(kernel, body=body)


def _acts(statement: Statement) -> bool:
    """True iff the statement does something other than assigning variables."""
    return any(isinstance(inner, Store | Barrier) for inner in walk((statement,)))


def _by_name(body: Body) -> Body:
    """Without assignments to variables that no acting statement needs, however indirectly."""
    needed: set[Var] = set()
    while True:
        before = len(needed)
        _mark(body, needed)
        if len(needed) == before:
            return _swept(body, needed)


def _mark(body: Body, needed: set[Var]) -> None:
    for statement in reversed(body):
        result = result_of(statement)
        keeps = _acts(statement) or any(var in needed for var in assigned((statement,)))
        if keeps if bodies_of(statement) else result in needed or _acts(statement):
            needed.update(reads_of(statement))
            if isinstance(statement, For):
                needed.add(statement.counter)
        for inner in bodies_of(statement):
            _mark(inner, needed)


def _swept(body: Body, needed: set[Var]) -> Body:
    kept: list[Statement] = []
    for statement in body:
        statement = with_bodies(statement, lambda inner: _swept(inner, needed))
        result = result_of(statement)
        if isinstance(statement, For | If):
            if any(bodies_of(statement)) or (isinstance(statement, For) and result in needed and not _empty(statement)):
                kept.append(statement)
        elif result is None or result in needed:
            kept.append(statement)
    return tuple(kept)


def _empty(loop: For) -> bool:
    """True iff all that a loop does is count."""
    return not loop.body


def _alive(body: Body, live: set[Var]) -> Body:
    """Without assignments that are not read later; `live` holds what is read after the body, then what it reads."""
    kept: list[Statement] = []
    for statement in reversed(body):
        match statement:
            case For():
                kept.append(_loop(statement, live))
            case If():
                then, orelse = set(live), set(live)
                statement = replace(
                    statement, then=_alive(statement.then, then), orelse=_alive(statement.orelse, orelse)
                )
                if not statement.then and not statement.orelse:
                    continue
                live.clear()
                live.update(then, orelse, reads_of(statement))
                kept.append(statement)
            case _:
                result = result_of(statement)
                if result is not None and result not in live:
                    continue
                live.discard(result)
                live.update(reads_of(statement))
                kept.append(statement)
    return tuple(reversed(kept))


def _loop(loop: For, live: set[Var]) -> For:
    """A turn may be followed by another one: what a turn reads is live at its end."""
    around = set(live) | {loop.counter} | set(reads_of(loop))
    while True:
        inside = set(around)
        body = _alive(loop.body, inside)
        if inside <= around:
            break
        around |= inside
    live.update(around)
    if loop.start != loop.counter:
        live.discard(loop.counter)
    live.update(reads_of(loop))
    return replace(loop, body=body)
