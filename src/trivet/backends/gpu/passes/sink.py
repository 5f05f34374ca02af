"""Values that come of one other value are computed where they are needed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trivet.backends.gpu.ir import Binary, Body, Kernel, Set, Statement, Var, assigned, reads_of, result_of, walk
from trivet.backends.gpu.ir_rewrite import with_bodies
from trivet.backends.gpu.machine import Machine
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Sink:
    """t = add tid, 4; a = load [u]; b = load [t]  -->  a = load [u]; t = add tid, 4; b = load [t]

    Arithmetic on at most one variable moves down to the first statement that reads the result. No register is lost by
    it, for the operand is kept instead of the result, and one is won where the operand is needed later anyway.
    """

    name: str = "sink"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        body = _body(kernel.body)
        fired["moved"] += body != kernel.body
        return replace(kernel, body=body)


def _body(body: Body) -> Body:
    done: list[Statement] = []
    waiting: list[Set | Binary] = []
    for statement in body:
        statement = with_bodies(statement, _body)
        reads, writes = _touched(statement)
        for other in list(waiting):
            if other.result in reads or other.result in writes or any(var in writes for var in reads_of(other)):
                waiting.remove(other)
                done.append(other)
        if isinstance(statement, Set | Binary) and len(set(reads_of(statement))) <= 1:
            waiting.append(statement)
        else:
            done.append(statement)
    return (*done, *waiting)


def _touched(statement: Statement) -> tuple[set[Var], set[Var]]:
    """What a statement reads and writes, inner statements included."""
    reads = {var for inner in walk((statement,)) for var in reads_of(inner)}
    result = result_of(statement)
    return reads, assigned((statement,)) | ({result} if result is not None else set())
