"""Convolutions, pools, resizes and normalizations: imported graphs against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import agrees, model, node, rand

from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.quantize import Dequantize

X = rand(2, 4, 9, 7)
X1 = rand(2, 4, 11)


def conv(inputs: str = "x w b", kind: str = "Conv", **attributes: object) -> onnx.NodeProto:
    return node(kind, inputs, **attributes)


CONVOLUTIONS = {
    "plain": (X, (6, 4, 3, 3), {}),
    "asymmetric pads, stride, dilation": (
        X,
        (6, 4, 3, 2),
        {"pads": [2, 0, 1, 3], "strides": [2, 1], "dilations": [1, 2]},
    ),
    "same upper": (X, (6, 4, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": (X, (6, 4, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "valid": (X, (6, 4, 3, 3), {"auto_pad": "VALID"}),
    "groups": (X, (6, 2, 3, 3), {"group": 2}),
    "depthwise": (X, (4, 1, 3, 3), {"group": 4}),
    "depthwise with multiplier": (X, (8, 1, 3, 3), {"group": 4, "dilations": [2, 1]}),
    "1-D": (X1, (6, 4, 3), {"pads": [1, 2], "strides": [2]}),
    "1-D depthwise, causal": (X1, (4, 1, 3), {"group": 4, "pads": [4, 0], "dilations": [2]}),
    "1xN kernel": (X, (6, 4, 1, 5), {}),
}


@pytest.mark.parametrize("title", CONVOLUTIONS)
def test_convolution(title: str, tmp_path: Path) -> None:
    x, shape, attributes = CONVOLUTIONS[title]
    constants = {"w": rand(*shape, seed=1), "b": rand(shape[0], seed=2)}
    loaded = agrees(model([conv(**attributes)], {"x": x}, constants=constants), {"x": x}, tmp_path)
    wanted = DepthwiseConv2D if "depthwise" in title else Conv2D
    assert any(isinstance(n.op, wanted) for n in loaded.graph.nodes)


def test_convolution_without_bias_and_with_computed_weights(tmp_path: Path) -> None:
    nodes = [node("Add", "w w", "w2"), conv("x w2")]
    inputs = {"x": X, "w": rand(5, 4, 3, 3)}
    agrees(model(nodes, inputs), inputs, tmp_path)


def test_group_of_one_channel_is_an_ordinary_convolution(tmp_path: Path) -> None:
    x = rand(1, 1, 6, 6)
    agrees(model([conv("x w")], {"x": x}, constants={"w": rand(3, 1, 3, 3)}), {"x": x}, tmp_path)


TRANSPOSED = {
    "plain": (X, (4, 3, 3, 3), {}),
    "pads and output padding": (X, (4, 3, 4, 4), {"pads": [1, 1, 1, 1], "strides": [2, 2], "output_padding": [1, 0]}),
    "pads not divisible by the stride": (X, (4, 3, 5, 4), {"pads": [1, 0, 2, 1], "strides": [3, 2]}),
    "dilation": (X, (4, 3, 3, 2), {"dilations": [2, 3]}),
    "groups": (X, (4, 3, 3, 3), {"group": 2, "strides": [2, 1]}),
    "output shape": (X, (4, 3, 3, 3), {"output_shape": [18, 15], "strides": [2, 2]}),
    "same upper": (X, (4, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "1-D": (X1, (4, 3, 4), {"strides": [2], "pads": [1, 1]}),
}


@pytest.mark.parametrize("title", TRANSPOSED)
def test_transposed_convolution(title: str, tmp_path: Path) -> None:
    x, shape, attributes = TRANSPOSED[title]
    bias = rand(shape[1] * attributes.get("group", 1), seed=2)
    constants = {"w": rand(*shape, seed=1), "b": bias}
    agrees(model([conv(kind="ConvTranspose", **attributes)], {"x": x}, constants=constants), {"x": x}, tmp_path)


POOLS = {
    "max": ("MaxPool", X, {"kernel_shape": [3, 2], "strides": [2, 1]}),
    "max, pads": ("MaxPool", X, {"kernel_shape": [3, 3], "pads": [1, 0, 0, 2]}),
    "max, ceil": ("MaxPool", X, {"kernel_shape": [2, 3], "strides": [2, 3], "ceil_mode": 1}),
    "max, ceil and pads": (
        "MaxPool",
        X,
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0], "ceil_mode": 1},
    ),
    "max, dilation": ("MaxPool", X, {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    "max, same": ("MaxPool", X, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "max, 1-D": ("MaxPool", X1, {"kernel_shape": [3], "strides": [2]}),
    "max, window wider than the operand": ("MaxPool", rand(1, 2, 1, 1), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "average": ("AveragePool", X, {"kernel_shape": [3, 2], "strides": [2, 1]}),
    "average, pads": ("AveragePool", X, {"kernel_shape": [3, 3], "pads": [1, 0, 0, 2]}),
    "average, padding counts": (
        "AveragePool",
        X,
        {"kernel_shape": [3, 3], "pads": [1, 1, 0, 2], "count_include_pad": 1},
    ),
    "average, ceil": ("AveragePool", X, {"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1}),
    "average, 1-D": ("AveragePool", X1, {"kernel_shape": [4], "pads": [1, 1]}),
    "global average": ("GlobalAveragePool", X, {}),
    "global average, 1-D": ("GlobalAveragePool", X1, {}),
    "global max": ("GlobalMaxPool", X, {}),
    "local response": ("LRN", X, {"size": 3, "alpha": 0.1, "beta": 0.6, "bias": 1.5}),
}


@pytest.mark.parametrize("title", POOLS)
def test_pool(title: str, tmp_path: Path) -> None:
    kind, x, attributes = POOLS[title]
    agrees(model([node(kind, "x", **attributes)], {"x": x}), {"x": x}, tmp_path)


def test_average_pool_counts_stated_padding_but_not_what_ceil_mode_adds(tmp_path: Path) -> None:
    pool = node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1, count_include_pad=1)
    x = rand(1, 2, 6, 8)
    agrees(model([pool], {"x": x}, opset=19), {"x": x}, tmp_path)


SCALES = np.array([1, 1, 2, 3], np.float32)
RESIZES = {
    "nearest, whole factors": (
        "x - s",
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "nearest, half pixel": ("x - s", {"mode": "nearest"}),
    "nearest, ceil": (
        "x - s",
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"},
    ),
    "linear, half pixel": ("x - s", {"mode": "linear"}),
    "linear, align corners, sizes": ("x - - z", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    "linear, asymmetric, sizes": ("x - - z", {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
    "linear, pytorch half pixel": (
        "x - - z",
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
}


@pytest.mark.parametrize("title", RESIZES)
def test_resize(title: str, tmp_path: Path) -> None:
    inputs, attributes = RESIZES[title]
    constants = {"s": SCALES, "z": np.array([2, 4, 13, 5])}
    used = {name: array for name, array in constants.items() if name in inputs.split()}
    agrees(model([node("Resize", inputs, **attributes)], {"x": X}, constants=used), {"x": X}, tmp_path)


def test_resize_of_a_sequence(tmp_path: Path) -> None:
    proto = model([node("Resize", "x - s", mode="nearest")], {"x": X1}, constants={"s": np.float32([1, 1, 2])})
    agrees(proto, {"x": X1}, tmp_path)


@pytest.mark.parametrize("opset", [7, 9])
def test_upsample_states_scales_as_attribute_or_operand(opset: int, tmp_path: Path) -> None:
    if opset == 7:
        proto = model([node("Upsample", "x", scales=[1.0, 1.0, 2.0, 3.0])], {"x": X}, opset=7)
    else:
        proto = model([node("Upsample", "x s")], {"x": X}, constants={"s": SCALES}, opset=9)
    agrees(proto, {"x": X}, tmp_path)


def test_resize_before_operator_set_11(tmp_path: Path) -> None:
    agrees(
        model([node("Resize", "x s", mode="linear")], {"x": X}, constants={"s": SCALES}, opset=10), {"x": X}, tmp_path
    )


CHANNELS = {name: np.abs(rand(4, seed=i)) + 0.1 for i, name in enumerate("gbmv")}
NORMALIZATIONS = {
    "batch": (X, "BatchNormalization", "x g b m v", {"epsilon": 0.01}, CHANNELS),
    "batch, matrix": (rand(3, 4), "BatchNormalization", "x g b m v", {}, CHANNELS),
    "batch, 1-D": (X1, "BatchNormalization", "x g b m v", {}, CHANNELS),
    "instance": (X, "InstanceNormalization", "x g b", {}, {k: CHANNELS[k] for k in "gb"}),
    "layer": (X, "LayerNormalization", "x g b", {"axis": -2}, {"g": rand(9, 7), "b": rand(9, 7)}),
    "mean and variance": (X, "MeanVarianceNormalization", "x", {}, {}),
    "L1": (X, "LpNormalization", "x", {"axis": 1, "p": 1}, {}),
}


@pytest.mark.parametrize("title", NORMALIZATIONS)
def test_normalization(title: str, tmp_path: Path) -> None:
    x, kind, inputs, attributes, constants = NORMALIZATIONS[title]
    agrees(model([node(kind, inputs, **attributes)], {"x": x}, constants=constants), {"x": x}, tmp_path)


def test_dequantized_weights_stay_stored_integers(tmp_path: Path) -> None:
    """The scale per output channel is along axis 0 of a convolution, along the last of a depthwise one."""
    scales = np.float32([0.1, 0.2, 0.3, 0.4])
    constants = {"q": rand(4, 1, 3, 3).astype(np.int8), "s": scales, "z": np.zeros(4, np.int8)}
    nodes = [node("DequantizeLinear", "q s z", "w", axis=0), conv("x w", group=4)]
    loaded = agrees(model(nodes, {"x": X}, constants=constants), {"x": X}, tmp_path)
    (dequantize,) = (n for n in loaded.graph.nodes if isinstance(n.op, Dequantize))
    stored = dequantize.inputs[0]
    assert stored.is_constant and stored.type.shape == (3, 3, 4)
    assert stored.type.quant is not None and stored.type.quant.axis == 2
