"""Where a model meets its caller row by row: what it takes in and gives out never lies in memory as a whole."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.access import Access, pointwise
from trivet.core.record import dataclass
from trivet.ir import op as contract
from trivet.ir.op import Arrays, Intervals, Op, Region, require
from trivet.ir.types import Types


class _Border(Op):
    """The operand unchanged; one of the two is the caller's and takes no memory of the plan."""

    __slots__ = ()

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, f"{self.name} takes one operand")
        require(types[0].rank == 4, f"{self.name} takes rows, {types[0]} has none")
        return types

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return arrays

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals

    def access(self, types: Types) -> tuple[Access, ...]:
        return (tuple(pointwise(axis, size) for axis, size in enumerate(types[0].shape)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        return contract.Tile(self, (out,))


@dataclass(frozen=True, slots=True)
class Receive(_Border):
    """Rows of input number `port`, asked from the caller in rising order, each once.

    x: [1, H, W, C], the caller's -> y: [1, H, W, C]
    """

    port: int
    name: ClassVar[str] = "receive"


@dataclass(frozen=True, slots=True)
class Send(_Border):
    """Rows of output number `port`, handed to the caller in rising order, each once.

    x: [1, H, W, C] -> y: [1, H, W, C], the caller's
    """

    port: int
    name: ClassVar[str] = "send"
