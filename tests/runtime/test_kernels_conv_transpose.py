"""Transposed convolutions on int8 and float32 equal their operator, with every set of inner loops."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import CONTRACTS, Layers

from trivet.core.bounds import Bounds
from trivet.core.numerics import Numerics
from trivet.ops.conv import ConvTranspose2D

LAYERS = {
    # input shape, filters [O, KH, KW], stride, dilation, pads, output pads, groups
    "2x2 stride 2": ((1, 5, 6, 8), (12, 2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)), (0, 0), 1),
    "4x4 stride 2": ((1, 5, 6, 16), (20, 4, 4), (2, 2), (1, 1), ((1, 1), (1, 1)), (0, 0), 1),
    "3x3 stride 2, output pads": ((2, 4, 5, 5), (7, 3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "3x3 stride 1": ((1, 6, 5, 12), (9, 3, 3), (1, 1), (1, 1), ((1, 0), (0, 1)), (0, 0), 1),
    "stride beyond the kernel": ((1, 4, 4, 4), (5, 2, 1), (3, 4), (1, 1), ((0, 0), (0, 0)), (2, 3), 1),
    "dilated": ((1, 5, 5, 8), (6, 3, 2), (2, 3), (2, 2), ((1, 2), (0, 1)), (0, 0), 1),
    "groups": ((1, 4, 5, 12), (8, 3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (0, 0), 2),
    "groups of odd size": ((1, 4, 5, 9), (6, 3, 3), (2, 1), (1, 1), ((1, 1), (1, 1)), (0, 0), 3),
    "one column": ((1, 12, 1, 16), (8, 4, 1), (2, 1), (1, 1), ((1, 1), (0, 0)), (0, 0), 1),
    "window beyond the stack's patch": ((1, 3, 3, 150), (3, 3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (0, 0), 1),
    "window beyond the host's patch": ((1, 2, 2, 2001), (2, 3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), (0, 0), 1),
}


@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("name", LAYERS)
def test_conv_transpose2d_s8(core: ctypes.CDLL, name: str, numerics: Numerics) -> None:
    shape, (outputs, kh, kw), stride, dilation, pads, extra, groups = LAYERS[name]
    layers = Layers(sum(map(ord, name)))
    x, x_type = layers.activation(shape)
    per_tensor = numerics is Numerics.LITERT_U8
    w = layers.weights((outputs, kh, kw, shape[3] // groups), None if per_tensor else 0, -90 if per_tensor else 0)
    out = layers.out(kh * kw * shape[3] // groups)
    op = ConvTranspose2D(stride, dilation, pads, extra, groups, layers.clamp(out), out, numerics)
    check_node(core, node_of(op, x_type, w, layers.bias(outputs, 3000)), [x])


@pytest.mark.parametrize("name", LAYERS)
def test_conv_transpose2d_f32(core: ctypes.CDLL, name: str) -> None:
    shape, (outputs, kh, kw), stride, dilation, pads, extra, groups = LAYERS[name]
    layers = Layers(1)
    x, x_type = layers.floats(shape)
    op = ConvTranspose2D(stride, dilation, pads, extra, groups, Bounds(-4, 5))
    w = layers.floats((outputs, kh, kw, shape[3] // groups))
    check_node(core, node_of(op, x_type, w, layers.floats((outputs,))), [x], 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_conv_transpose2d_s8_on_a_small_machine(device_library: ctypes.CDLL, name: str) -> None:
    test_conv_transpose2d_s8(device_library, name, Numerics.TFLM)


@settings(max_examples=60)
@given(data=st.data())
def test_any_conv_transpose2d_s8(library: ctypes.CDLL, data: st.DataObject) -> None:
    draw = data.draw
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, stride, dilation, size = draw(pair), draw(pair), draw(pair), draw(pair)
    pads = tuple(draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in range(2))
    extra = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    groups = draw(st.sampled_from([1, 1, 2]))
    assume(
        all(
            (n - 1) * s + (k - 1) * d + 1 - sum(p) + e > 0
            for n, s, k, d, p, e in zip(size, stride, kernel, dilation, pads, extra, strict=True)
        )
    )
    inputs, outputs = groups * draw(st.integers(1, 6)), groups * draw(st.integers(1, 9))
    layers = Layers(draw(st.integers(0, 1000)))
    x, x_type = layers.activation((1, *size, inputs))
    out = layers.out(kernel[0] * kernel[1] * inputs // groups)
    w = layers.weights((outputs, *kernel, inputs // groups), None, draw(st.sampled_from([0, 0, -77])))
    op = ConvTranspose2D(
        stride, dilation, pads, extra, groups, layers.clamp(out), out, draw(st.sampled_from(CONTRACTS))
    )
    check_node(library, node_of(op, x_type, w, layers.bias(outputs, 3000)), [x])
