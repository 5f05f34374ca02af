"""Where a model meets its caller row by row: what it takes in and gives out never lies in memory as a whole.

A vector goes in chunks, which are rows of a map [1, chunks, 1, features of a chunk] in the plan.
"""

from __future__ import annotations

from typing import ClassVar

from trivet.core.access import Access, Reduced, Span, pointwise
from trivet.core.record import dataclass
from trivet.ir import op as contract
from trivet.ir.op import Arrays, Intervals, Op, Region, require
from trivet.ir.types import TensorType, Types


class _Border(Op):
    """The operand unchanged; one of the two is the caller's and takes no memory of the plan."""

    __slots__ = ()

    chunks: int

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (arrays[0].reshape(self.infer(types)[0].shape),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals

    def _chunked(self, vector: TensorType) -> TensorType:
        """The chunks of a vector as a map."""
        require(
            vector.rank == 2 and vector.shape[0] == 1 and vector.shape[1] % self.chunks == 0,
            f"{self.name} takes [1, K] in {self.chunks} equal chunks, got {vector}",
        )
        return vector.with_shape((1, self.chunks, 1, vector.shape[1] // self.chunks))


def _require_rows(name: str, types: Types) -> None:
    require(len(types) == 1, f"{name} takes one operand")
    require(types[0].rank == 4, f"{name} takes rows, {types[0]} has none")


def _rows_alone(types: Types) -> tuple[Access, ...]:
    return (tuple(pointwise(axis, size) for axis, size in enumerate(types[0].shape)),)


@dataclass(frozen=True, slots=True)
class Receive(_Border):
    """Rows of input number `port`, asked from the caller in rising order, each once.

    x: [1, H, W, C], the caller's -> y: [1, H, W, C]
    x: [1, K], the caller's -> y: [1, chunks, 1, K/chunks], where `chunks` is not 0
    """

    port: int
    chunks: int = 0
    name: ClassVar[str] = "receive"

    def infer(self, types: Types) -> Types:
        if self.chunks and len(types) == 1:
            return (self._chunked(types[0]),)
        _require_rows(self.name, types)
        return types

    def access(self, types: Types) -> tuple[Access, ...]:
        if self.chunks:
            return ((pointwise(0, 1), Reduced(types[0].shape[1])),)
        return _rows_alone(types)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        if not self.chunks:
            return contract.Tile(self, (out,))
        size = types[0].shape[1] // self.chunks
        if out[0].size != 1 or out[2].size != 1 or out[3] != Span(0, size) or out[1].size == 0:
            return None
        part = Span(out[1].start * size, out[1].stop * size)
        return contract.Tile(Receive(self.port, out[1].size), ((Span(0, 1), part),))


@dataclass(frozen=True, slots=True)
class Send(_Border):
    """Rows of output number `port`, handed to the caller in rising order, each once.

    x: [1, H, W, C] -> y: [1, H, W, C], the caller's
    x: [1, chunks, 1, C] -> y: [1, chunks*C], the caller's, where `chunks` is not 0
    """

    port: int
    chunks: int = 0
    name: ClassVar[str] = "send"

    def infer(self, types: Types) -> Types:
        _require_rows(self.name, types)
        if not self.chunks:
            return types
        vector = types[0].with_shape((1, types[0].elements))
        require(self._chunked(vector) == types[0], f"send takes [1, {self.chunks}, 1, C], got {types[0]}")
        return (vector,)

    def access(self, types: Types) -> tuple[Access, ...]:
        if self.chunks:
            return ((pointwise(0, 1), *(Reduced(size) for size in types[0].shape[1:])),)
        return _rows_alone(types)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        if not self.chunks:
            return contract.Tile(self, (out,))
        whole = tuple(Span(0, size) for size in types[0].shape)
        return contract.Tile(self, (whole,)) if out[1] == Span(0, types[0].elements) else None
