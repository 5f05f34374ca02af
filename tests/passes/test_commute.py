"""op(transpose(x)) = transpose(op'(x)), executed for every permutation of a tensor with a unit axis."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I32
from trivet.ir.graph import Graph
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.elementwise import Add
from trivet.ops.matmul import Dense
from trivet.ops.movement import Concat, Expand, Gather, Pad, Reshape, Slice, Tile
from trivet.ops.reduce import ArgMax, Mean, ReduceMax
from trivet.ops.softmax import Softmax
from trivet.passes.commute import commuted, compose, data_operands, inverse, reshaped

OUTER = (2, 3, 1, 4)
"""The operand as the operator sees it."""

WEIGHTS = np.arange(8, dtype=np.float32).reshape(2, 4)
INDICES = np.array([[1, 0], [0, 1]], np.int32)

ALWAYS: list[tuple[Op, tuple[Array, ...]]] = [
    (Clamp(Bounds(3, 9)), ()),
    (Add(), (np.arange(24, dtype=np.float32).reshape(OUTER),)),
    (Concat(1), (np.arange(24, dtype=np.float32).reshape(OUTER),)),
    (Slice((1, 2, 0, 0), (1, 3, 1, 2), (1, -1, 1, 2)), ()),
    (Pad((1, 0, 2, 0), (0, 3, 0, 1), 7.0), ()),
    (Tile((1, 2, 3, 1)), ()),
    (Expand((2, 3, 5, 4)), ()),
    (Mean((0, 3), keep_dims=True), ()),
    (Mean((1,)), ()),
    (ReduceMax((0, 2)), ()),
    (ArgMax(1), ()),
    (ArgMax(3, keep_dims=True), ()),
    (Softmax(1), ()),
    (Gather(1), (INDICES,)),
    (Gather(0), (np.array(1, np.int32),)),
]
"""Operators that commute with every transpose, and their further operands."""

PERMUTATIONS = list(permutations(range(4)))


def check(op: Op, rest: tuple[Array, ...], perm: tuple[int, ...]) -> bool:
    """Compare both sides on one tensor; False where the operator does not claim to commute."""
    inner = np.arange(24, dtype=np.float32).reshape(tuple(OUTER[axis] for axis in inverse(perm)))
    outer = inner.transpose(perm)
    node = Graph().append(op, [Graph().constant(array, type_of(array)) for array in (outer, *rest)])
    how = commuted(node, perm)
    if how is None:
        return False
    data = data_operands(node)
    moved = [array.transpose(inverse(perm)) if index in data else array for index, array in enumerate((outer, *rest))]
    np.testing.assert_array_equal(evaluate(op, [outer, *rest]), evaluate(how.op, moved).transpose(how.after))
    return True


def type_of(array: Array) -> TensorType:
    return TensorType(I32 if array.dtype == np.int32 else F32, array.shape)


def evaluate(op: Op, arrays: list[Array]) -> Array:
    types = tuple(type_of(array) for array in arrays)
    (result,) = op.evaluate(tuple(arrays), types)
    assert result.shape == op.infer(types)[0].shape
    return result


@pytest.mark.parametrize("perm", PERMUTATIONS, ids=str)
@pytest.mark.parametrize(("op", "rest"), ALWAYS, ids=[repr(op) for op, _ in ALWAYS])
def test_commutes(op: Op, rest: tuple[Array, ...], perm: tuple[int, ...]) -> None:
    assert check(op, rest, perm)


@pytest.mark.parametrize("perm", PERMUTATIONS, ids=str)
def test_operators_along_the_last_axis_commute_where_it_stays_last(perm: tuple[int, ...]) -> None:
    assert check(Dense(), (WEIGHTS,), perm) == (perm[3] == 3)
    assert check(Softmax(3), (), perm) == (perm[3] == 3)


@pytest.mark.parametrize(
    ("target", "perm", "commutes"),
    [
        ((2, 12), (0, 1, 2, 3), True),
        ((6, 4), (1, 2, 3, 0), True),
        ((6, 4), (1, 0, 2, 3), False),
        ((2, 3, 4), (0, 3, 1, 2), True),
        ((2, 3, 2, 2), (3, 2, 1, 0), True),
        ((2, 1, 3, 4, 1), (1, 3, 0, 2), True),
        ((24,), (0, 2, 1, 3), True),
        ((24,), (3, 1, 2, 0), False),
    ],
)
def test_a_reshape_commutes_where_its_blocks_stay_together(
    target: tuple[int, ...], perm: tuple[int, ...], commutes: bool
) -> None:
    assert check(Reshape(target), (), perm) == commutes


TARGETS = [(24,), (6, 4), (2, 3, 4), (4, 3, 2), (1, 24, 1), (2, 12), (12, 2), (8, 3)]


@given(st.permutations([2, 3, 4, 1, 1]), st.data())
def test_reshapes_that_claim_to_commute_do(shape: list[int], data: st.DataObject) -> None:
    perm = tuple(data.draw(st.permutations(range(5))))
    target = tuple(
        data.draw(st.sampled_from([(24,), (6, 4), (2, 3, 4), (4, 3, 2), (1, 24, 1), (2, 12), (12, 2), (8, 3)]))
    )
    inner = np.arange(24).reshape(shape)
    outer = inner.transpose(perm)
    how = reshaped(outer.shape, target, perm)
    if how is not None:
        assert isinstance(how.op, Reshape)
        np.testing.assert_array_equal(outer.reshape(target), inner.reshape(how.op.shape).transpose(how.after))


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_permutations_compose_and_invert(first: list[int], second: list[int]) -> None:
    x = np.arange(24).reshape(2, 3, 1, 4)
    np.testing.assert_array_equal(
        x.transpose(first).transpose(second), x.transpose(compose(tuple(first), tuple(second)))
    )
    np.testing.assert_array_equal(x.transpose(first).transpose(inverse(tuple(first))), x)
