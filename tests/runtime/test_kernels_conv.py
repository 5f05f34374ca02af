"""Convolutions and dense layers on int8 equal their operators in every byte, with every set of inner loops."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of
from product_cases import CONTRACTS, Layers

from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.ops.conv import Conv2D
from trivet.ops.matmul import Dense

CONVOLUTIONS = {
    # input shape, filters [O, KH, KW], stride, dilation, pads, groups
    "pointwise": ((1, 5, 5, 64), (64, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 1),
    "pointwise of a batch": ((2, 4, 3, 8), (16, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 1),
    "pointwise with odd channels": ((1, 4, 5, 10), (7, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 1),
    "pointwise with stride 2": ((1, 7, 9, 16), (32, 1, 1), (2, 2), (1, 1), ((0, 0), (0, 0)), 1),
    "3x3 same": ((1, 9, 11, 16), (16, 3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1),
    "3x3 stride 2, asymmetric pads": ((1, 8, 8, 12), (20, 3, 3), (2, 2), (1, 1), ((0, 1), (0, 1)), 1),
    "first layer": ((1, 13, 13, 3), (8, 3, 3), (2, 2), (1, 1), ((0, 1), (0, 1)), 1),
    "10x4 of one channel": ((1, 20, 10, 1), (64, 10, 4), (2, 2), (1, 1), ((4, 5), (1, 1)), 1),
    "dilated": ((1, 12, 12, 4), (6, 3, 3), (1, 1), (2, 3), ((2, 2), (3, 3)), 1),
    "dilated with odd channels": ((1, 12, 12, 3), (5, 3, 2), (1, 2), (3, 2), ((3, 3), (1, 1)), 1),
    "groups": ((1, 6, 7, 16), (24, 3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 4),
    "groups of odd size": ((1, 6, 7, 9), (15, 3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 3),
    "one column": ((1, 40, 1, 8), (12, 5, 1), (1, 1), (1, 1), ((2, 2), (0, 0)), 1),
    "one column, odd channels, stride 2": ((1, 31, 1, 3), (17, 4, 1), (2, 1), (1, 1), ((1, 2), (0, 0)), 1),
    "one column, dilated": ((1, 31, 1, 16), (16, 3, 1), (1, 1), (4, 1), ((8, 0), (0, 0)), 1),
    "kernel as wide as the operand": ((1, 9, 3, 4), (33, 3, 3), (1, 1), (1, 1), ((1, 1), (0, 0)), 1),
    "kernel larger than the operand": ((1, 2, 2, 5), (4, 5, 5), (1, 1), (1, 1), ((2, 2), (2, 2)), 1),
    "windows of padding alone": ((1, 3, 3, 4), (5, 2, 2), (1, 1), (1, 1), ((3, 2), (2, 4)), 1),
    "window beyond the stack's patch": ((1, 5, 5, 150), (3, 3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1),
    "window beyond the host's patch": ((1, 2, 2, 2000), (2, 3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1),
    "48 of 52 channels in vectors": ((1, 3, 9, 20), (52, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 1),
    "one column, a long window": ((1, 200, 1, 1), (5, 96, 1), (1, 1), (1, 1), ((40, 39), (0, 0)), 1),
    "one column, a long window, stride": ((1, 300, 1, 2), (33, 40, 1), (7, 1), (1, 1), ((0, 0), (0, 0)), 1),
    "one column, many dilated taps": ((1, 90, 1, 1), (3, 40, 1), (1, 1), (2, 1), ((0, 0), (0, 0)), 1),
    "one column, many dilated taps, padded": ((1, 90, 1, 3), (18, 40, 1), (2, 1), (2, 1), ((20, 21), (0, 0)), 1),
    "a row of many dilated taps": ((1, 2, 90, 1), (3, 1, 40), (1, 1), (1, 2), ((0, 0), (2, 0)), 1),
    "many taps, dilated": ((1, 20, 20, 2), (3, 6, 6), (1, 1), (2, 2), ((5, 5), (5, 5)), 1),
    "more channels than four vectors": ((1, 3, 13, 8), (118, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 1),
}


@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv2d_s8(core: ctypes.CDLL, name: str, numerics: Numerics) -> None:
    shape, (outputs, kh, kw), stride, dilation, pads, groups = CONVOLUTIONS[name]
    layers = Layers(sum(map(ord, name)))
    x, x_type = layers.activation(shape)
    w = layers.weights((outputs, kh, kw, shape[3] // groups), None if numerics is Numerics.LITERT_U8 else 0)
    out = layers.out(kh * kw * shape[3] // groups)
    op = Conv2D(stride, dilation, pads, groups, layers.clamp(out), out, numerics)
    check_node(core, node_of(op, x_type, w, layers.bias(outputs)), [x])


@pytest.mark.parametrize("zero", [-128, -3, 127])
@pytest.mark.parametrize(
    "name", ["pointwise", "3x3 same", "first layer", "groups of odd size", "48 of 52 channels in vectors"]
)
def test_conv2d_s8_with_a_zero_point_of_the_weights(core: ctypes.CDLL, name: str, zero: int) -> None:
    shape, (outputs, kh, kw), stride, dilation, pads, groups = CONVOLUTIONS[name]
    layers = Layers(zero + 200)
    x, x_type = layers.activation(shape)
    w = layers.weights((outputs, kh, kw, shape[3] // groups), None, zero)
    out = layers.out(kh * kw * shape[3] // groups)
    op = Conv2D(stride, dilation, pads, groups, layers.clamp(out), out, Numerics.LITERT_U8)
    check_node(core, node_of(op, x_type, w), [x])


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 0.03, 3.0, 1e6])
def test_conv2d_s8_with_extreme_multipliers(core: ctypes.CDLL, scale: float) -> None:
    """Shifts to the left, results at the clamp, and multipliers that vanish."""
    layers = Layers(5)
    x, x_type = layers.activation((1, 3, 5, 8))
    out = layers.out(8)
    out = type(out).per_tensor(out.scale / scale, out.zero_point)
    for numerics in (Numerics.TFLM, Numerics.ONNX):
        node = node_of(
            Conv2D(out=out, numerics=numerics), x_type, layers.weights((19, 1, 1, 8)), layers.bias(19, 2**31 - 1)
        )
        check_node(core, node, [x])


DENSE = {
    "vector": ((1, 640), 128),
    "short": ((1, 10), 3),
    "rows of a matrix": ((7, 33), 20),
    "rank 3": ((1, 6, 16), 16),
    "rank 4": ((2, 3, 4, 12), 9),
    "rank 1": ((17,), 5),
    "long": ((1, 2500), 3),
    "long, and no whole words": ((1, 2501), 3),
    "longer than the host's patch": ((2, 20001), 2),
}


@pytest.mark.parametrize("numerics", CONTRACTS, ids=lambda n: n.value)
@pytest.mark.parametrize("name", DENSE)
def test_dense_s8(core: ctypes.CDLL, name: str, numerics: Numerics) -> None:
    shape, outputs = DENSE[name]
    layers = Layers(sum(map(ord, name)))
    x, x_type = layers.activation(shape)
    out = layers.out(shape[-1])
    w = layers.weights((outputs, shape[-1]), None if numerics is Numerics.LITERT_U8 else 0)
    check_node(core, node_of(Dense(layers.clamp(out), out, numerics), x_type, w, layers.bias(outputs)), [x])


@pytest.mark.parametrize(("name", "kernel"), [("vector", "dense_s8"), ("short", "dense_s8"), ("rank 3", "conv_s8")])
def test_one_vector_has_a_small_kernel(name: str, kernel: str) -> None:
    shape, outputs = DENSE[name]
    layers = Layers(0)
    _, x_type = layers.activation(shape)
    call = KERNELS.select(
        node_of(Dense(out=layers.out(8), numerics=Numerics.TFLM), x_type, layers.weights((outputs, shape[-1])))
    )
    assert call is not None and call.kernel.name == kernel


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv2d_f32(core: ctypes.CDLL, name: str) -> None:
    shape, (outputs, kh, kw), stride, dilation, pads, groups = CONVOLUTIONS[name]
    layers = Layers(1)
    x, x_type = layers.floats(shape)
    w = layers.floats((outputs, kh, kw, shape[3] // groups))
    bias = [] if groups > 1 else [layers.floats((outputs,))]
    for clamp in (UNBOUNDED, Bounds(0, 6)):
        check_node(core, node_of(Conv2D(stride, dilation, pads, groups, clamp), x_type, w, *bias), [x], 1e-5)


@pytest.mark.parametrize("name", DENSE)
def test_dense_f32(core: ctypes.CDLL, name: str) -> None:
    shape, outputs = DENSE[name]
    layers = Layers(2)
    x, x_type = layers.floats(shape)
    w = layers.floats((outputs, shape[-1]))
    check_node(core, node_of(Dense(), x_type, w, layers.floats((outputs,))), [x], 1e-5)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv2d_s8_on_a_small_machine(device_library: ctypes.CDLL, name: str) -> None:
    test_conv2d_s8(device_library, name, Numerics.TFLM)


@settings(max_examples=60)
@given(data=st.data())
def test_any_conv2d_s8(library: ctypes.CDLL, data: st.DataObject) -> None:
    """The fastest set of inner loops on whatever fits."""
    draw = data.draw
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    channels, outputs = groups * draw(st.integers(1, 9)), groups * draw(st.integers(1, 20))
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride, dilation = (draw(st.tuples(st.integers(1, 3), st.integers(1, 3))) for _ in range(2))
    pads = tuple(draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in range(2))
    size = [
        max(draw(st.integers(1, 12)), (k - 1) * d + 1 - sum(p)) for k, d, p in zip(kernel, dilation, pads, strict=True)
    ]
    layers = Layers(draw(st.integers(0, 1000)))
    x, x_type = layers.activation((draw(st.integers(1, 2)), *size, channels))
    out = layers.out(kernel[0] * kernel[1] * channels // groups)
    op = Conv2D(stride, dilation, pads, groups, layers.clamp(out), out, draw(st.sampled_from(CONTRACTS)))
    w = layers.weights((outputs, *kernel, channels // groups), None, draw(st.sampled_from([0, 0, -77])))
    check_node(library, node_of(op, x_type, w, layers.bias(outputs)), [x])
