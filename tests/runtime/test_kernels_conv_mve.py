"""Convolutions and dense layers for Helium: the portable bodies of their loops equal the operators in every byte."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import Layers

from trivet.backends.ckernels import Call
from trivet.backends.plan.kernels.mve import pack_paired, pack_together
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Node
from trivet.ops.conv import Conv2D
from trivet.ops.matmul import Dense

MVE = frozenset({"mve"})

CONVOLUTIONS = {
    # input shape, filters [O, KH, KW], stride, pads
    "pointwise": ((1, 5, 5, 64), (64, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise of one vector": ((1, 6, 6, 16), (32, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise of half a vector": ((2, 4, 3, 8), (16, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise with odd channels": ((1, 4, 5, 10), (7, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise with stride 2": ((1, 7, 9, 12), (32, 1, 1), (2, 2), ((0, 0), (0, 0))),
    "pointwise with padding": ((1, 4, 4, 8), (6, 1, 1), (1, 1), ((1, 1), (1, 0))),
    "rows shorter than a vector": ((1, 4, 2, 3), (5, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "3x3 same": ((1, 9, 11, 16), (16, 3, 3), (1, 1), ((1, 1), (1, 1))),
    "3x3 of many channels": ((1, 5, 5, 64), (6, 3, 3), (1, 1), ((1, 1), (1, 1))),
    "3x3 stride 2, asymmetric pads": ((1, 8, 8, 12), (20, 3, 3), (2, 2), ((0, 1), (0, 1))),
    "first layer": ((1, 13, 13, 3), (8, 3, 3), (2, 2), ((0, 1), (0, 1))),
    "10x4 of one channel": ((1, 20, 10, 1), (64, 10, 4), (2, 2), ((4, 5), (1, 1))),
    "kernel larger than the operand": ((1, 2, 2, 5), (4, 5, 5), (1, 1), ((2, 2), (2, 2))),
    "windows of padding alone": ((1, 3, 3, 4), (5, 2, 2), (1, 1), ((3, 2), (2, 4))),
    "one column": ((1, 40, 1, 8), (12, 5, 1), (1, 1), ((2, 2), (0, 0))),
}


def mve_call(node: Node, kernel: str) -> Call:
    call = KERNELS.select(node, MVE)
    assert call is not None and call.kernel.name == kernel
    return call


def conv_node(layers: Layers, case: tuple[object, ...], clamp: str) -> tuple[Node, np.ndarray]:
    shape, (outputs, kh, kw), stride, pads = case  # type: ignore[misc]
    x, x_type = layers.activation(shape)
    w, out = layers.weights((outputs, kh, kw, shape[3])), layers.out(kh * kw * shape[3])
    bounds = {"relu": Bounds(out.zero_point, 127), "linear": UNBOUNDED, "inner": Bounds(-100, 100)}[clamp]
    op = Conv2D(stride, (1, 1), pads, 1, bounds, out, Numerics.TFLM)
    return node_of(op, x_type, w, layers.bias(outputs)), x


@pytest.mark.parametrize("clamp", ["relu", "linear", "inner"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv2d_mve_s8(library: ctypes.CDLL, name: str, clamp: str) -> None:
    node, x = conv_node(Layers(sum(map(ord, name))), CONVOLUTIONS[name], clamp)
    check_node(library, node, [x], call=mve_call(node, "conv_mve_s8"))


@given(data=st.data())
@settings(max_examples=60)
def test_swept_shapes(library: ctypes.CDLL, data: st.DataObject) -> None:
    size = data.draw(st.tuples(st.integers(1, 17), st.integers(1, 17)))
    channels, outputs = data.draw(st.integers(1, 67)), data.draw(st.integers(4, 67))
    kernel = data.draw(st.sampled_from([(1, 1), (3, 3), (1, 3), (3, 1), (2, 2), (5, 5)]))
    stride = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = tuple(data.draw(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1))) for k in kernel)
    if any(extent + sum(pad) < k for extent, pad, k in zip(size, pads, kernel, strict=True)):
        return
    layers = Layers(data.draw(st.integers(0, 1 << 16)))
    case = ((1, *size, channels), (outputs, *kernel), stride, pads)
    node, x = conv_node(layers, case, data.draw(st.sampled_from(["relu", "linear", "inner"])))
    check_node(library, node, [x], call=mve_call(node, "conv_mve_s8"))


@pytest.mark.parametrize(
    ("features", "outputs"), [(1, 4), (8, 128), (16, 5), (128, 8), (130, 10), (640, 128), (700, 7), (33, 67)]
)
@pytest.mark.parametrize("relu", [True, False], ids=["relu", "linear"])
def test_dense_mve_s8(library: ctypes.CDLL, features: int, outputs: int, relu: bool) -> None:
    layers = Layers(features + outputs)
    x, x_type = layers.activation((1, features))
    out = layers.out(features)
    clamp = Bounds(out.zero_point, 127) if relu else UNBOUNDED
    op = Dense(clamp, out, Numerics.TFLM)
    node = node_of(op, x_type, layers.weights((outputs, features)), layers.bias(outputs))
    check_node(library, node, [x], call=mve_call(node, "dense_mve_s8"))


def test_several_pixels_of_a_dense_layer_are_a_convolution(library: ctypes.CDLL) -> None:
    layers = Layers(5)
    x, x_type = layers.activation((3, 20))
    node = node_of(Dense(UNBOUNDED, layers.out(20), Numerics.TFLM), x_type, layers.weights((9, 20)), layers.bias(9))
    check_node(library, node, [x], call=mve_call(node, "conv_mve_s8"))


def test_the_reason_why_it_does_not_run_a_layer_is_given() -> None:
    layers = Layers(1)
    _, x_type = layers.activation((1, 4, 4, 8))

    def reason(op: Conv2D, outputs: int = 8, kernel: int = 1) -> str:
        weights = layers.weights((outputs, kernel, kernel, 8 // op.groups))
        found = KERNELS.decide(node_of(op, x_type, weights, layers.bias(outputs)), MVE)
        return next(r.reason for r in found.rejected if r.candidate == "conv2d_mve")

    out = layers.out(8)
    pads = ((0, 0), (0, 0))
    assert "dilation" in reason(Conv2D((1, 1), (2, 2), pads, 1, UNBOUNDED, out, Numerics.TFLM), kernel=2)
    assert "4 output channels" in reason(Conv2D((1, 1), (1, 1), pads, 1, UNBOUNDED, out, Numerics.TFLM), outputs=3)
    assert "float64" in reason(Conv2D((1, 1), (1, 1), pads, 1, UNBOUNDED, out, Numerics.ONNX))
    wide = Quant.per_tensor(1e-6, 0)
    assert "1/2 or more" in reason(Conv2D((1, 1), (1, 1), pads, 1, UNBOUNDED, wide, Numerics.TFLM))


def test_weights_lie_as_the_kernels_read_them() -> None:
    weights = np.arange(4 * 17).reshape(4, 17).astype(np.int8)
    paired, together = pack_paired(weights), pack_together(weights)
    assert paired.shape == (1, 2, 2, 2, 16) and together.shape == (1, 2, 4, 16)
    assert list(paired[0, 0, 0, :, 3]) == [3, 2 * 17 + 3] and list(paired[0, 1, 0, :, 3]) == [17 + 3, 3 * 17 + 3]
    assert list(together[0, 1, :, 0]) == [16, 33, 50, 67] and not together[0, 1, :, 1:].any()
