"""Which thread computes which element: a grid over the rows and columns of a result, in launches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.ir import BID, GID, TID, Kernel, Relation, Value, Var
from trivet.backends.gpu.machine import CycleModel, Machine
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """`chunks` launches of `size` places each for `extent` elements; the last may have places left over."""

    extent: int
    size: int
    chunks: int

    @staticmethod
    def split(extent: int, most: int) -> Axis:
        """As few launches as `most` places allow, all of the same size."""
        chunks = -(-extent // most)
        return Axis(extent, -(-extent // chunks), chunks)

    @property
    def is_exact(self) -> bool:
        return self.size * self.chunks == self.extent


def by_rows_and_columns(
    name: str, rows: int, columns: int, machine: Machine, write: Callable[[Builder, Value, Value], None]
) -> Kernel:
    """A kernel whose threads each have one element [row, column]; `write` says what they do.

    A block is a row, its threads are columns; the other way round where that fills the lanes better.
    """
    model = machine.model
    turned = columns * model.rows(rows) < rows * model.rows(columns)
    within, across = (rows, columns) if turned else (columns, rows)
    threads = Axis.split(within, machine.max_threads)
    blocks = Axis.split(across, machine.max_threads // threads.size)
    b = Builder()
    with _place(b, BID, blocks, "block0") as block, _place(b, TID, threads, "thread0") as thread:
        row, column = (thread, block) if turned else (block, thread)
        write(b, row, column)
    launches = [(i, j) for i in range(blocks.chunks) for j in range(threads.chunks)]
    return _kernel(b, name, blocks, threads, launches)


def by_elements(name: str, count: int, machine: Machine, write: Callable[[Builder, Value], None]) -> Kernel:
    """A kernel whose threads each have one element of a row of them."""
    elements = Axis.split(count, machine.max_threads)
    b = Builder()
    with _place(b, GID, elements, "first") as index:
        write(b, index)
    block = _block_of(elements.size, machine.model)
    parameters = (Var("first"),) if elements.chunks > 1 else ()
    launches = tuple((i * elements.size,) for i in range(elements.chunks)) if parameters else ((),)
    return Kernel(name, elements.size // block, block, b.body(), 0, parameters, launches)


def _kernel(b: Builder, name: str, blocks: Axis, threads: Axis, launches: list[tuple[int, int]]) -> Kernel:
    axes = [(Var("block0"), blocks), (Var("thread0"), threads)]
    parameters = tuple(var for var, axis in axes if axis.chunks > 1)
    values = tuple(
        tuple(i * axis.size for i, (_, axis) in zip(launch, axes, strict=True) if axis.chunks > 1)
        for launch in launches
    )
    return Kernel(name, blocks.size, threads.size, b.body(), 0, parameters, values)


@contextlib.contextmanager
def _place(b: Builder, special: Var, axis: Axis, parameter: str) -> Iterator[Value]:
    """The element of a thread on one axis; what is inside is left out where there is none."""
    place = b.add(special, Var(parameter), "at") if axis.chunks > 1 else special
    if axis.is_exact:
        yield place
        return
    with b.when(place, Relation.LT, axis.extent):
        yield place


def _block_of(threads: int, model: CycleModel) -> int:
    """The divisor that makes the least work for the busiest core, the largest of several."""
    divisors = [d for d in range(1, threads + 1) if threads % d == 0]
    return min(divisors, key=lambda d: (-(-(threads // d) // model.cores) * model.rows(d), -d))
