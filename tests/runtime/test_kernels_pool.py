"""Pools on int8 and float32 equal their operators."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import CONTRACTS, Layers

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.types import TensorType
from trivet.ops.pool import AveragePool2D, MaxPool2D

LAYERS = {
    # input shape, kernel, stride, pads
    "2x2": ((1, 8, 10, 16), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "3x3 same": ((2, 7, 6, 5), (3, 3), (1, 1), ((1, 1), (1, 1))),
    "3x2, asymmetric": ((1, 9, 8, 70), (3, 2), (2, 3), ((0, 2), (1, 0))),
    "whole map": ((1, 25, 5, 64), (25, 5), (1, 1), ((0, 0), (0, 0))),
    "one column": ((1, 31, 1, 12), (4, 1), (3, 1), ((1, 2), (0, 0))),
    "one channel": ((1, 6, 6, 1), (2, 2), (1, 1), ((0, 0), (0, 0))),
}


def pooled(x: TensorType, numerics: Numerics, layers: Layers) -> Quant:
    """TensorFlow Lite's integer pools keep the quantization; ONNX's have one of their own."""
    assert x.quant is not None
    return (
        Quant.per_tensor(x.quant.scale * 0.8, int(layers.rng.integers(-99, 99)))
        if numerics is Numerics.ONNX
        else x.quant
    )


@pytest.mark.parametrize("clamp", [UNBOUNDED, Bounds(-20, 30)], ids=["unbounded", "clamped"])
@pytest.mark.parametrize("name", LAYERS)
def test_max_pool2d(library: ctypes.CDLL, name: str, clamp: Bounds) -> None:
    shape, kernel, stride, pads = LAYERS[name]
    layers = Layers(3)
    x, x_type = layers.activation(shape)
    check_node(library, node_of(MaxPool2D(kernel, stride, (1, 1), pads, clamp), x_type), [x])
    x, x_type = layers.floats(shape)
    check_node(
        library, node_of(MaxPool2D(kernel, stride, (1, 1), pads, Bounds(clamp.lo / 40, clamp.hi / 40)), x_type), [x], 0
    )


def test_max_pool2d_dilated(library: ctypes.CDLL) -> None:
    x, x_type = Layers(4).activation((1, 12, 13, 6))
    check_node(library, node_of(MaxPool2D((3, 2), (2, 1), (2, 3), ((2, 2), (1, 1))), x_type), [x])


@pytest.mark.parametrize("include_pad", [False, True], ids=["valid taps", "padding counts"])
@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("name", LAYERS)
def test_average_pool2d_s8(library: ctypes.CDLL, name: str, numerics: Numerics, include_pad: bool) -> None:
    shape, kernel, stride, pads = LAYERS[name]
    layers = Layers(5)
    x, x_type = layers.activation(shape)
    for clamp in (UNBOUNDED, Bounds(-5, 6)):
        op = AveragePool2D(kernel, stride, pads, include_pad, clamp, pooled(x_type, numerics, layers), numerics)
        check_node(library, node_of(op, x_type), [x])


@pytest.mark.parametrize("include_pad", [False, True], ids=["valid taps", "padding counts"])
@pytest.mark.parametrize("name", LAYERS)
def test_average_pool2d_f32(library: ctypes.CDLL, name: str, include_pad: bool) -> None:
    shape, kernel, stride, pads = LAYERS[name]
    x, x_type = Layers(6).floats(shape)
    check_node(library, node_of(AveragePool2D(kernel, stride, pads, include_pad, Bounds(-0.5, 0.7)), x_type), [x], 1e-5)


@settings(max_examples=50)
@given(data=st.data())
def test_any_average_pool2d_s8(library: ctypes.CDLL, data: st.DataObject) -> None:
    """Ties are frequent in small windows."""
    draw = data.draw
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pads = tuple(draw(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1))) for k in kernel)
    size = [max(draw(st.integers(1, 9)), k - sum(p)) for k, p in zip(kernel, pads, strict=True)]
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    layers = Layers(draw(st.integers(0, 1000)))
    x, x_type = layers.activation((1, *size, draw(st.integers(1, 5))))
    numerics = draw(st.sampled_from(CONTRACTS))
    op = AveragePool2D(kernel, stride, pads, draw(st.booleans()), UNBOUNDED, pooled(x_type, numerics, layers), numerics)
    check_node(library, node_of(op, x_type), [x])
