"""Products with nothing but zeros are not made."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from trivet.backends.tpu.ir import EPILOGUE, FIRST, LOAD, ROW, ROWS, TILE, ArrayLayer, Ints, K, Load, Program, Relu
from trivet.backends.tpu.memory import Memory
from trivet.backends.tpu.passes.base import TilePass, set_loads, with_passes
from trivet.core.record import dataclass

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SkipZeroPasses(TilePass):
    """pass(a, b) with a constant window a or tile b of zeros  -->  nothing.

    Its accumulation goes with it. An epilogue that it carried moves to the accumulation kept last for the same results;
    where none is kept, it runs alone on zeros; and if it is no more than a relu it disappears, for the memory of the
    results is cleared at the start. MACs that are not made no longer count as useful.
    """

    name: ClassVar[str] = "skip-zero-passes"

    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        tables: dict[int, Ints] = {}
        macs: dict[int, int] = {}
        cleared: set[int] = set()
        for index, layer in enumerate(program.layers):
            if not isinstance(layer, ArrayLayer):
                continue
            zero = _zero_passes(program, layer)
            if zero.any():
                vanishes = all(isinstance(step, Relu) for step in layer.epilogue)
                tables[index], emptied = _without(layer.passes, zero, vanishes, fired)
                if vanishes and emptied:
                    cleared.add(layer.target.buffer)
                macs[index] = layer.macs * int(layer.passes[~zero, ROWS].sum()) // int(layer.passes[:, ROWS].sum())
        if not tables:
            return None
        changed = with_passes(program, tables, macs)
        changed.buffers = [
            replace(buffer, cleared=buffer.cleared or index in cleared) for index, buffer in enumerate(program.buffers)
        ]
        return changed


def _zero_passes(program: Program, layer: ArrayLayer) -> Mask:
    """Which passes multiply by a tile, or a constant window, of zeros."""
    table = layer.passes
    streams = table[:, K] >= 0
    zero: Mask = np.zeros(len(table), np.bool_)
    if layer.b is None:
        is_zero = (program.tiles == 0).reshape(len(program.tiles), -1).all(axis=1)
        zero[streams] = is_zero[table[streams, TILE]]
    if layer.a.buffer in program.constants:
        size = program.machine.array
        a = Memory(program).gather(layer.a, slice(None), slice(None))
        windows = ((a[s[ROW] : s[ROW] + s[ROWS], s[K] : s[K] + size]) for s in table.tolist())
        zero |= streams & np.array([not window.any() for window in windows])
    return zero


def _without(table: Ints, zero: Mask, vanishes: bool, fired: Counter[str]) -> tuple[Ints, bool]:
    """The passes that are left, and whether some results lost all of theirs.

    The passes of one tile of results stand together: the first one sets, the last one has the epilogue.
    """
    group = np.cumsum(table[:, FIRST]) - 1
    kept = ~zero
    count = np.bincount(group, kept, minlength=int(group[-1]) + 1)
    last_of_group = np.append(group[1:] != group[:-1], True)
    carried = (table[:, EPILOGUE] == 1) & zero
    fired["epilogue moved"] += int((carried & (count[group] > 0)).sum())
    empty = last_of_group & (count[group] == 0)
    fired["epilogue gone" if vanishes else "epilogue alone"] += int(empty.sum())
    fired["passes skipped"] += int(zero.sum())
    result = table.copy()
    result[empty, K], result[empty, TILE] = -1, -1
    result[empty, LOAD], result[empty, FIRST], result[empty, EPILOGUE] = int(Load.NONE), 1, 1
    chosen = kept if vanishes else kept | empty
    result, group = result[chosen], group[chosen]
    if len(result):
        result[:, FIRST] = np.append(True, group[1:] != group[:-1])
        result[:, EPILOGUE] = np.append(group[1:] != group[:-1], True)
        set_loads(result)
    return result, bool(empty.any())
