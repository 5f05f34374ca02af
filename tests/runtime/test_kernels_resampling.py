"""Gathers and resizes equal their operators."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_runs import KernelRun, check_node, node_of
from patches import STATUSES
from product_cases import Layers

from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ir.types import Shape, TensorType
from trivet.ops.movement import Gather
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest


def kernel_name(node: Node) -> str:
    call = KERNELS.select(node)
    assert call is not None
    return call.kernel.name


INDICES = [[1, 0, -1, 1], [0, 2, 3], [3, 2, 1, 0], [2], [-1, -1], [0, 1]]
TABLES: list[tuple[Shape, int]] = [
    ((1, 5, 4, 3), 1),
    ((2, 5, 4, 3), 1),
    ((2, 5, 4, 3), 2),
    ((2, 5, 3, 4), 3),
    ((4, 2, 3, 1), 0),
    ((4, 7), 0),
    ((2, 4, 3), 1),
    ((4,), 0),
]


@pytest.mark.parametrize("dtype", [I8, BOOL, I16, F32, I64], ids=str)
@pytest.mark.parametrize("index_dtype", [I32, I64], ids=str)
@pytest.mark.parametrize("indices", INDICES, ids=str)
@pytest.mark.parametrize(("shape", "axis"), TABLES, ids=str)
def test_gather(
    library: ctypes.CDLL, shape: Shape, axis: int, indices: list[int], index_dtype: DType, dtype: DType
) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1, shape, endpoint=True).astype(dtype.numpy) if dtype is BOOL else None
    x = rng.integers(-99, 99, shape).astype(dtype.numpy) if x is None else x
    type_ = TensorType(dtype, shape)
    for rank in (0, 1, 2):
        chosen = np.array(indices[0] if rank == 0 else [indices] * rank if rank == 2 else indices, index_dtype.numpy)
        chosen_type = TensorType(index_dtype, chosen.shape)
        check_node(library, node_of(Gather(axis), type_, (chosen, chosen_type)), [x])
        check_node(library, node_of(Gather(axis), type_, chosen_type), [x, chosen])
        check_node(library, node_of(Gather(axis), (x, type_), chosen_type), [chosen])


@pytest.mark.parametrize(
    ("axis", "indices", "name"),
    [(2, [0, 2], "move_rows"), (0, [0], "move"), (1, [1, 0, 0], "take"), (3, [0, 1, 0], "gather_rows")],
    ids=str,
)
def test_known_places_need_no_search(axis: int, indices: list[int], name: str) -> None:
    chosen = (np.array(indices, np.int32), TensorType(I32, (len(indices),)))
    assert kernel_name(node_of(Gather(axis), TensorType(I8, (2, 5, 4, 3)), chosen)) == name


@pytest.mark.parametrize("index", [4, -5, 1 << 31, -(1 << 62), (1 << 62) + 1])
@pytest.mark.parametrize(("shape", "axis"), [((4, 6), 0), ((1, 2, 4, 6), 2)], ids=str)
def test_an_index_out_of_range_ends_the_run(library: ctypes.CDLL, shape: Shape, axis: int, index: int) -> None:
    node = node_of(Gather(axis), TensorType(I8, shape), TensorType(I64, (3,)))
    x, indices = np.zeros(shape, np.int8), np.array([0, index, 1], np.int64)
    assert STATUSES[KernelRun(library, node, [x, indices]).status_of(1)] == "ERR_VALUE"


def test_a_constant_index_out_of_range_is_refused(library: ctypes.CDLL) -> None:
    chosen = (np.array([0, 2, 3], np.int32), TensorType(I32, (3,)))
    run = KernelRun(library, node_of(Gather(0), TensorType(I8, (4, 6)), chosen), [np.zeros((4, 6), np.int8)])
    assert run.check(1) == 0
    for wrong in (4, -5):
        run.constants.bytes[4:8] = np.array([wrong], np.int32).view(np.uint8)
        assert STATUSES[run.check(1)] == "ERR_PARAMS"


SIZES = [((5, 6), (10, 12)), ((5, 6), (10, 9)), ((7, 5), (3, 4)), ((6, 8), (3, 2)), ((4, 4), (1, 1)), ((1, 1), (5, 7))]
SIZES += [((3, 5), (3, 5)), ((2, 3), (9, 17))]


def scales_of(size: tuple[int, int], new: tuple[int, int], given: bool) -> tuple[float, float] | None:
    return (new[0] / size[0], new[1] / size[1]) if given else None


@pytest.mark.parametrize("given", [False, True], ids=["tflite", "onnx"])
@pytest.mark.parametrize("coordinates", Coordinates, ids=lambda c: c.value)
@pytest.mark.parametrize(("size", "new"), SIZES, ids=str)
def test_resize_nearest(
    library: ctypes.CDLL, size: tuple[int, int], new: tuple[int, int], coordinates: Coordinates, given: bool
) -> None:
    layers = Layers(5)
    for rounding in NearestRounding:
        op = ResizeNearest(new, coordinates, rounding, scales_of(size, new, given))
        for batch, channels in ((1, 1), (2, 3)):
            x, type_ = layers.activation((batch, *size, channels))
            check_node(library, node_of(op, type_), [x])
        x, type_ = layers.floats((1, *size, 2))
        check_node(library, node_of(op, type_), [x])


def test_a_whole_factor_needs_no_tables() -> None:
    x = TensorType(I8, (1, 5, 6, 3))
    assert kernel_name(node_of(ResizeNearest((10, 18)), x)) == "move_rows"
    assert kernel_name(node_of(ResizeNearest((7, 18)), x)) == "take"


@pytest.mark.parametrize("given", [False, True], ids=["tflite", "onnx"])
@pytest.mark.parametrize("coordinates", Coordinates, ids=lambda c: c.value)
@pytest.mark.parametrize(("size", "new"), SIZES, ids=str)
def test_resize_bilinear(
    library: ctypes.CDLL, size: tuple[int, int], new: tuple[int, int], coordinates: Coordinates, given: bool
) -> None:
    layers, scales = Layers(6), scales_of(size, new, given)
    for batch, channels in ((1, 1), (2, 3), (1, 40)):
        x, type_ = layers.floats((batch, *size, channels))
        check_node(library, node_of(ResizeBilinear(new, coordinates, scales), type_), [x], 1e-6)
        for numerics in (Numerics.ONNX, Numerics.LITERT_U8):
            stored, type_ = layers.activation((batch, *size, channels))
            check_node(library, node_of(ResizeBilinear(new, coordinates, scales, numerics), type_), [stored])


@pytest.mark.parametrize(
    "coordinates",
    [Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS, Coordinates.ASYMMETRIC],
    ids=lambda c: c.value,
)
@pytest.mark.parametrize(("size", "new"), SIZES, ids=str)
def test_resize_bilinear_in_integers(
    library: ctypes.CDLL, size: tuple[int, int], new: tuple[int, int], coordinates: Coordinates
) -> None:
    layers = Layers(7)
    for batch, channels in ((1, 1), (2, 3), (1, 40)):
        x, type_ = layers.activation((batch, *size, channels))
        for numerics in (Numerics.TFLM, Numerics.LITERT):
            check_node(library, node_of(ResizeBilinear(new, coordinates, None, numerics), type_), [x])
