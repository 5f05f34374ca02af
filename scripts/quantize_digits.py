"""Write the digits network as int8 TFLite, ONNX QDQ and float ONNX, from its trained float weights.

    python scripts/train_digits.py build/digits.npz
    PYTHONPATH=tests python scripts/quantize_digits.py build/digits.npz examples/models

Activations are quantized per tensor over the range that the digits reach, weights per output channel, symmetric.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import tflite
from onnx import TensorProto, helper, numpy_helper

from tflite_builder import ModelBuilder
from train_digits import BLOCKS, Network, images

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """A convolution (`kind` conv, dw or pw); weights as [taps, in, out], [taps, channels] or [in, out]."""

    kind: str
    stride: int
    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class Scale:
    """real = scale * (stored - zero)."""

    scale: np.float32
    zero: int


def layers(parameters: dict[str, Floats]) -> list[Layer]:
    found = [Layer("conv", 2, parameters["conv.w"], parameters["conv.b"])]
    for i, (_, _, stride) in enumerate(BLOCKS):
        found.append(Layer("dw", stride, parameters[f"dw{i}.w"], parameters[f"dw{i}.b"]))
        found.append(Layer("pw", 1, parameters[f"pw{i}.w"], parameters[f"pw{i}.b"]))
    return found


def activation_scales(parameters: dict[str, Floats]) -> list[Scale]:
    """Of the input, of every layer's result, of the logits."""
    network = Network(np.random.default_rng(0))
    network.p = parameters
    x, _ = images()
    logits, tape = network.forward(x)
    reached = [x, tape[0][1]]
    for a, _, d, b in (t for t in tape[1:-1]):
        del a
        reached += [d, b]
    reached.append(logits)
    return [scale_of(a) for a in reached]


def scale_of(a: Floats) -> Scale:
    low, high = min(float(a.min()), 0.0), max(float(a.max()), 0.0)
    scale = np.float32((high - low) / 255)
    return Scale(scale, int(np.clip(round(-128 - low / float(scale)), -128, 127)))


def quantized(weights: Floats, axis: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Symmetric int8 per channel of `axis`, and the scales."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    scales = (np.abs(weights).max(others) / 127).astype(np.float32)
    shape = [1] * weights.ndim
    shape[axis] = -1
    return np.clip(np.rint(weights / scales.reshape(shape)), -127, 127).astype(np.int8), scales


def tflite_model(parameters: dict[str, Floats]) -> bytes:
    scales = activation_scales(parameters)
    builder = ModelBuilder()

    def activation(name: str, shape: tuple[int, ...], s: Scale) -> int:
        return builder.tensor(name, shape, np.int8, scale=float(s.scale), zero_point=s.zero)

    def parameter(name: str, data: npt.NDArray[np.generic], scale: Floats, axis: int = 0) -> int:
        return builder.tensor(name, data.shape, data.dtype, scale=scale, axis=axis, data=data)

    size, value = 32, activation("image", (1, 32, 32, 1), scales[0])
    first = value
    for i, layer in enumerate(layers(parameters)):
        size //= layer.stride
        channels = layer.bias.size
        side = 1 if layer.kind == "pw" else 3
        if layer.kind == "dw":
            data, axis = layer.weights.reshape(1, 3, 3, channels), 3
        else:
            data, axis = layer.weights.T.reshape(channels, side, side, -1), 0
        w, w_scales = quantized(data, axis)
        bias_scales = scales[i].scale * w_scales
        weight = parameter(f"w{i}", w, w_scales, axis)
        bias = parameter(f"b{i}", np.rint(layer.bias / bias_scales).astype(np.int32), bias_scales)
        out = activation(f"layer{i}", (1, size, size, channels), scales[i + 1])
        fields = {
            "stride_h": layer.stride,
            "stride_w": layer.stride,
            "padding": tflite.Padding.SAME,
            "fused_activation_function": tflite.ActivationFunctionType.RELU,
        }
        if layer.kind == "dw":
            fields["depth_multiplier"] = 1
            builder.operator(
                "DEPTHWISE_CONV_2D", [value, weight, bias], [out], "DepthwiseConv2DOptions", version=3, **fields
            )
        else:
            builder.operator("CONV_2D", [value, weight, bias], [out], "Conv2DOptions", version=3, **fields)
        value = out
    pooled = activation("pooled", (1, 32), scales[-2])
    axes = builder.tensor("axes", (2,), np.int32, data=[1, 2])
    builder.operator("MEAN", [value, axes], [pooled], "ReducerOptions", version=2, keep_dims=False)
    scale = np.float32(np.abs(parameters["dense.w"]).max() / 127)
    w = np.clip(np.rint(parameters["dense.w"].T / scale), -127, 127).astype(np.int8)
    bias_scale = scales[-2].scale * scale
    b = np.rint(parameters["dense.b"] / bias_scale).astype(np.int32)
    operands = [pooled, parameter("dense.w", w, scale), parameter("dense.b", b, bias_scale)]
    logits = activation("logits", (1, 10), scales[-1])
    builder.operator("FULLY_CONNECTED", operands, [logits], "FullyConnectedOptions", version=4)
    scores = builder.tensor("scores", (1, 10), np.int8, scale=1 / 256, zero_point=-128)
    builder.operator("SOFTMAX", [logits], [scores], "SoftmaxOptions", version=2, beta=1.0)
    return builder.finish([first], [scores])


class OnnxWriter:
    """Nodes and initializers of one ONNX graph; `qdq` puts quantize/dequantize pairs around every layer."""

    def __init__(self, qdq: bool) -> None:
        self.qdq = qdq
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, data: npt.NDArray[np.generic]) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def activation(self, value: str, s: Scale) -> str:
        if not self.qdq:
            return value
        scale = self.constant(f"{value}.scale", np.float32(s.scale))
        zero = self.constant(f"{value}.zero", np.int8(s.zero))
        stored = self.node("QuantizeLinear", [value, scale, zero], f"{value}.q")
        return self.node("DequantizeLinear", [stored, scale, zero], f"{value}.dq")

    def weight(self, name: str, data: Floats) -> tuple[str, Floats]:
        if not self.qdq:
            return self.constant(name, data), np.ones(len(data), np.float32)
        stored, scales = quantized(data, 0)
        parts = [self.constant(f"{name}.q", stored), self.constant(f"{name}.scale", scales)]
        parts.append(self.constant(f"{name}.zero", np.zeros(len(scales), np.int8)))
        return self.node("DequantizeLinear", parts, name, axis=0), scales

    def bias(self, name: str, data: Floats, scales: Floats) -> str:
        if not self.qdq:
            return self.constant(name, data)
        stored = self.constant(f"{name}.q", np.rint(data / scales).astype(np.int32))
        parts = [stored, self.constant(f"{name}.scale", scales)]
        parts.append(self.constant(f"{name}.zero", np.zeros(len(scales), np.int32)))
        return self.node("DequantizeLinear", parts, name, axis=0)


def onnx_model(parameters: dict[str, Floats], qdq: bool) -> bytes:
    scales = activation_scales(parameters)
    out = OnnxWriter(qdq)
    value = out.activation("image", scales[0])
    for i, layer in enumerate(layers(parameters)):
        channels = layer.bias.size
        side = 1 if layer.kind == "pw" else 3
        data = layer.weights.T.reshape(channels, -1, side * side) if layer.kind != "pw" else layer.weights.T
        weight, w_scales = out.weight(f"w{i}", np.ascontiguousarray(data.reshape(channels, -1, side, side)))
        bias = out.bias(f"b{i}", layer.bias, scales[i].scale * w_scales)
        pads = [0, 0, 0, 0] if side == 1 else [0, 0, 1, 1] if layer.stride == 2 else [1, 1, 1, 1]
        value = out.node(
            "Conv", [value, weight, bias], f"conv{i}", kernel_shape=[side, side], pads=pads,
            strides=[layer.stride, layer.stride], group=channels if layer.kind == "dw" else 1,
        )  # fmt: skip
        value = out.activation(out.node("Relu", [value], f"layer{i}"), scales[i + 1])
    value = out.activation(out.node("GlobalAveragePool", [value], "pooled"), scales[-2])
    value = out.node("Flatten", [value], "features")
    value = out.activation(value, scales[-2])
    weight, w_scales = out.weight("dense.w", np.ascontiguousarray(parameters["dense.w"].T))
    bias = out.bias("dense.b", parameters["dense.b"], scales[-2].scale * w_scales)
    value = out.activation(out.node("Gemm", [value, weight, bias], "logits", transB=1), scales[-1])
    out.node("Softmax", [value], "scores", axis=1)
    graph = helper.make_graph(
        out.nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        out.initializers,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="trivet-examples")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def main() -> None:
    parameters = dict(np.load(sys.argv[1]))
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    (target / "digits_int8.tflite").write_bytes(tflite_model(parameters))
    (target / "digits_qdq.onnx").write_bytes(onnx_model(parameters, qdq=True))
    (target / "digits.onnx").write_bytes(onnx_model(parameters, qdq=False))


if __name__ == "__main__":
    main()
