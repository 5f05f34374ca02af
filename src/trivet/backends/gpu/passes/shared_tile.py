"""Words that all threads of a block read are loaded once for the block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trivet.backends.gpu.ir import (
    TID,
    Barrier,
    Binary,
    Body,
    For,
    If,
    Kernel,
    Load,
    Relation,
    Set,
    Space,
    Statement,
    Store,
    Value,
    Var,
    reads_of,
    result_of,
    walk,
)
from trivet.backends.gpu.ir_rewrite import Names, with_bodies
from trivet.backends.gpu.ir_verify import thread_dependent
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.passes.coarsen import Coarsen
from trivet.backends.gpu.passes.outlook import outlook
from trivet.backends.gpu.passes.several_rows import of_several_blocks
from trivet.core.record import dataclass

MOST_ROWS = 4
"""Each row of a block needs a register for its sum."""

LOADS_KEPT = 4
"""Tiles must save so much: at most one load in four stays."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """for p to end { a = load [p] }  -->  shared[tid] = load [p + tid]; barrier; for q = 0 to n { a = load shared [q] }

    where p is the same for all threads of a block. A block takes several rows, so that what its threads read apart is
    loaded once for all of them. Done where the cycle model gains by it, once the code is unrolled, more than by
    `coarsen`; where no more instructions are executed; and where at most a quarter of the loads is left.
    """

    name: str = "shared-tile"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        plain = outlook(kernel, machine)
        best, least = kernel, outlook(Coarsen().run(kernel, machine, Counter()), machine)
        for form in _forms(kernel, machine):
            made = outlook(form, machine)
            saves = made.loads * LOADS_KEPT <= plain.loads and made.instructions <= plain.instructions
            if saves and made.cycles < least.cycles:
                best, least = form, made
        fired["tiled"] += best is not kernel
        return best


def _forms(kernel: Kernel, machine: Machine) -> Iterator[Kernel]:
    """The kernel with tiles, for each number of rows that divides its grid."""
    for rows in range(1, min(MOST_ROWS, kernel.grid) + 1):
        merged = of_several_blocks(kernel, rows) if rows > 1 else kernel
        if merged is None:
            continue
        tiled = _Tiler(merged, machine).run()
        if tiled is not None:
            yield tiled


@dataclass(frozen=True, slots=True)
class _Tile:
    """A load of a loop's body: `statement` reads word i * step after `first` in turn i; the copy begins at `offset`."""

    statement: Load
    first: Value
    step: int
    offset: int


class _Tiler:
    """Tiles every loop of a kernel where all threads of a block come to it."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self.names = Names(kernel)
        self.varying = thread_dependent(kernel)
        self.words = kernel.shared_words
        self.tiles = 0

    def run(self) -> Kernel | None:
        """The kernel with tiles, None where there is nothing to share or no room for it."""
        body = self._body(self.kernel.body)
        if not self.tiles or self.words > self.machine.shared_words:
            return None
        return replace(self.kernel, body=body, shared_words=self.words)

    def _body(self, body: Body) -> Body:
        done: list[Statement] = []
        for statement in body:
            match statement:
                case For():
                    done = self._loop(statement, done)
                case If() if not any(var in self.varying for var in reads_of(statement)):
                    done.append(with_bodies(statement, self._body))
                case _:
                    done.append(statement)
        return tuple(done)

    def _loop(self, loop: For, before: list[Statement]) -> list[Statement]:
        """What comes before the loop, the copy, and the loop; what the copy does not need is put off behind it."""
        tiles = list(self._found(loop))
        if not tiles:
            return [*before, loop]
        self.tiles += len(tiles)
        self.words += len(tiles) * loop.trips
        copy = self._copy(loop.trips, tiles)
        early, late = _parted(before, {var for s in walk(tuple(copy)) for var in reads_of(s)})
        return [*early, *copy, Barrier(), *late, *self._reading(loop, tiles)]

    def _found(self, loop: For) -> Iterator[_Tile]:
        """Loads from an address that moves evenly and is the same for the whole block."""
        moves = _moves(loop)
        offset = self.words
        for statement in loop.body:
            if not isinstance(statement, Load) or statement.space is Space.SHARED:
                continue
            pointer = statement.address
            if isinstance(pointer, Var) and pointer in moves and pointer not in self.varying:
                first = loop.start if pointer == loop.counter else pointer
                yield _Tile(statement, first, moves[pointer], offset)
                offset += loop.trips

    def _copy(self, words: int, tiles: Sequence[_Tile]) -> list[Statement]:
        """Each thread copies the words of its number, and those a block further on."""
        block = self.kernel.block
        made: list[Statement] = []
        for start in range(0, words, block):
            index: Value = TID
            if start:
                index = self.names.fresh("i")
                made.append(Binary(Opcode.ADD, index, TID, start))
            copy = tuple(s for tile in tiles for s in self._copy_word(tile, index))
            made += copy if words - start >= block else [If(index, Relation.LT, words, copy)]
        return made

    def _copy_word(self, tile: _Tile, index: Value) -> Iterator[Statement]:
        far = index
        if tile.step != 1:
            far = scaled = self.names.fresh("i")
            yield Binary(Opcode.MUL, scaled, index, tile.step)
        source, word, place = (self.names.fresh(stem) for stem in ("from", "word", "into"))
        yield Binary(Opcode.ADD, source, far, tile.first)
        yield Load(word, source)
        yield Binary(Opcode.ADD, place, index, tile.offset)
        yield Store(place, word, Space.SHARED)

    def _reading(self, loop: For, tiles: Sequence[_Tile]) -> list[Statement]:
        """The loop over the copies, counting from 0; what counted before moves on at the end of a turn."""
        turn = self.names.fresh("q")
        by_load = {id(tile.statement): tile for tile in tiles}
        body: list[Statement] = []
        for statement in loop.body:
            tile = by_load.get(id(statement))
            if tile is None:
                body.append(statement)
                continue
            place = self.names.fresh("at")
            body.append(Binary(Opcode.ADD, place, turn, tile.offset))
            body.append(Load(tile.statement.result, place, Space.SHARED))
        before: list[Statement] = []
        if any(loop.counter in reads_of(s) for s in walk(tuple(body))):
            if loop.start != loop.counter:
                before.append(Binary(Opcode.ADD, loop.counter, loop.start, 0))
            body.append(Binary(Opcode.ADD, loop.counter, loop.counter, loop.step))
        return [*before, For(turn, 0, loop.trips, 1, loop.trips, tuple(body), loop.inverted)]


def _parted(before: Sequence[Statement], needed: set[Var]) -> tuple[list[Statement], list[Statement]]:
    """Statements that `needed` variables come from, and arithmetic at the end that can wait."""
    early: list[Statement] = []
    late: list[Statement] = []
    for index in range(len(before) - 1, -1, -1):
        statement = before[index]
        if not isinstance(statement, Set | Binary):
            return [*before[: index + 1], *reversed(early)], late[::-1]
        overwritten = {result_of(other) for other in early}
        if statement.result in needed or any(var in overwritten for var in reads_of(statement)):
            needed.update(reads_of(statement))
            early.append(statement)
        else:
            late.append(statement)
    return early[::-1], late[::-1]


def _moves(loop: For) -> dict[Var, int]:
    """Pointers that are moved once in a turn, after everything else in it; and the counter."""
    times = Counter(result_of(s) for s in walk(loop.body))
    moves = {loop.counter: loop.step}
    read_later: set[Var] = set()
    for statement in reversed(loop.body):
        if isinstance(statement, Binary) and _is_move(statement, times) and statement.result not in read_later:
            assert isinstance(statement.b, int)
            moves[statement.result] = statement.b
            continue
        read_later.update(var for s in walk((statement,)) for var in reads_of(s))
    return moves


def _is_move(statement: Binary, times: Counter[Var | None]) -> bool:
    alone = times[statement.result] == 1 and statement.op is Opcode.ADD
    return alone and statement.a == statement.result and isinstance(statement.b, int)
