"""Depthwise convolutions for the DSP extension: the portable bodies of their loops equal the operator in every byte."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import Layers

from trivet.backends.plan.kernels.depthwise_dsp import pack_taps
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.ops.conv import DepthwiseConv2D

DSP = frozenset({"dsp"})

LAYERS = {
    # height, width, channels, stride, pads
    "same": (5, 7, 8, (1, 1), ((1, 1), (1, 1))),
    "one column": (9, 1, 4, (1, 1), ((1, 1), (1, 1))),
    "several strips": (4, 75, 4, (1, 1), ((1, 1), (1, 1))),
    "stride 2": (9, 11, 12, (2, 2), ((1, 1), (1, 1))),
    "stride 2, asymmetric pads": (8, 8, 16, (2, 2), ((0, 1), (0, 1))),
    "stride 2, several strips": (3, 70, 4, (2, 2), ((1, 0), (1, 1))),
    "without padding": (4, 4, 4, (1, 1), ((0, 0), (0, 0))),
    "columns of padding alone": (3, 2, 4, (1, 1), ((3, 3), (4, 4))),
    "unequal strides": (9, 9, 4, (3, 2), ((1, 1), (0, 0))),
}


@pytest.mark.parametrize("relu", [True, False], ids=["relu", "linear"])
@pytest.mark.parametrize("name", LAYERS)
def test_depthwise_dsp_s8(library: ctypes.CDLL, name: str, relu: bool) -> None:
    height, width, channels, stride, pads = LAYERS[name]
    layers = Layers(sum(map(ord, name)))
    x, x_type = layers.activation((1, height, width, channels))
    out = layers.out(9)
    clamp = Bounds(out.zero_point, 127) if relu else UNBOUNDED
    op = DepthwiseConv2D(stride, (1, 1), pads, clamp, out, Numerics.TFLM)
    node = node_of(op, x_type, layers.weights((3, 3, channels), 2), layers.bias(channels, 2000))
    call = KERNELS.select(node, DSP)
    assert call is not None and call.kernel.name == "depthwise_dsp_s8"
    check_node(library, node, [x], call=call)


@given(data=st.data())
@settings(max_examples=40)
def test_swept_depthwise_shapes(library: ctypes.CDLL, data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 17)), data.draw(st.integers(1, 17))
    stride = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pads = tuple(data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(2))
    if any(size + sum(pad) < 3 for size, pad in zip((height, width), pads, strict=True)):
        return
    channels = 4 * data.draw(st.integers(1, 5))
    layers = Layers(data.draw(st.integers(0, 1 << 16)))
    x, x_type = layers.activation((1, height, width, channels))
    out = layers.out(9)
    op = DepthwiseConv2D(stride, (1, 1), (pads[0], pads[1]), layers.clamp(out), out, Numerics.TFLM)
    node = node_of(op, x_type, layers.weights((3, 3, channels), 2), layers.bias(channels, 2000))
    call = KERNELS.select(node, DSP)
    assert call is not None and call.kernel.name == "depthwise_dsp_s8"
    check_node(library, node, [x], call=call)


def test_depthwise_weights_lie_in_the_order_of_their_use() -> None:
    packed = pack_taps(np.arange(36).reshape(4, 9))
    assert packed.shape == (1, 36)
    assert packed[0, :8].tolist() == [0, 1, 3, 4, 2, 6, 5, 7] and packed[0, 32:].tolist() == [8, 17, 26, 35]
