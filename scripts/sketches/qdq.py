"""A sketch as an ONNX model with quantize and dequantize pairs around every layer, channels first."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sketches.graphs import Scales, activation_scales, quantized
from sketches.layers import Floats, Layer, Sketch

OPSET, IR_VERSION = 17, 8


def qdq_model(sketch: Sketch) -> bytes:
    """Per-channel int8 weights, per-tensor int8 activations; input and output are float."""
    writer = _Writer(sketch, activation_scales(sketch))
    ports = [(writer.floats[0], "image"), *((writer.floats[i], f"result{n}") for n, i in enumerate(sketch.outputs))]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, _channels_first(sketch.shape(i)))
        for (_, name), i in zip(ports, [0, *sketch.outputs], strict=True)
    ]
    writer.nodes += [helper.make_node("Identity", [value], [name]) for value, name in ports[1:]]
    graph = helper.make_graph(writer.nodes, sketch.name, infos[:1], infos[1:], writer.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="sketches")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


class _Writer:
    def __init__(self, sketch: Sketch, scales: Scales) -> None:
        self.sketch, self.scales = sketch, scales
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.floats: list[str] = []
        for number, layer in enumerate(sketch.layers):
            value = "image" if layer.kind == "input" else self._layer(number, layer)
            self.floats.append(self._activation(value, number))

    def _layer(self, number: int, layer: Layer) -> str:
        operands = [self.floats[i] for i in layer.inputs]
        name = f"{layer.kind}{number}"
        match layer.kind:
            case "conv" | "depthwise":
                value = self._convolution(number, layer, operands, name)
            case "dense":
                value = self._node("Gemm", [*operands, *self._parameters(number, layer)], name, transB=1)
            case "max_pool":
                assert layer.w is not None
                window = {"kernel_shape": layer.w.shape, "strides": layer.stride, "pads": _pads(layer)}
                value = self._node("MaxPool", operands, name, **window)
            case "concat":
                value = self._node("Concat", operands, name, axis=1)
            case "upsample":
                factors = self._constant(f"{name}.factors", np.array([1, 1, 2, 2], np.float32))
                modes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
                value = self._node("Resize", [*operands, "", factors], name, **modes)
            case "mean":
                value = self._node("Flatten", [self._node("GlobalAveragePool", operands, f"{name}.pool")], name)
            case _:
                kinds = {"add": "Add", "mul": "Mul", "sigmoid": "Sigmoid", "squeeze": "GlobalAveragePool"}
                value = self._node(kinds[layer.kind], operands, name)
        return self._activated(layer, value)

    def _convolution(self, number: int, layer: Layer, operands: list[str], name: str) -> str:
        parameters = self._parameters(number, layer)
        assert layer.w is not None
        kernel = layer.w.shape[1:3] if layer.kind == "conv" else layer.w.shape[:2]
        group = 1 if layer.kind == "conv" else layer.shape[3]
        attributes = {"kernel_shape": kernel, "strides": layer.stride, "pads": _pads(layer), "group": group}
        return self._node("Conv", [*operands, *parameters], name, **attributes)

    def _activated(self, layer: Layer, value: str) -> str:
        match layer.act:
            case "relu":
                return self._node("Relu", [value], f"{value}.relu")
            case "relu6":
                limits = [self._constant(f"{value}.{n}", np.float32(x)) for n, x in (("low", 0.0), ("high", 6.0))]
                return self._node("Clip", [value, *limits], f"{value}.relu6")
        return value

    def _parameters(self, number: int, layer: Layer) -> list[str]:
        assert layer.w is not None and layer.b is not None
        w: Floats = layer.w
        if layer.kind == "conv":
            w = w.transpose(0, 3, 1, 2)
        elif layer.kind == "depthwise":
            w = w.transpose(2, 0, 1)[:, None]
        stored, w_scales = quantized(np.ascontiguousarray(w), 0)
        b_scales = np.float32(self.scales[layer.inputs[0]][0]) * w_scales
        bias = np.rint(layer.b / b_scales).astype(np.int32)
        return [self._dequantized(f"w{number}", stored, w_scales), self._dequantized(f"b{number}", bias, b_scales)]

    def _dequantized(self, name: str, stored: np.ndarray, scales: Floats) -> str:
        parts = [self._constant(f"{name}.q", stored), self._constant(f"{name}.scale", scales)]
        parts.append(self._constant(f"{name}.zero", np.zeros(len(scales), stored.dtype)))
        return self._node("DequantizeLinear", parts, name, axis=0)

    def _activation(self, value: str, number: int) -> str:
        scale, zero = self.scales[number]
        parts = [self._constant(f"{value}.scale", np.float32(scale)), self._constant(f"{value}.zero", np.int8(zero))]
        stored = self._node("QuantizeLinear", [value, *parts], f"{value}.q")
        return self._node("DequantizeLinear", [stored, *parts], f"{value}.dq")

    def _constant(self, name: str, data: np.ndarray | np.generic) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output


def _pads(layer: Layer) -> list[int]:
    (top, bottom), (left, right) = layer.pads
    return [top, left, bottom, right]
