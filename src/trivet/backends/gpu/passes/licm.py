"""Arithmetic that is the same in every turn of a loop is done before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trivet.backends.gpu.ir import Binary, Body, For, Kernel, Set, Statement, Var, assigned, reads_of, result_of, walk
from trivet.backends.gpu.ir_rewrite import with_bodies
from trivet.backends.gpu.machine import Machine
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Licm:
    """for k { t = mul bid, 8; u = add t, k }  -->  t = mul bid, 8; for k inverted { u = add t, k }

    Only arithmetic whose result is assigned once in the kernel, never loads. What moves is computed although the loop
    may not have come to it, which is right because loops run at least once; so they are tested after each turn instead
    of before.
    """

    name: str = "licm"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        return replace(kernel, body=_body(kernel.body, single_assignments(kernel.body), fired))


def single_assignments(body: Body) -> set[Var]:
    """Variables that one statement assigns."""
    times = Counter(result for statement in walk(body) if (result := result_of(statement)) is not None)
    return {var for var, count in times.items() if count == 1}


def _body(body: Body, once: set[Var], fired: Counter[str]) -> Body:
    done: list[Statement] = []
    for statement in body:
        statement = with_bodies(statement, lambda inner: _body(inner, once, fired))
        if isinstance(statement, For):
            hoisted, statement = _hoist(statement, once)
            fired["hoisted"] += len(hoisted)
            done += hoisted
        done.append(statement)
    return tuple(done)


def _hoist(loop: For, once: set[Var]) -> tuple[list[Statement], For]:
    inside = assigned(loop.body) | {loop.counter}
    hoisted: list[Statement] = []
    kept: list[Statement] = []
    for statement in loop.body:
        movable = isinstance(statement, Set | Binary) and statement.result in once
        if movable and not any(var in inside for var in reads_of(statement)):
            hoisted.append(statement)
            inside.discard(result_of(statement))
        else:
            kept.append(statement)
    return hoisted, replace(loop, body=tuple(kept), inverted=True)
