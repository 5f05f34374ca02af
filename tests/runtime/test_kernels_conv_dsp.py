"""Convolutions for the DSP extension: the portable bodies of their loops equal the operators in every byte."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import Layers

from trivet.backends.ckernels import Call
from trivet.backends.plan.kernels.conv_dsp import best_pixels, chunk_bytes, in_window_order
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.conv import Conv2D
from trivet.ops.matmul import Dense

DSP = frozenset({"dsp"})

CONVOLUTIONS = {
    # input shape, filters [O, KH, KW], stride, pads
    "pointwise": ((1, 5, 5, 64), (64, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise of a batch": ((2, 4, 3, 8), (16, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise with odd channels": ((1, 4, 5, 10), (7, 1, 1), (1, 1), ((0, 0), (0, 0))),
    "pointwise with stride 2": ((1, 7, 9, 16), (32, 1, 1), (2, 2), ((0, 0), (0, 0))),
    "pointwise with padding": ((1, 4, 4, 8), (6, 1, 1), (1, 1), ((1, 1), (1, 0))),
    "3x3 same": ((1, 9, 11, 16), (16, 3, 3), (1, 1), ((1, 1), (1, 1))),
    "3x3 of many channels": ((1, 5, 5, 64), (6, 3, 3), (1, 1), ((1, 1), (1, 1))),
    "3x3 stride 2, asymmetric pads": ((1, 8, 8, 12), (20, 3, 3), (2, 2), ((0, 1), (0, 1))),
    "first layer": ((1, 13, 13, 3), (8, 3, 3), (2, 2), ((0, 1), (0, 1))),
    "10x4 of one channel": ((1, 20, 10, 1), (64, 10, 4), (2, 2), ((4, 5), (1, 1))),
    "5x5 of five channels": ((1, 6, 6, 5), (3, 5, 5), (1, 1), ((2, 2), (2, 2))),
    "one column": ((1, 40, 1, 8), (12, 5, 1), (1, 1), ((2, 2), (0, 0))),
    "kernel larger than the operand": ((1, 2, 2, 5), (4, 5, 5), (1, 1), ((2, 2), (2, 2))),
    "windows of padding alone": ((1, 3, 3, 4), (5, 2, 2), (1, 1), ((3, 2), (2, 4))),
    "one pixel": ((1, 3, 3, 4), (2, 3, 3), (1, 1), ((0, 0), (0, 0))),
}


def dsp_call(node: Node, kernel: str = "conv_dsp_s8") -> Call:
    call = KERNELS.select(node, DSP)
    assert call is not None and call.kernel.name == kernel
    return call


@pytest.mark.parametrize("relu", [True, False], ids=["relu", "linear"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv2d_dsp_s8(library: ctypes.CDLL, name: str, relu: bool) -> None:
    shape, (outputs, kh, kw), stride, pads = CONVOLUTIONS[name]
    layers = Layers(sum(map(ord, name)))
    x, x_type = layers.activation(shape)
    w, out = layers.weights((outputs, kh, kw, shape[3])), layers.out(kh * kw * shape[3])
    clamp = Bounds(out.zero_point, 127) if relu else UNBOUNDED
    node = node_of(
        Conv2D(stride, (1, 1), pads, 1, clamp, out, Numerics.TFLM), x_type, w, layers.bias(outputs)
    )  # fmt: skip
    call = dsp_call(node)
    check_node(library, node, [x], call=call)
    for limit in (0, 3000, 100_000) if call.roomier is not None else ():
        check_node(library, node, [x], call=call.roomier(limit))


@given(data=st.data())
@settings(max_examples=60)
def test_swept_shapes(library: ctypes.CDLL, data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 17)), data.draw(st.integers(1, 17))
    channels, outputs = data.draw(st.integers(1, 67)), data.draw(st.integers(2, 67))
    kernel = data.draw(st.sampled_from([(1, 1), (3, 3), (1, 3), (3, 1), (2, 2), (5, 5)]))
    stride = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = tuple(data.draw(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1))) for k in kernel)
    if any(size + sum(pad) < k for size, pad, k in zip((height, width), pads, kernel, strict=True)):
        return
    layers = Layers(data.draw(st.integers(0, 1 << 16)))
    x, x_type = layers.activation((1, height, width, channels))
    w, out = layers.weights((outputs, *kernel, channels)), layers.out(kernel[0] * kernel[1] * channels)
    node = node_of(
        Conv2D(stride, (1, 1), (pads[0], pads[1]), 1, layers.clamp(out), out, Numerics.TFLM), x_type, w,
        layers.bias(outputs),
    )  # fmt: skip
    call = KERNELS.select(node, DSP)
    assert call is not None
    if channels % 4 == 0 or channels * kernel[1] <= 64:
        assert call.kernel.name == "conv_dsp_s8"
    check_node(library, node, [x], call=call)


@pytest.mark.parametrize("numerics", [Numerics.LITERT, Numerics.ONNX], ids=lambda n: n.value)
def test_other_contracts_run_where_they_are_proved(library: ctypes.CDLL, numerics: Numerics) -> None:
    layers = Layers(3)
    x, x_type = layers.activation((1, 6, 6, 16))
    out = layers.out(16, zero=-128)
    node = node_of(
        Conv2D(clamp=Bounds(-128, 127), out=out, numerics=numerics), x_type, layers.weights((8, 1, 1, 16)),
        layers.bias(8, 2000),
    )  # fmt: skip
    check_node(library, node, [x], call=dsp_call(node))


def test_dense_on_several_rows_is_a_pointwise_convolution(library: ctypes.CDLL) -> None:
    layers = Layers(8)
    x, x_type = layers.activation((5, 24))
    node = node_of(Dense(out=layers.out(24), numerics=Numerics.TFLM), x_type, layers.weights((10, 24)))
    check_node(library, node, [x], call=dsp_call(node))


def test_what_it_does_not_take_has_a_reason() -> None:
    layers = Layers(9)
    _, x_type = layers.activation((1, 5, 5, 8))
    out = layers.out(72)
    dilated = Conv2D((1, 1), (2, 2), ((2, 2), (2, 2)), 1, UNBOUNDED, out, Numerics.TFLM)
    decision = KERNELS.decide(node_of(dilated, x_type, layers.weights((8, 3, 3, 8))), DSP)
    assert decision.code is not None and decision.code.kernel.name == "conv_s8"
    assert [r.reason for r in decision.rejected if r.candidate == "conv2d_dsp"] == ["takes one group without dilation"]


def test_more_work_space_makes_larger_chunks(library: ctypes.CDLL) -> None:
    """K = 576: two pixels on the stack, 16 in 27,648 bytes of work space."""
    layers = Layers(4)
    x, x_type = layers.activation((1, 5, 5, 64))
    op = Conv2D((1, 1), (1, 1), ((1, 1), (1, 1)), 1, UNBOUNDED, layers.out(576), Numerics.TFLM)
    node = node_of(op, x_type, layers.weights((6, 3, 3, 64)))
    call = dsp_call(node)
    assert call.roomier is not None and (call.params["pixels"], call.scratch(1)) == (2, 0)
    roomy = call.roomier(1 << 16)
    assert (roomy.params["pixels"], roomy.scratch(1)) == (16, chunk_bytes(16, 144))
    assert call.roomier(100).params["pixels"] == 2
    check_node(library, node, [x], call=roomy)


def test_the_chunk_is_chosen_by_its_instructions() -> None:
    assert best_pixels(pixels=125, steps=16, limit_bytes=1024) == 6, "6 pixels share widened weights"
    assert best_pixels(pixels=125, steps=144, limit_bytes=0) == 2, "there is always room for two"
    assert best_pixels(pixels=3, steps=2, limit_bytes=4096) == 4
    assert chunk_bytes(6, 16) == 6 * 16 * 8 + 16 * 16


def test_windows_begin_with_whole_words() -> None:
    """Two kernel rows of 5 bytes: a word of each, then a byte of each, and padding."""
    ordered = in_window_order(np.arange(10).reshape(1, 10), kernel_h=2, run=5)
    assert ordered.tolist() == [[0, 1, 2, 3, 5, 6, 7, 8, 4, 9, 0, 0]]
