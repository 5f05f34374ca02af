"""Depthwise convolutions for Helium: the portable body of their loop equals the operator in every byte."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import Layers

from trivet.backends.plan.kernels.depthwise_mve import pack_quarters
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.conv import DepthwiseConv2D

MVE = frozenset({"mve"})
Pads = tuple[tuple[int, int], tuple[int, int]]

LAYERS: dict[str, tuple[tuple[int, ...], tuple[int, int], Pads]] = {
    # input shape, stride, pads
    "64 channels": ((1, 6, 5, 64), (1, 1), ((1, 1), (1, 1))),
    "stride 2": ((1, 8, 8, 32), (2, 2), ((0, 1), (0, 1))),
    "channels that are no whole blocks": ((1, 5, 7, 40), (1, 1), ((1, 1), (1, 1))),
    "17 channels": ((1, 4, 4, 17), (2, 1), ((1, 0), (1, 1))),
    "8 channels": ((1, 7, 12, 8), (1, 1), ((1, 1), (1, 1))),
    "8 channels, an odd number of pixels": ((2, 5, 9, 8), (1, 1), ((1, 1), (1, 1))),
    "8 channels, two pixels": ((1, 3, 2, 8), (2, 1), ((1, 1), (1, 1))),
    "more zero points than the stack holds": ((1, 3, 3, 272), (1, 1), ((1, 1), (1, 1))),
    "windows of padding alone": ((1, 2, 3, 16), (1, 1), ((4, 3), (3, 4))),
    "one column": ((1, 9, 1, 32), (1, 1), ((1, 1), (1, 1))),
}


def layer(
    layers: Layers, shape: tuple[int, ...], stride: tuple[int, int], pads: Pads, clamp: str
) -> tuple[Node, np.ndarray]:
    x, x_type = layers.activation(shape)
    weights, w_type = layers.weights((3, 3, shape[3]), axis=2)
    out = layers.out(9)
    bounds = {"relu": Bounds(out.zero_point, 127), "linear": UNBOUNDED, "inner": Bounds(-100, 100)}[clamp]
    op = DepthwiseConv2D(stride, (1, 1), pads, bounds, out, Numerics.TFLM)
    return node_of(op, x_type, (np.maximum(weights, -127), w_type), layers.bias(shape[3])), x


def check(library: ctypes.CDLL, node: Node, x: np.ndarray) -> None:
    call = KERNELS.select(node, MVE)
    assert call is not None and call.kernel.name == "depthwise_mve_s8"
    check_node(library, node, [x], call=call)


@pytest.mark.parametrize("clamp", ["relu", "linear", "inner"])
@pytest.mark.parametrize("name", LAYERS)
def test_depthwise_mve_s8(library: ctypes.CDLL, name: str, clamp: str) -> None:
    node, x = layer(Layers(sum(map(ord, name))), *LAYERS[name], clamp)
    check(library, node, x)


def test_results_of_the_whole_range(library: ctypes.CDLL) -> None:
    layers = Layers(9)
    x, x_type = layers.activation((1, 6, 6, 16), zero=-128)
    weights, w_type = layers.weights((3, 3, 16), axis=2)
    op = DepthwiseConv2D((1, 1), (1, 1), ((1, 1), (1, 1)), Bounds(-128, 127), layers.out(9, zero=-128), Numerics.TFLM)
    check(library, node_of(op, x_type, (np.maximum(weights, -127), w_type), layers.bias(16)), x)


@given(data=st.data())
@settings(max_examples=50)
def test_swept_shapes(library: ctypes.CDLL, data: st.DataObject) -> None:
    size = data.draw(st.tuples(st.integers(1, 17), st.integers(1, 17)))
    stride = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = data.draw(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 2))
    if any(extent + sum(pad) < 3 for extent, pad in zip(size, pads, strict=True)):
        return
    width = (size[1] + sum(pads[1]) - 3) // stride[1] + 1
    channels = 8 if stride[1] == 1 and width >= 2 and data.draw(st.booleans()) else data.draw(st.integers(16, 67))
    node, x = layer(
        Layers(data.draw(st.integers(0, 1 << 16))),
        (1, *size, channels),
        stride,
        pads,
        data.draw(st.sampled_from(["relu", "linear", "inner"])),
    )
    check(library, node, x)


def test_a_weight_of_minus_128_is_left_to_others() -> None:
    layers = Layers(3)
    _, x_type = layers.activation((1, 4, 4, 16))
    weights, w_type = layers.weights((3, 3, 16), axis=2)
    weights[0, 0, 0] = -128
    op = DepthwiseConv2D((1, 1), (1, 1), ((1, 1), (1, 1)), UNBOUNDED, layers.out(9), Numerics.TFLM)
    found = KERNELS.decide(node_of(op, x_type, (weights, w_type), layers.bias(16)), MVE)
    assert found.code is not None and found.code.kernel.name == "depthwise_s8"
    assert any("-128" in rejection.reason for rejection in found.rejected)


def test_numbers_lie_as_products_are_widened() -> None:
    packed = pack_quarters(np.arange(48).reshape(3, 16))
    assert packed.shape == (1, 4, 3, 4)
    assert [list(quarter[0]) for quarter in packed[0]] == [[0, 4, 8, 12], [2, 6, 10, 14], [1, 5, 9, 13], [3, 7, 11, 15]]
