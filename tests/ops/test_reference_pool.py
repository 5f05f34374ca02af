"""Pools against TensorFlow Lite Micro and LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import CONTRACTS, TfliteModel, activation, assert_same, fused, integer, operand, rngs, seed
from test_reference_conv import SAME, VALID, same_pads

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, DType
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.types import TensorType
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.windows import Pads2D

CASES = 60


def check_pool(rng: np.random.Generator, average: bool, numerics: Numerics | None, dtype: DType) -> None:
    size = (integer(rng, 2, 12), integer(rng, 2, 12))
    x_type, x = operand(rng, (integer(rng, 1, 2), *size, integer(rng, 1, 5)), dtype)
    kernel, stride = (integer(rng, 1, size[0]), integer(rng, 1, size[1])), (integer(rng, 1, 3), integer(rng, 1, 3))
    padding, code = integer(rng, SAME, VALID), activation(rng)
    pads: Pads2D = ((0, 0), (0, 0))
    if padding == SAME:
        rows, columns = (same_pads(size[i], kernel[i], stride[i], 1) for i in (0, 1))
        pads = (rows, columns)
    clamp = fused(code, x_type.quant)
    op: AveragePool2D | MaxPool2D = MaxPool2D(kernel, stride, (1, 1), pads, clamp)
    if average:
        op = AveragePool2D(kernel, stride, pads, False, clamp, x_type.quant, numerics)

    model = TfliteModel(numerics)
    ids = [model.tensor(x_type), model.tensor(op.infer((x_type,))[0])]
    model.builder.operator(
        "AVERAGE_POOL_2D" if average else "MAX_POOL_2D",
        ids[:1],
        ids[1:],
        "Pool2DOptions",
        version=3,
        padding=padding,
        stride_h=stride[0],
        stride_w=stride[1],
        filter_height=kernel[0],
        filter_width=kernel[1],
        fused_activation_function=code,
    )
    assert_same(op, (x_type,), (x,), model.run(ids[:1], ids[1], [x]))


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, pytest.param(None, F32, id="f32")])
@pytest.mark.parametrize("average", [False, True], ids=["max", "average"])
def test_pool(average: bool, numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        check_pool(rng, average, numerics, dtype)


@pytest.mark.parametrize(
    ("numerics", "mean"), [(Numerics.TFLM, -2), (Numerics.LITERT, -2), (Numerics.LITERT_U8, -1)], ids=lambda v: str(v)
)
def test_halves_of_negative_sums(numerics: Numerics, mean: int) -> None:
    """The mean of -1 and -2 is rounded away from zero on int8; on uint8 it is the mean of 127 and 126, rounded up."""
    quant = Quant.per_tensor(1.0, 0)
    x_type = TensorType(I8, (1, 1, 2, 1), quant)
    op = AveragePool2D((1, 2), out=quant, numerics=numerics)
    assert op.evaluate((np.int8([[[[-1], [-2]]]]),), (x_type,))[0].item() == mean


def test_padding_counted_and_not() -> None:
    x = np.full((1, 2, 2, 1), 6, np.float32)
    types = (TensorType(F32, x.shape),)
    pads = ((1, 1), (1, 1))
    (valid,) = AveragePool2D((2, 2), (2, 2), pads).evaluate((x,), types)
    (every,) = AveragePool2D((2, 2), (2, 2), pads, count_include_pad=True).evaluate((x,), types)
    assert (valid == 6).all() and (every == 1.5).all()


@pytest.mark.parametrize("kind", [MaxPool2D, AveragePool2D], ids=lambda kind: kind.name)
def test_a_clamp_beyond_the_operand_moves_the_bound(kind: type[MaxPool2D] | type[AveragePool2D]) -> None:
    quant = Quant.per_tensor(1.0, 0)
    x_type = TensorType(I8, (1, 2, 2, 1), quant)
    contract = {} if kind is MaxPool2D else {"out": quant, "numerics": Numerics.TFLM}
    op = kind((2, 2), clamp=Bounds(hi=20), **contract)
    assert op.bound((Interval(50, 100),), (x_type,)) == (Interval(20, 20),)
