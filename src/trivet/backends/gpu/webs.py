"""A name for each value: a variable that is assigned anew, the old value dead, gets another name for the allocator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from trivet.backends.gpu.flatten import Label, Line, Virtual
from trivet.backends.gpu.ir import Value, Var
from trivet.backends.gpu.liveness import stretches


def renumbered(code: Sequence[Line]) -> list[Line]:
    """The same code, where a value that lives and dies between two labels or jumps has a name of its own.

    What enters or leaves such a stretch keeps its name, so that ways that meet agree on it.
    """
    names = map(Var, (f"web.{i}" for i in itertools.count()))
    done: list[Line] = []
    for stretch in stretches(code):
        done += _stretch(code[stretch.start : stretch.stop], stretch.leaving, names)
    return done


def _stretch(code: Sequence[Line], leaving: frozenset[Var], names: map[Var]) -> list[Line]:
    last = {line.result(): index for index, line in enumerate(code) if isinstance(line, Virtual)}
    now: dict[Var, Var] = {}
    done: list[Line] = []
    for index, line in enumerate(code):
        if not isinstance(line, Virtual):
            done.append(line)
            continue
        result = line.result()
        operands: list[Value | Label] = [now.get(o, o) if isinstance(o, Var) else o for o in line.operands]
        if result is not None:
            stays = last[result] == index and result in leaving
            updates = result in line.reads()  # in place: the old value ends where the new one begins
            now[result] = result if stays else now.get(result, result) if updates else next(names)
            operands[0] = now[result]
        done.append(replace(line, operands=tuple(operands)))
    return done
