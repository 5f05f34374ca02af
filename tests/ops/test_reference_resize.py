"""Resizes against TensorFlow Lite Micro and LiteRT's reference kernels: integers bit for bit, floats too."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import CONTRACTS, TfliteModel, assert_same, integer, operand, rngs, seed

from trivet.core.dtype import F32, I8, I16, I32, DType
from trivet.core.numerics import Numerics
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest

CASES = 80
BILINEAR = [case for case in CONTRACTS if case.values != (Numerics.TFLM, I16)]
NEAREST_MODES = {
    Coordinates.ASYMMETRIC: NearestRounding.FLOOR,
    Coordinates.TF_HALF_PIXEL_FOR_NN: NearestRounding.FLOOR,
    Coordinates.ALIGN_CORNERS: NearestRounding.ROUND_PREFER_CEIL,
}


def check_resize(op: Op, name: str, numerics: Numerics | None, x_type: TensorType, x: np.ndarray) -> None:
    half = op.coordinates in (Coordinates.HALF_PIXEL, Coordinates.TF_HALF_PIXEL_FOR_NN)
    model = TfliteModel(numerics)
    ids = [model.tensor(x_type), model.tensor(TensorType(I32, (2,)), np.asarray(op.size, np.int32))]
    y = model.tensor(op.infer((x_type,))[0])
    model.builder.operator(
        name,
        ids,
        [y],
        "ResizeBilinearOptions" if isinstance(op, ResizeBilinear) else "ResizeNearestNeighborOptions",
        version=3,
        align_corners=op.coordinates is Coordinates.ALIGN_CORNERS,
        half_pixel_centers=half,
    )
    assert_same(op, (x_type,), (x,), model.run(ids[:1], y, [x]))


def random_size(rng: np.random.Generator) -> tuple[int, int]:
    return integer(rng, 1, 16), integer(rng, 1, 16)


@pytest.mark.parametrize(("numerics", "dtype"), [*BILINEAR, pytest.param(None, F32, id="f32")])
def test_bilinear(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    modes = (Coordinates.ASYMMETRIC, Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS)
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (integer(rng, 1, 2), *random_size(rng), integer(rng, 1, 4)), dtype)
        op = ResizeBilinear(random_size(rng), modes[integer(rng, 0, 2)], numerics=numerics)
        check_resize(op, "RESIZE_BILINEAR", numerics, x_type, x)


@pytest.mark.parametrize("coordinates", list(NEAREST_MODES), ids=lambda mode: mode.value)
def test_nearest(coordinates: Coordinates, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (1, *random_size(rng), 2), I8)
        op = ResizeNearest(random_size(rng), coordinates, NEAREST_MODES[coordinates])
        check_resize(op, "RESIZE_NEAREST_NEIGHBOR", None, x_type, x)
