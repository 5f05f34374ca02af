"""Finds two threads that touch the same word between the same barriers, one of them writing.

For each word there is kept who wrote it last, the extremes of its readers since the last barrier of the grid, and the
extremes of its readers since the last barrier of the block that read it last. That is enough for the first race: an
earlier writer is ordered before the last one, or was reported. Readers of two blocks race with any writer, and show in
the extremes, for a block is a range of threads; readers of one block are covered by the extremes since its barrier.
"""

from __future__ import annotations

import numpy as np

from trivet.backends.gpu.isa import Program
from trivet.backends.gpu.lanes import Array, Fault, Mask
from trivet.core.record import dataclass

_NOBODY = -1
_LAST = np.iinfo(np.int64).max


def _filled(words: int, value: int = _NOBODY) -> Array:
    return np.full(words, value, np.int64)


class _Readers:
    """For each word the first and the last of the threads that read it in one period, and where."""

    def __init__(self, words: int) -> None:
        self.low, self.high = _filled(words, _LAST), _filled(words)
        self.low_pc, self.high_pc = _filled(words), _filled(words)

    def note(self, pc: int, threads: Array, where: Array, stale: Mask) -> None:
        """Add readers; words that are `stale` had none in this period."""
        self.low[where[stale]], self.high[where[stale]] = _LAST, _NOBODY
        # Threads ascend, and of several values for one word the last is kept.
        self.low[where[::-1]] = np.minimum(self.low[where], threads)[::-1]
        self.high[where] = np.maximum(self.high[where], threads)
        self.low_pc[where[self.low[where] == threads]] = pc
        self.high_pc[where[self.high[where] == threads]] = pc


class _Shadow:
    """What is known of the words of one memory."""

    def __init__(self, words: int, name: str) -> None:
        self.name = name
        self.writer, self.write_pc = _filled(words), _filled(words)
        self.write_epoch, self.write_round = _filled(words), _filled(words)
        self.since_grid, self.since_block = _Readers(words), _Readers(words)
        self.read_epoch, self.read_round, self.read_block = _filled(words), _filled(words), _filled(words)


@dataclass(frozen=True, slots=True)
class _Access:
    """One instruction of a group of threads on one memory; `rounds` counts the barriers of each thread's block."""

    shadow: _Shadow
    pc: int
    threads: Array
    where: Array
    blocks: Array
    rounds: Array
    writes: bool


class Races:
    """Watches the accesses of one launch. Blocks count their own barriers (rounds), the grid its own (epochs)."""

    def __init__(self, program: Program, block: int) -> None:
        self.program = program
        self.block = block
        self.epoch = 0

    def attach(self, words: int, shared_words: int, blocks: int) -> None:
        """Say how large the memories are; `shared_words` of all blocks together."""
        self.memory, self.shared = _Shadow(words, "address"), _Shadow(shared_words, "shared address")
        self.rounds = np.zeros(blocks, np.int64)

    def barrier(self, threads: Array, everywhere: bool) -> None:
        """Threads leave a barrier: what they did before is ordered before what they do now."""
        if everywhere:
            self.epoch += 1
        else:
            self.rounds[np.unique(threads // self.block)] += 1

    def access(self, pc: int, threads: Array, where: Array, writes: bool, shared: bool) -> None:
        """Raises: Fault naming both instructions and the address."""
        blocks = threads // self.block
        shadow = self.shared if shared else self.memory
        access = _Access(shadow, pc, threads, where, blocks, self.rounds[blocks], writes)
        self._against_writes(access)
        if writes:
            self._against_reads(access)
            self._write(access)
        else:
            self._read(access)

    def _against_writes(self, now: _Access) -> None:
        shadow, where = now.shadow, now.where
        writer = shadow.writer[where]
        recent = (shadow.write_epoch[where] == self.epoch) & (writer != _NOBODY) & (writer != now.threads)
        ordered = (writer // self.block == now.blocks) & (shadow.write_round[where] != now.rounds)
        self._report(now, recent & ~ordered, shadow.writer, shadow.write_pc, "writes")

    def _against_reads(self, now: _Access) -> None:
        shadow, where = now.shadow, now.where
        recent = shadow.read_epoch[where] == self.epoch
        grid, block = shadow.since_grid, shadow.since_block
        here = recent & (shadow.read_block[where] == now.blocks) & (shadow.read_round[where] == now.rounds)
        for of_grid, of_block, grid_pc, block_pc in (
            (grid.low, block.low, grid.low_pc, block.low_pc),
            (grid.high, block.high, grid.high_pc, block.high_pc),
        ):
            self._report(now, recent & (of_grid[where] // self.block != now.blocks), of_grid, grid_pc, "reads")
            self._report(now, here & (of_block[where] != now.threads), of_block, block_pc, "reads")

    def _write(self, now: _Access) -> None:
        shadow, where = now.shadow, now.where
        shadow.writer[where], shadow.write_pc[where] = now.threads, now.pc
        shadow.write_epoch[where], shadow.write_round[where] = self.epoch, now.rounds
        self._report(now, shadow.writer[where] != now.threads, shadow.writer, shadow.write_pc, "writes")

    def _read(self, now: _Access) -> None:
        """Blocks one after the other, so that the readers of one word all stand in one round."""
        shadow = now.shadow
        first_of_block = np.flatnonzero(np.diff(now.blocks, prepend=_NOBODY))
        for start, stop in zip(first_of_block, [*first_of_block[1:], now.blocks.size], strict=True):
            threads, where = now.threads[start:stop], now.where[start:stop]
            block, number = now.blocks[start], now.rounds[start]
            old = shadow.read_epoch[where] != self.epoch
            shadow.since_grid.note(now.pc, threads, where, old)
            old = old | (shadow.read_block[where] != block) | (shadow.read_round[where] != number)
            shadow.since_block.note(now.pc, threads, where, old)
            shadow.read_epoch[where], shadow.read_round[where], shadow.read_block[where] = self.epoch, number, block

    def _report(self, now: _Access, races: Mask, threads: Array, pcs: Array, verb: str) -> None:
        found = np.flatnonzero(races)
        if not found.size:
            return
        at = int(now.where[found[0]])
        other = f"thread {threads[at]} {verb} at {self.program.place(int(pcs[at]))}"
        doing = "writes" if now.writes else "reads"
        reason = f"race on {now.shadow.name} {at}: it {doing} the word that {other}, and no barrier stands between"
        raise Fault(reason, found)
