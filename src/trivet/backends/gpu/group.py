"""Threads that stand at the same instruction: they are executed together until they part, and join when they meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.backends.gpu.isa import BLOCK_ID, GLOBAL_ID, THREAD_ID
from trivet.backends.gpu.lanes import Array, Lane, Mask, Vec, raw
from trivet.backends.gpu.machine import CycleModel
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """How many threads a group has, and how many rows of lanes they touch on each core."""

    threads: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks and threads of a launch, and which row of lanes each thread stands in."""

    blocks: int
    block: int
    model: CycleModel

    @property
    def threads(self) -> int:
        return self.blocks * self.block

    def shape(self, threads: Array) -> Shape:
        """Rows are counted once, however many threads of a row are in the group."""
        block = threads // self.block
        rows = block * self.model.rows(self.block) + (threads % self.block) // self.model.lanes
        _, first = np.unique(rows, return_index=True)
        cores = np.bincount(block[first] % self.model.cores, minlength=self.model.cores)
        return Shape(threads.size, tuple(cores.tolist()))


class Group:
    """`pc`, the threads in ascending order, and for each register what they hold. `flags` is a - b of the last CMP.

    `steps` counts the instructions of its longest thread.
    """

    __slots__ = ("flags", "grid", "pc", "regs", "shape", "shared_base", "steps", "threads")

    def __init__(
        self, grid: Grid, pc: int, threads: Array, regs: list[Lane], flags: Lane, steps: int, shared_words: int
    ) -> None:
        self.grid = grid
        self.pc = pc
        self.threads = threads
        self.regs = regs
        self.flags = flags
        self.steps = steps
        self.shape = grid.shape(threads)
        one_block = threads[0] // grid.block == threads[-1] // grid.block
        base = threads // grid.block * shared_words
        self.shared_base: int | Array = int(base[0]) if one_block else base


def start(grid: Grid, registers: int, arguments: Sequence[int], shared_words: int) -> Group:
    """All threads of a launch at the first instruction: ids in their registers, then arguments in R0 and up."""
    threads = np.arange(grid.threads, dtype=np.int64)
    regs: list[Lane] = [0] * registers
    regs[BLOCK_ID] = _ids(threads // grid.block, grid.blocks)
    regs[THREAD_ID] = _ids(threads % grid.block, grid.block)
    regs[GLOBAL_ID] = _ids(threads, grid.threads)
    for index, argument in enumerate(arguments):
        regs[index] = argument
    return Group(grid, 0, threads, regs, 0, 0, shared_words)


def _ids(values: Array, count: int) -> Lane:
    return Vec(values, 0, count - 1) if count > 1 else 0


def split(group: Group, taken: Mask, shared_words: int) -> tuple[Group, Group]:
    """The threads for which `taken` holds, and the others; both must exist."""
    return _part(group, taken, shared_words), _part(group, ~taken, shared_words)


def _part(group: Group, keep: Mask, shared_words: int) -> Group:
    regs = [_kept(lane, keep) for lane in group.regs]
    flags = _kept(group.flags, keep)
    return Group(group.grid, group.pc, group.threads[keep], regs, flags, group.steps, shared_words)


def _kept(lane: Lane, keep: Mask) -> Lane:
    return lane if isinstance(lane, int) else Vec(lane.array[keep], lane.lo, lane.hi)


def join(groups: Sequence[Group], shared_words: int) -> Group:
    """One group of all threads; all must stand at the same instruction."""
    first = groups[0]
    if len(groups) == 1:
        return first
    threads = np.concatenate([g.threads for g in groups])
    order = np.argsort(threads, kind="stable")
    sizes = [g.threads.size for g in groups]
    regs = [_joined([g.regs[i] for g in groups], sizes, order) for i in range(len(first.regs))]
    flags = _joined([g.flags for g in groups], sizes, order)
    steps = max(g.steps for g in groups)
    return Group(first.grid, first.pc, threads[order], regs, flags, steps, shared_words)


def _joined(lanes: list[Lane], sizes: list[int], order: Array) -> Lane:
    first = lanes[0]
    if all(isinstance(lane, int) and lane == first for lane in lanes):
        return first
    arrays = [np.broadcast_to(np.asarray(raw(lane), np.int64), (n,)) for lane, n in zip(lanes, sizes, strict=True)]
    lows = [lane if isinstance(lane, int) else lane.lo for lane in lanes]
    highs = [lane if isinstance(lane, int) else lane.hi for lane in lanes]
    return Vec(np.concatenate(arrays)[order], min(lows), max(highs))
