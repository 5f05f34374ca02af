"""Whether exact arithmetic leaves i32, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.core.dtype import I32
from trivet.core.numerics import Overflow
from trivet.ir.types import TensorType
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul

LEAST, GREATEST = -(1 << 31), (1 << 31) - 1
EDGES = st.one_of(
    st.sampled_from([LEAST, GREATEST, 0, 1, -1, 1 << 16, (1 << 16) - 1, -(1 << 15), 46341, -46341]),
    st.integers(LEAST, GREATEST),
    st.integers(-70000, 70000),
)
VECTORS = st.lists(EDGES, min_size=1, max_size=4)


def i32(*values: int) -> tuple[np.ndarray, TensorType]:
    array = np.array(values, np.int32)
    return array, TensorType(I32, array.shape)


@given(st.data())
def test_products(data: st.DataObject) -> None:
    a = data.draw(VECTORS)
    b = data.draw(st.lists(EDGES, min_size=len(a), max_size=len(a)))
    bias = data.draw(EDGES)
    exact = sum(x * y for x, y in zip(a, b, strict=True)) + bias
    operands = [i32(*a), (np.array(b, np.int32)[:, None], TensorType(I32, (len(b), 1))), i32(bias)]
    op = MatMul(bias=True)
    arrays, types = (tuple(part) for part in zip(*operands, strict=True))
    assert op.overflows(arrays, types) == (not LEAST <= exact <= GREATEST)


@pytest.mark.parametrize(
    ("a", "b", "bias"),
    [
        ([65535, 1], [32768, 32767], 0),
        ([65535, 1], [32768, 32768], 0),
        ([-65536], [32768], 0),
        ([-65536], [32768], -1),
        ([46341], [46341], 0),
        ([46341], [46341], -46341),
        ([LEAST, LEAST], [LEAST, LEAST], 0),
        ([LEAST, GREATEST], [1, 1], 0),
    ],
    ids=str,
)
def test_products_at_the_edge(a: list[int], b: list[int], bias: int) -> None:
    exact = sum(x * y for x, y in zip(a, b, strict=True)) + bias
    arrays = (np.array(a, np.int32), np.array(b, np.int32)[:, None], np.array([bias], np.int32))
    types = (TensorType(I32, (len(a),)), TensorType(I32, (len(b), 1)), TensorType(I32, (1,)))
    assert MatMul(bias=True).overflows(arrays, types) == (not LEAST <= exact <= GREATEST)


@given(EDGES, EDGES)
def test_sums(a: int, b: int) -> None:
    (x, t), (y, u) = i32(a), i32(b)
    assert Add(overflow=Overflow.EXACT).overflows((x, y), (t, u)) == (not LEAST <= a + b <= GREATEST)
    assert not Add().overflows((x, y), (t, u))
