"""A weight tile stays in the array for as many rows as the accumulators hold."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from trivet.backends.tpu.ir import (
    ACC,
    EPILOGUE,
    FIRST,
    LOAD,
    PASS_FIELDS,
    ROW,
    ROWS,
    TILE,
    ArrayLayer,
    Ints,
    K,
    Load,
    N,
    Program,
)
from trivet.backends.tpu.passes.base import TilePass, set_loads, with_passes
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class ReuseWeights(TilePass):
    """for window: for column: for tile: pass  -->  for column: for block of windows: for tile: pass.

    A block is as many rows as there are accumulators. Every other block takes its tiles in reverse, so that the tile
    at the turn stays; with one tile a column, it stays for all blocks.
    """

    name: ClassVar[str] = "reuse-weights"

    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        tables: dict[int, Ints] = {}
        for index, layer in enumerate(program.layers):
            if not isinstance(layer, ArrayLayer) or not len(layer.passes):
                continue
            runs = _runs(layer.passes)
            if runs is None:
                continue
            table = _ordered(runs, int(layer.passes[:, ROWS].max()), layer.a.rows, program.machine.accumulator_rows)
            if len(table) < len(layer.passes) or _loads(table) < _loads(layer.passes):
                fired["loads saved"] += _loads(layer.passes) - _loads(table)
                tables[index] = table
        return with_passes(program, tables) if tables else None


def _loads(table: Ints) -> int:
    return int((table[:, LOAD] != Load.NONE).sum())


def _runs(table: Ints) -> list[Ints] | None:
    """The passes of one window, by column block; None where windows differ in more than their rows."""
    windows = np.flatnonzero(np.append(True, table[1:, ROW] != table[:-1, ROW]))
    count = len(table) // len(windows)
    if len(table) % len(windows) or not np.array_equal(windows, np.arange(len(windows)) * count):
        return None
    same = [K, TILE, N, FIRST, EPILOGUE]
    each = table.reshape(len(windows), count, -1)[:, :, same]
    if not np.all(each == each[:1]):
        return None
    return np.split(table[:count], np.flatnonzero(table[:count, FIRST])[1:])


def _ordered(runs: list[Ints], window: int, rows: int, accumulators: int) -> Ints:
    """Passes over blocks of rows, equal as far as they can be."""
    blocks = -(-rows // max(accumulators, window))
    size = -(-rows // blocks)
    parts = []
    for run in runs:
        for number, row in enumerate(range(0, rows, size)):
            part = (run[::-1] if number % 2 else run).copy()
            part[:, ROW], part[:, ROWS], part[:, ACC] = row, min(size, rows - row), 0
            part[:, FIRST], part[:, EPILOGUE] = 0, 0
            part[0, FIRST], part[-1, EPILOGUE] = 1, 1
            parts.append(part)
    table = np.concatenate(parts) if parts else np.zeros((0, len(PASS_FIELDS)), np.int64)
    table[:, 0] = np.arange(len(table))
    set_loads(table)
    return table
