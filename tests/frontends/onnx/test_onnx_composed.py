"""Operators that become several: places and parameters that are computed when the network runs, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import model, node, run, run_normalized, save

from references import run_onnxruntime
from trivet import driver
from trivet.artifact import Artifact
from trivet.errors import CompileError
from trivet.frontends.onnx.convert import load

RNG = np.random.default_rng(5)


def rand(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def agrees(proto: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: Path, steps: int = 0) -> None:
    """Interpreter and plan equal onnxruntime, integers within `steps`."""
    expected = run_onnxruntime(proto.SerializeToString(), inputs)
    path = save(proto, folder)
    found = [run(load(path), inputs), run_normalized(load(path).graph, inputs)]
    artifact = Artifact(driver.build(driver.load(path), driver.Settings()).data)
    found.append(artifact.run([inputs[port.name] for port in artifact.input_ports]))
    for outputs in found:
        for got, wanted in zip(outputs, expected, strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
            else:
                assert np.abs(got.astype(int) - wanted.astype(int)).max() <= steps


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grids_of_every_mode(mode: str, padding: str, aligned: int, tmp_path: Path) -> None:
    """Places inside, at the border and far outside."""
    inputs = {"x": rand(2, 3, 5, 4), "grid": rand(2, 3, 6, 2, scale=0.9)}
    sample = node("GridSample", "x grid", mode=mode, padding_mode=padding, align_corners=aligned)
    agrees(model([sample], inputs, opset=20), inputs, tmp_path)


@pytest.mark.parametrize("groups", [1, 2])
def test_deformable_convolutions(groups: int, tmp_path: Path) -> None:
    inputs = {"x": rand(2, 4, 5, 6), "o": rand(2, 2 * 9 * 2, 3, 3), "m": rand(2, 9 * 2, 3, 3)}
    constants = {"w": rand(6, 4 // groups, 3, 3), "b": rand(6)}
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "offset_group": 2, "group": groups}
    deformed = node("DeformConv", "x w o b m", **attributes)
    proto = model([deformed], inputs, constants=constants, opset=19)
    agrees(proto, inputs, tmp_path)


@pytest.mark.parametrize(("groups", "stride", "extra"), [(1, 1, 0), (2, 2, 1)])
def test_transposed_convolutions_of_volumes(groups: int, stride: int, extra: int, tmp_path: Path) -> None:
    inputs = {"x": rand(1, 4, 3, 2, 3)}
    attributes = {"strides": [stride] * 3, "pads": [1, 0, 1, 0, 1, 1], "output_padding": [extra] * 3, "group": groups}
    transposed = node("ConvTranspose", "x w b", **attributes)
    constants = {"w": rand(4, 3, 2, 3, 3), "b": rand(3 * groups)}
    agrees(model([transposed], inputs, constants=constants), inputs, tmp_path)


@pytest.mark.parametrize("include", [0, 1])
def test_average_pools_with_dilations(include: int, tmp_path: Path) -> None:
    inputs = {"x": rand(1, 2, 7, 8)}
    attributes = {"dilations": [2, 3], "pads": [1, 1, 0, 1], "strides": [2, 1], "count_include_pad": include}
    pool = node("AveragePool", "x", kernel_shape=[3, 2], **attributes)
    agrees(model([pool], inputs, opset=19), inputs, tmp_path)


def test_batch_norm_with_computed_parameters(tmp_path: Path) -> None:
    inputs = {"x": rand(2, 3, 4, 4), "s": rand(3), "b": rand(3), "m": rand(3), "v": np.abs(rand(3))}
    agrees(model([node("BatchNormalization", "x s b m v")], inputs), inputs, tmp_path)


def test_quantization_with_computed_parameters(tmp_path: Path) -> None:
    """Per tensor and per channel, there and back."""
    inputs = {"x": rand(3, 4, scale=3), "s": np.float32([0.1, 0.02, 0.3]), "z": np.uint8([0, 128, 7])}
    pair = [node("QuantizeLinear", "x s z", "q", axis=0), node("DequantizeLinear", "q s z", axis=0)]
    agrees(model(pair, inputs, "q y"), inputs, tmp_path)


def test_padding_with_a_computed_value(tmp_path: Path) -> None:
    inputs = {"x": rand(2, 3), "v": np.array(-7.5, np.float32)}
    agrees(model([node("Pad", "x p v")], inputs, constants={"p": np.int64([1, 0, 2, 1])}), inputs, tmp_path)


def test_integer_convolution_with_computed_weights(tmp_path: Path) -> None:
    inputs = {
        "x": RNG.integers(0, 256, (1, 2, 5, 5)).astype(np.uint8),
        "w": RNG.integers(0, 256, (3, 2, 3, 3)).astype(np.uint8),
        "zx": np.array(3, np.uint8),
        "zw": np.array(200, np.uint8),
    }
    agrees(model([node("ConvInteger", "x w zx zw")], inputs), inputs, tmp_path)


def test_depthwise_convolution_with_computed_weights(tmp_path: Path) -> None:
    inputs = {"x": rand(2, 4, 6, 6), "w": rand(8, 1, 3, 3)}
    agrees(model([node("Conv", "x w", group=4)], inputs), inputs, tmp_path)


def test_a_spectrum_and_back(tmp_path: Path) -> None:
    inputs = {"x": rand(2, 12, 1)}
    nodes = [node("DFT", "x n", "f", axis=1), node("DFT", "f n", axis=1, inverse=1)]
    agrees(model(nodes, inputs, "f y", {"n": np.int64(12)}, opset=17), inputs, tmp_path)


def test_too_large_a_spectrum_is_refused(tmp_path: Path) -> None:
    inputs = {"x": rand(1, 5000, 1)}
    with pytest.raises(CompileError, match="a spectrum of 5000 points"):
        load(save(model([node("DFT", "x -", axis=1)], inputs, opset=17), tmp_path))
