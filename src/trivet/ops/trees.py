"""Ensembles of decision trees."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, pointwise, whole
from trivet.core.dtype import F32, F64, I8, I32
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, Region, Tile, require, whole_region
from trivet.ir.types import TensorType, Types


class Aggregate(Enum):
    """How the weights that the leaves of all trees give to one target become its result."""

    SUM = "sum"
    AVERAGE = "average"
    MIN = "min"
    MAX = "max"


COMPARISONS = ("<=", "<", ">=", ">", "==", "!=")
"""What a node may ask of its feature and its split, by code."""

MISSING_IS_TRUE = 8
"""Added to the code of a node whose answer is yes where the feature is no number."""


@dataclass(frozen=True, slots=True)
class TreeEnsemble(Op):
    """Every tree leads a row to a leaf, which adds its weights to targets.

    x: f32 or f64 [N, F]; of M nodes: splits [M] (x's type), features i32 [M], comparisons i8 [M], children i32 [M, 2]
    (no, yes: a later node, or -1 - leaf); roots i32 [T], as children; of L leaves: starts i32 [L + 1] into targets
    i32 [E] and weights [E] (x's type) -> y: [N, targets]. A target that no leaf gives a weight is 0.
    """

    targets: int
    aggregate: Aggregate = Aggregate.SUM
    name: ClassVar[str] = "tree_ensemble"

    def infer(self, types: Types) -> Types:
        require(len(types) == 9, f"tree_ensemble takes 9 operands, got {len(types)}")
        x, splits, features, codes, children, roots, starts, targets, weights = types
        require(x.dtype in (F32, F64) and x.rank == 2 and x.elements > 0, f"tree_ensemble takes [N, F], got {x}")
        nodes = splits.elements
        require(splits == TensorType(x.dtype, (nodes,)), f"tree_ensemble splits {splits} beside {x}")
        require(features == TensorType(I32, (nodes,)) and codes == TensorType(I8, (nodes,)), "tree_ensemble nodes")
        require(children == TensorType(I32, (nodes, 2)), f"tree_ensemble children {children} of {nodes} nodes")
        require(all(t.dtype is I32 and t.rank == 1 for t in (roots, starts, targets)), "tree_ensemble indices are i32")
        require(starts.elements >= 2 and roots.elements >= 1, "tree_ensemble needs a leaf and a tree")
        require(weights == TensorType(x.dtype, targets.shape), f"tree_ensemble weights {weights} beside {x}")
        require(self.targets > 0, f"tree_ensemble with {self.targets} targets")
        return (TensorType(x.dtype, (x.shape[0], self.targets)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, splits, features, codes, children, roots, starts, targets, weights = arrays
        at = np.broadcast_to(roots.astype(np.int64), (len(x), len(roots)))
        rows = np.arange(len(x))[:, None]
        for _ in range(len(splits) + 1):
            inside = at >= 0
            if not inside.any():
                break
            node = np.maximum(at, 0)
            yes = _answers(x[rows, features[node]], splits[node], codes[node])
            at = np.where(inside, children[node, yes.astype(np.int64)], at)
        leaves = -1 - at
        totals = np.zeros((len(x), self.targets), np.float64)
        given = np.zeros((len(x), self.targets), np.bool_)
        for tree in range(len(roots)):
            for row, leaf in enumerate(leaves[:, tree]):
                for entry in range(starts[leaf], starts[leaf + 1]):
                    place = (row, targets[entry])
                    totals[place] = self._joined(totals[place], float(weights[entry]), bool(given[place]))
                    given[place] = True
        if self.aggregate is Aggregate.AVERAGE:
            totals = totals / len(roots)
        return (totals.astype(types[0].dtype.numpy),)

    def _joined(self, total: float, weight: float, given: bool) -> float:
        match self.aggregate:
            case Aggregate.MIN:
                return min(total, weight) if given else weight
            case Aggregate.MAX:
                return max(total, weight) if given else weight
            case _:
                return total + weight

    def access(self, types: Types) -> tuple[Access, ...]:
        x = types[0]
        rows: Access = (pointwise(0, x.shape[0]), *whole(x.shape[1:]))
        return (rows, *(whole(t.shape) for t in types[1:]))

    def tile(self, types: Types, out: Region) -> Tile | None:
        if out[1].size != self.targets:
            return None
        rows = (out[0], *whole_region(types[0].shape[1:]))
        return Tile(self, (rows, *(whole_region(t.shape) for t in types[1:])))


def _answers(values: Array, splits: Array, codes: Array) -> Array:
    """Whether the answer of each node is yes."""
    asked = codes & (MISSING_IS_TRUE - 1)
    choices = [
        values <= splits, values < splits, values >= splits, values > splits, values == splits, values != splits,
    ]  # fmt: skip
    answers: Array = np.select([asked == code for code in range(len(choices))], choices, False)
    return answers | (np.isnan(values) & (codes >= MISSING_IS_TRUE))
