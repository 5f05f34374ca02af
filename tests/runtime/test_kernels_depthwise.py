"""Depthwise convolutions on int8 equal their operator in every byte, with every set of inner loops."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import KernelRun, check_node, node_of
from product_cases import CONTRACTS, Layers

from trivet.core.bounds import Bounds
from trivet.core.numerics import Numerics
from trivet.ops.conv import DepthwiseConv2D

LAYERS = {
    # input shape, kernel, multiplier, stride, dilation, pads
    "8 channels": ((1, 12, 13, 8), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "16 channels, stride 2": ((1, 13, 14, 16), (3, 3), 1, (2, 2), (1, 1), ((0, 1), (0, 1))),
    "8 channels, stride 2": ((1, 13, 18, 8), (3, 3), 1, (2, 2), (1, 1), ((0, 1), (0, 1))),
    "4 channels, stride 3": ((1, 9, 30, 4), (3, 3), 1, (3, 3), (1, 1), ((1, 1), (1, 1))),
    "32 channels of a batch": ((2, 5, 7, 32), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "64 channels": ((1, 6, 5, 64), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "256 channels, 3x3 map": ((1, 3, 3, 256), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "144 channels": ((1, 4, 5, 144), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "odd channels": ((1, 6, 7, 45), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "3 channels": ((1, 6, 7, 3), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "5x5": ((1, 9, 9, 24), (5, 5), 1, (1, 1), (1, 1), ((2, 2), (2, 2))),
    "2x4, dilated": ((1, 12, 12, 20), (2, 4), 1, (1, 1), (2, 3), ((1, 1), (5, 4))),
    "whole map": ((1, 7, 7, 48), (7, 7), 1, (1, 1), (1, 1), ((0, 0), (0, 0))),
    "one column": ((1, 50, 1, 32), (9, 1), 1, (1, 1), (1, 1), ((4, 4), (0, 0))),
    "one column, stride 2, dilated": ((1, 50, 1, 40), (3, 1), 1, (2, 1), (3, 1), ((4, 4), (0, 0))),
    "one channel of many outputs": ((1, 12, 10, 1), (10, 8), 8, (2, 2), (1, 1), ((4, 5), (3, 3))),
    "multiplier 2": ((1, 6, 7, 6), (3, 3), 2, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "more taps than pointers": ((1, 12, 12, 5), (9, 9), 1, (1, 1), (1, 1), ((4, 4), (4, 4))),
    "rows beyond the patch": ((1, 4, 40, 160), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "rows beyond the patch, stride 2": ((1, 5, 300, 16), (3, 3), 1, (2, 2), (1, 1), ((1, 1), (1, 1))),
    "pixels beyond the stack's patch": ((1, 3, 6, 2100), (3, 3), 1, (1, 1), (1, 1), ((1, 1), (1, 1))),
    "windows of padding alone": ((1, 3, 3, 32), (2, 2), 1, (1, 1), (1, 1), ((3, 2), (2, 4))),
}


@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("name", LAYERS)
def test_depthwise_conv2d_s8(core: ctypes.CDLL, name: str, numerics: Numerics) -> None:
    shape, kernel, multiplier, stride, dilation, pads = LAYERS[name]
    layers = Layers(sum(map(ord, name)))
    x, x_type = layers.activation(shape)
    channels, per_tensor = shape[3] * multiplier, numerics is Numerics.LITERT_U8
    w = layers.weights((*kernel, channels), None if per_tensor else 2, -100 if per_tensor else 0)
    out = layers.out(kernel[0] * kernel[1])
    op = DepthwiseConv2D(stride, dilation, pads, layers.clamp(out), out, numerics)
    check_node(core, node_of(op, x_type, w, layers.bias(channels, 3000)), [x])


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 0.03, 3.0, 1e6])
def test_depthwise_conv2d_s8_with_extreme_multipliers(core: ctypes.CDLL, scale: float) -> None:
    layers = Layers(5)
    x, x_type = layers.activation((1, 3, 5, 40))
    out = layers.out(9)
    out = type(out).per_tensor(out.scale / scale, out.zero_point)
    for numerics in (Numerics.TFLM, Numerics.ONNX):
        op = DepthwiseConv2D(pads=((1, 1), (1, 1)), out=out, numerics=numerics)
        check_node(core, node_of(op, x_type, layers.weights((3, 3, 40), 2), layers.bias(40, 2**31 - 1)), [x])


@pytest.mark.parametrize("name", LAYERS)
def test_depthwise_conv2d_f32(core: ctypes.CDLL, name: str) -> None:
    shape, kernel, multiplier, stride, dilation, pads = LAYERS[name]
    layers = Layers(1)
    x, x_type = layers.floats(shape)
    channels = shape[3] * multiplier
    node = node_of(
        DepthwiseConv2D(stride, dilation, pads, Bounds(-3, 6)),
        x_type,
        layers.floats((*kernel, channels)),
        layers.floats((channels,)),
    )
    check_node(core, node, [x], 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_depthwise_conv2d_s8_on_a_small_machine(device_library: ctypes.CDLL, name: str) -> None:
    test_depthwise_conv2d_s8(device_library, name, Numerics.TFLM)


@settings(max_examples=60)
@given(data=st.data())
def test_any_depthwise_conv2d_s8(library: ctypes.CDLL, data: st.DataObject) -> None:
    """Whatever fits, with the fastest set of inner loops; the portable one gives the same."""
    draw = data.draw
    channels, multiplier = draw(st.sampled_from([1, 2, 4, 8, 13, 16, 32, 50, 64])), draw(st.sampled_from([1, 1, 1, 2]))
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride, dilation = (draw(st.tuples(st.integers(1, 3), st.integers(1, 3))) for _ in range(2))
    pads = tuple(draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in range(2))
    size = [
        max(draw(st.integers(1, 12)), (k - 1) * d + 1 - sum(p)) for k, d, p in zip(kernel, dilation, pads, strict=True)
    ]
    layers = Layers(draw(st.integers(0, 1000)))
    x, x_type = layers.activation((1, *size, channels))
    out = layers.out(kernel[0] * kernel[1])
    op = DepthwiseConv2D(stride, dilation, pads, layers.clamp(out), out, draw(st.sampled_from(CONTRACTS)))
    w = layers.weights((*kernel, channels * multiplier), None, draw(st.sampled_from([0, 0, -77])))
    node = node_of(op, x_type, w, layers.bias(channels * multiplier, 3000))
    check_node(library, node, [x])
    fastest = KernelRun(library, node, [x]).run()
    library.trivet_core_s8_choose(ctypes.c_uint32(0))
    portable = KernelRun(library, node, [x]).run()
    library.trivet_core_s8_choose(ctypes.c_uint32(0xFFFFFFFF))
    np.testing.assert_array_equal(portable, fastest)
