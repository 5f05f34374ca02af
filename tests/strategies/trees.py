"""Ensembles of trees of random forms."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, sizes
from trivet.core.dtype import F32, F64, I8, I32
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.trees import COMPARISONS, MISSING_IS_TRUE, Aggregate, TreeEnsemble


@st.composite
def ensembles(draw: DrawFn) -> Instance:
    rows, columns, nodes, leaves = draw(sizes(1, 4)), draw(sizes(1, 4)), draw(sizes(1, 9)), draw(sizes(1, 6))
    trees, entries, targets = draw(sizes(1, 4)), draw(sizes(1, 8)), draw(sizes(1, 3))
    dtype = draw(st.sampled_from((F32, F64)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = np.where(rng.random((rows, columns)) < 0.1, np.nan, rng.integers(-3, 4, (rows, columns)))
    children = np.where(rng.random((nodes, 2)) < 0.4, -1 - rng.integers(0, leaves, (nodes, 2)), nodes)
    for node in range(nodes):
        for side in (0, 1):
            if children[node, side] == nodes:
                last = node == nodes - 1
                children[node, side] = -1 if last else rng.integers(node + 1, nodes)
    codes = rng.integers(0, len(COMPARISONS), nodes) + MISSING_IS_TRUE * rng.integers(0, 2, nodes)
    starts = np.sort(rng.integers(0, entries + 1, leaves + 1))
    starts[0], starts[-1] = 0, entries
    arrays = (
        x.astype(dtype.numpy),
        rng.integers(-3, 4, nodes).astype(dtype.numpy),
        rng.integers(0, columns, nodes).astype(np.int32),
        codes.astype(np.int8),
        children.astype(np.int32),
        rng.integers(-leaves, nodes, trees).astype(np.int32),
        starts.astype(np.int32),
        rng.integers(0, targets, entries).astype(np.int32),
        rng.standard_normal(entries).astype(dtype.numpy),
    )
    kinds = (dtype, dtype, I32, I8, I32, I32, I32, I32, dtype)
    types = tuple(TensorType(kind, array.shape) for kind, array in zip(kinds, arrays, strict=True))
    return Instance(TreeEnsemble(targets, draw(st.sampled_from(Aggregate))), types, arrays)


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {TreeEnsemble: ensembles()}
