"""Dense layers whose features come or go row by row, so that a long vector never lies in memory as a whole.

Planning puts them in place of dense layers: one gives its features in groups, the next adds each group to its sums.
"""

from __future__ import annotations

from typing import ClassVar

from trivet.core.access import Access, Reduced, Span, Whole, pointwise
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Arrays, Intervals, Op, Region, Tile, require
from trivet.ir.types import TensorType, Types
from trivet.ops.matmul import Dense
from trivet.ops.products import Reals


class _DenseRows(Op):
    """A dense layer between a vector and rows of it."""

    __slots__ = ()

    clamp: Bounds
    out: Quant | None
    numerics: Numerics | None

    def dense(self) -> Dense:
        """The same layer on vectors."""
        return Dense(self.clamp, self.out, self.numerics)

    def scales(self, types: Types) -> Reals:
        """sx * sw / sy per output feature: [O]."""
        return self.dense().scales(types)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return self.dense().bound(intervals, _on_vectors(types))

    def macs(self, types: Types) -> int:
        return types[1].elements

    def _result(self, types: Types) -> TensorType:
        """The type of the result as a vector."""
        require(len(types) in (2, 3) and types[1].rank == 2, f"{self.name} takes features, a weight [O, K], a bias")
        require(types[0].rank >= 1 and types[0].shape[0] == 1, f"{self.name} takes one image, got {types[0]}")
        return self.dense().infer(_on_vectors(types))[0]


def _on_vectors(types: Types) -> Types:
    return (types[0].with_shape((1, types[0].elements)), *types[1:])


@dataclass(frozen=True, slots=True)
class DenseToRows(_DenseRows):
    """A dense layer that gives its features in `rows` groups: row r holds features r*O/rows and those that follow.

    x: [1, K], w: [O, K], bias: [O] (optional) -> y: [1, rows, 1, O/rows]
    """

    rows: int
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "dense_to_rows"

    def infer(self, types: Types) -> Types:
        y = self._result(types)
        require(types[0].rank == 2, f"dense_to_rows takes [1, K], got {types[0]}")
        outputs = types[1].shape[0]
        require(self.rows >= 1 and outputs % self.rows == 0, f"{outputs} features are not {self.rows} equal rows")
        return (y.with_shape((1, self.rows, 1, outputs // self.rows)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (y,) = self.dense().evaluate(arrays, types)
        return (y.reshape(1, self.rows, 1, -1),)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, w = types[:2]
        features: Access = (Reduced(1), Reduced(x.shape[1]))
        return (features, (Whole(w.shape[0]), Reduced(w.shape[1])), (Whole(w.shape[0]),))[: len(types)]

    def tile(self, types: Types, out: Region) -> Tile | None:
        group = types[1].shape[0] // self.rows
        if out[0].size != 1 or out[2].size != 1 or out[3] != Span(0, group) or out[1].size == 0:
            return None
        some = Span(out[1].start * group, out[1].stop * group)
        features = Span(0, types[1].shape[1])
        op = DenseToRows(out[1].size, self.clamp, self.out, self.numerics)
        return Tile(op, ((Span(0, 1), features), (some, features), (some,))[: len(types)])


@dataclass(frozen=True, slots=True)
class DenseOfRows(_DenseRows):
    """A dense layer on the features of a map, row after row, whose sums wait for the next row.

    x: [1, H, W, C], w: [O, H*W*C], bias: [O] (optional) -> y: [1, O]
    """

    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "dense_of_rows"

    def infer(self, types: Types) -> Types:
        y = self._result(types)
        require(types[0].rank == 4, f"dense_of_rows takes [1, H, W, C], got {types[0]}")
        return (y,)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        flat = _on_vectors(types)
        return self.dense().evaluate((arrays[0].reshape(flat[0].shape), *arrays[1:]), flat)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, w = types[:2]
        features: Access = (pointwise(0, 1), *(Reduced(size) for size in x.shape[1:]))
        outputs = pointwise(1, w.shape[0])
        return (features, (outputs, Reduced(w.shape[1])), (outputs,))[: len(types)]

    def tile(self, types: Types, out: Region) -> Tile:
        whole = tuple(Span(0, size) for size in types[0].shape)
        return Tile(self, (whole, (out[1], Span(0, types[1].shape[1])), (out[1],))[: len(types)])
