"""Movements of elements of every width equal their operators."""

from __future__ import annotations

import ctypes
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_runs import check_node, node_of

from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.dtype import BOOL, F32, I8, I16, I64, DType
from trivet.ir.graph import Graph
from trivet.ir.op import Array, Op
from trivet.ir.types import Shape, TensorType
from trivet.ops import movement as m

WIDTHS = [I8, BOOL, I16, F32, I64]
BATCHES = [(1, 5, 4, 3), (2, 5, 4, 3)]


def elements(shape: Shape, dtype: DType = I8, seed: int = 0) -> tuple[Array, TensorType]:
    """Any bytes that are values of the type."""
    rng = np.random.default_rng(seed)
    if dtype is F32:
        return rng.normal(size=shape).astype(np.float32), TensorType(F32, shape)
    return rng.integers(dtype.min, dtype.max, shape, endpoint=True).astype(dtype.numpy), TensorType(dtype, shape)


def check(library: ctypes.CDLL, op: Op, *operands: tuple[Array, TensorType], constants: tuple[int, ...] = ()) -> str:
    """The name of the kernel that gave what the operator means."""
    node = node_of(op, *(o if i in constants else o[1] for i, o in enumerate(operands)))
    check_node(library, node, [o[0] for i, o in enumerate(operands) if i not in constants])
    call = KERNELS.select(node)
    assert call is not None
    return call.kernel.name


CONCATS: list[tuple[int, list[Shape]]] = [
    (3, [(2, 5, 4, 3), (2, 5, 4, 1), (2, 5, 4, 7)]),
    (3, [(1, 5, 4, 3), (1, 5, 4, 0), (1, 5, 4, 2)]),
    (2, [(1, 5, 1, 3), (1, 5, 4, 3)]),
    (1, [(2, 1, 4, 3), (2, 5, 4, 3), (2, 2, 4, 3)]),
    (1, [(1, 3, 4, 3), (1, 5, 4, 3)]),
    (0, [(1, 3, 4, 3), (2, 3, 4, 3)]),
    (0, [(4,), (1,), (6,)]),
    (1, [(3, 2, 5), (3, 4, 5)]),
    (2, [(2, 3, 2, 2, 2), (2, 3, 1, 2, 2)]),
    (1, [(1, 1, 2, 1)] * 30),
]


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize(("axis", "shapes"), CONCATS, ids=str)
def test_concat(library: ctypes.CDLL, axis: int, shapes: list[Shape], dtype: DType) -> None:
    operands = [elements(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    check(library, m.Concat(axis), *operands)


@pytest.mark.parametrize("constants", [(0,), (1,), (0, 1), (0, 2)], ids=str)
@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("shape", BATCHES, ids=str)
def test_concat_with_constants(library: ctypes.CDLL, shape: Shape, axis: int, constants: tuple[int, ...]) -> None:
    operands = [elements(shape, I16, seed) for seed in range(3)]
    check(library, m.Concat(axis), *operands, constants=constants)


def test_an_operand_twice(library: ctypes.CDLL) -> None:
    data, type_ = elements((1, 5, 4, 3))
    graph = Graph()
    x = graph.add_input("x", type_)
    check_node(library, graph.append(m.Concat(3), [x, x]), [data, data])


SLICES = [
    ((1, 5, 4, 3), (0, 1, 1, 1), (1, 3, 2, 2), (1, 1, 1, 1)),
    ((2, 7, 5, 6), (0, 0, 1, 1), (2, 4, 2, 3), (1, 2, 3, 2)),
    ((2, 7, 5, 6), (0, 6, 4, 5), (2, 7, 5, 6), (1, -1, -1, -1)),
    ((2, 7, 5, 6), (0, 6, 0, 0), (2, 3, 5, 6), (1, -2, 1, 1)),
    ((3, 4, 2, 2), (2, 0, 0, 0), (2, 4, 2, 2), (-2, 1, 1, 1)),
    ((3, 4, 2, 2), (1, 0, 0, 0), (1, 4, 2, 2), (1, 1, 1, 1)),
    ((9,), (8,), (5,), (-2,)),
    ((4, 9), (1, 2), (2, 3), (1, 2)),
    ((2, 3, 2, 3, 2, 3, 2, 3), (1, 2, 1, 2, 1, 2, 1, 2), (2, 2, 2, 2, 2, 2, 2, 2), (-1, -2) * 4),
]


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize(("shape", "starts", "sizes", "steps"), SLICES, ids=str)
def test_slice(library: ctypes.CDLL, shape: Shape, starts: Shape, sizes: Shape, steps: Shape, dtype: DType) -> None:
    check(library, m.Slice(starts, sizes, steps), elements(shape, dtype))


PADS = [
    ((1, 5, 4, 3), (0, 1, 1, 0), (0, 2, 1, 0)),
    ((2, 5, 4, 3), (0, 1, 1, 1), (0, 2, 0, 2)),
    ((2, 5, 4, 3), (0, 4, 0, 0), (0, 3, 0, 0)),
    ((2, 5, 4, 3), (1, 0, 2, 0), (1, 0, 0, 0)),
    ((1, 9, 4, 3), (0, 0, 0, 0), (0, 0, 0, 0)),
    ((6,), (3,), (5,)),
    ((3, 4), (2, 0), (1, 3)),
    ((3, 4, 5), (1, 2, 1), (2, 1, 0)),
]


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize("mode", m.PadMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize(("shape", "before", "after"), PADS, ids=str)
def test_pad(library: ctypes.CDLL, shape: Shape, before: Shape, after: Shape, mode: m.PadMode, dtype: DType) -> None:
    check(library, m.Pad(before, after, 1 if dtype is BOOL else -7, mode), elements(shape, dtype))


def test_padding_is_wider_than_the_operand(library: ctypes.CDLL) -> None:
    check(library, m.Pad((0, 20, 9, 0), (0, 0, 30, 0), 2.5), elements((1, 3, 4, 2), F32))
    check(library, m.Pad((0, 20, 9, 0), (0, 0, 30, 0), 0, m.PadMode.EDGE), elements((1, 3, 4, 2), F32))


@pytest.mark.parametrize("shape", [(3, 4, 5), *BATCHES], ids=str)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_transpose(library: ctypes.CDLL, shape: Shape, dtype: DType) -> None:
    for perm in permutations(range(len(shape))):
        check(library, m.Transpose(perm), elements(shape, dtype))


@given(st.permutations(range(8)))
def test_transpose_of_rank_8(library: ctypes.CDLL, perm: list[int]) -> None:
    check(library, m.Transpose(tuple(perm)), elements((2, 1, 3, 2, 3, 2, 1, 2), I16))


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_a_long_transpose(library: ctypes.CDLL, dtype: DType) -> None:
    assert check(library, m.Transpose((0, 3, 1, 2)), elements((1, 9, 37, 41), dtype)) == "move"
    assert check(library, m.Transpose((0, 1, 3, 2)), elements((1, 9, 37, 41), dtype)) == "move_rows"


EXPANDS = [
    ((1, 5, 1, 3), (1, 5, 4, 3)),
    ((1, 1, 4, 3), (1, 5, 4, 3)),
    ((1, 1, 1, 3), (2, 5, 4, 3)),
    ((2, 1, 1, 1), (2, 5, 4, 3)),
    ((3,), (2, 5, 4, 3)),
    ((4, 1), (1, 5, 4, 3)),
    ((5, 1, 3), (2, 5, 4, 3)),
    ((), (3, 4)),
    ((2, 1, 3, 1, 2), (2, 4, 3, 2, 2)),
]


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize(("shape", "wide"), EXPANDS, ids=str)
def test_expand(library: ctypes.CDLL, shape: Shape, wide: Shape, dtype: DType) -> None:
    check(library, m.Expand(wide), elements(shape, dtype))


TILES = [
    ((1, 5, 4, 3), (1, 1, 3, 1)),
    ((2, 5, 4, 3), (1, 1, 2, 3)),
    ((2, 5, 4, 3), (1, 2, 1, 1)),
    ((2, 2, 4, 3), (2, 2, 3, 2)),
    ((6,), (3,)),
    ((2, 3, 2), (2, 1, 3)),
]


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize(("shape", "repeats"), TILES, ids=str)
def test_tile(library: ctypes.CDLL, shape: Shape, repeats: Shape, dtype: DType) -> None:
    check(library, m.Tile(repeats), elements(shape, dtype))


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_blocks_of_pixels(library: ctypes.CDLL, batch: int, block: int, dtype: DType) -> None:
    pixels, features = elements((batch, 6, 12, 5), dtype), elements((batch, 3, 4, 5 * block**2), dtype)
    assert check(library, m.SpaceToDepth(block), pixels) == "move_rows"
    assert check(library, m.DepthToSpace(block), features) == "move_rows"
    assert check(library, m.DepthToSpace(block, True), features) == "move_rows"
