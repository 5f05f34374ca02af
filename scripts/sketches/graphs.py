"""A sketch as a graph: in float32 to see what values it reaches, then in int8 with scales that fit them."""

from __future__ import annotations

import numpy as np

from sketches.layers import Floats, Layer, Sketch
from trivet import interp
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.activation import Logistic
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.elementwise import Add, Mul
from trivet.ops.matmul import Dense
from trivet.ops.movement import Concat
from trivet.ops.pool import MaxPool2D
from trivet.ops.reduce import Mean
from trivet.ops.resize import ResizeNearest

SAME_QUANT = ("max_pool", "upsample", "concat")
"""Layers whose operands and result are quantized alike."""

Range = tuple[float, float]

Scales = list[tuple[float, int]]
"""Scale and zero point of every layer's result."""


def int8_graph(sketch: Sketch) -> Graph:
    """The network as a TensorFlow Lite converter would quantize it."""
    return _Emitter(sketch, activation_scales(sketch)).graph


def activation_scales(sketch: Sketch) -> Scales:
    """Of every layer, over the range that its result has for one seeded input in [-1, 1]."""
    emitter = _Emitter(sketch, None)
    image = np.random.default_rng(sketch.seed).uniform(-1, 1, sketch.shape(0)).astype(np.float32)
    reached = {id(emitter.values[0]): image}
    interp.run(emitter.graph, [image], observe=lambda value, array: reached.update({id(value): array}))
    ranges = [_range(reached[id(value)]) for value in emitter.values]
    ranges = _united(sketch, ranges)
    scales = [_scale(*bounds) for bounds in ranges]
    return [(1 / 256, -128) if la.kind == "sigmoid" else s for la, s in zip(sketch.layers, scales, strict=True)]


def _united(sketch: Sketch, ranges: list[Range]) -> list[Range]:
    """One range for all operands and the result of every layer that quantizes them alike."""
    groups = [{n, *la.inputs} for n, la in enumerate(sketch.layers) if la.kind in SAME_QUANT]
    while True:
        before = list(ranges)
        for group in groups:
            union = min(ranges[i][0] for i in group), max(ranges[i][1] for i in group)
            ranges = [union if i in group else old for i, old in enumerate(ranges)]
        if ranges == before:
            return ranges


def _range(array: Floats) -> Range:
    return min(float(array.min()), 0.0), max(float(array.max()), 0.0, 1e-3)


def _scale(low: float, high: float) -> tuple[float, int]:
    scale = float(np.float32((high - low) / 255))
    return scale, int(np.clip(round(-128 - low / scale), -128, 127))


def quantized(w: Floats, axis: int | None) -> tuple[np.ndarray, Floats]:
    """Symmetric int8 per tensor or per channel of `axis`, and the scales."""
    others = tuple(i for i in range(w.ndim) if i != axis)
    largest = np.abs(w).max(others, keepdims=True)
    scales = (largest / 127).astype(np.float32)
    return np.clip(np.rint(w / scales), -127, 127).astype(np.int8), scales.ravel()


class _Emitter:
    """Writes every layer as an operator; without scales in float32."""

    def __init__(self, sketch: Sketch, scales: Scales | None) -> None:
        self.sketch, self.scales = sketch, scales
        self.numerics = None if scales is None else Numerics.TFLM
        self.graph = Graph(sketch.name)
        self.values: list[Value] = []
        for number, layer in enumerate(sketch.layers):
            self.values.append(self._emit(number, layer))
        for output in sketch.outputs:
            self.graph.add_output(self.values[output])

    def _emit(self, number: int, layer: Layer) -> Value:
        if layer.kind == "input":
            dtype = F32 if self.scales is None else I8
            return self.graph.add_input("image", TensorType(dtype, layer.shape, self._quant(number)))
        operands = [self.values[i] for i in layer.inputs]
        if layer.b is not None:
            operands += self._parameters(number, layer)
        return self.graph.emit(self._op(number, layer), *operands, name=f"{layer.kind}{number}")

    def _op(self, number: int, layer: Layer) -> Op:
        out, clamp, numerics = self._quant(number), self._clamp(number, layer), self.numerics
        match layer.kind:
            case "conv":
                return Conv2D(layer.stride, (1, 1), layer.pads, 1, clamp, out, numerics)
            case "depthwise":
                return DepthwiseConv2D(layer.stride, (1, 1), layer.pads, clamp, out, numerics)
            case "dense":
                return Dense(clamp, out, numerics)
            case "add":
                return Add(clamp, out, numerics)
            case "mul":
                return Mul(clamp, out, numerics)
            case "sigmoid":
                return Logistic(out, numerics)
            case "squeeze" | "mean":
                return Mean((1, 2), layer.kind == "squeeze", out, numerics)
        return _movement(layer)

    def _quant(self, number: int) -> Quant | None:
        return None if self.scales is None else Quant.per_tensor(*self.scales[number])

    def _clamp(self, number: int, layer: Layer) -> Bounds:
        ceiling = {"": None, "relu": float("inf"), "relu6": 6.0}[layer.act]
        if self.scales is None:
            return UNBOUNDED if ceiling is None else Bounds(0.0, ceiling)
        scale, zero = self.scales[number]
        if ceiling is None:
            return Bounds(-128, 127)
        return Bounds(zero, min(127, 127 if ceiling == float("inf") else zero + round(ceiling / scale)))

    def _parameters(self, number: int, layer: Layer) -> list[Value]:
        assert layer.w is not None and layer.b is not None
        if self.scales is None:
            constants = [(layer.w, TensorType(F32, layer.w.shape)), (layer.b, TensorType(F32, layer.b.shape))]
            return [self.graph.constant(data, type_) for data, type_ in constants]
        axis = {"conv": 0, "depthwise": 2, "dense": None}[layer.kind]
        w, w_scales = quantized(layer.w, axis)
        b_scales = np.float32(self.scales[layer.inputs[0]][0]) * w_scales
        bias = np.rint(layer.b / b_scales).astype(np.int32)
        zeros = np.zeros(len(w_scales), np.int64)
        w_quant = Quant.per_axis(w_scales, zeros, axis) if axis is not None else Quant.per_tensor(w_scales[0], 0)
        b_quant = Quant.per_axis(b_scales, zeros, 0) if axis is not None else Quant.per_tensor(b_scales[0], 0)
        weight = self.graph.constant(w, TensorType(I8, w.shape, w_quant), f"w{number}")
        return [weight, self.graph.constant(bias, TensorType(I32, bias.shape, b_quant), f"b{number}")]


def _movement(layer: Layer) -> Op:
    """What keeps the quantization of its operands."""
    match layer.kind:
        case "max_pool":
            assert layer.w is not None
            return MaxPool2D((layer.w.shape[0], layer.w.shape[1]), layer.stride, pads=layer.pads)
        case "concat":
            return Concat(3)
        case "upsample":
            return ResizeNearest((layer.shape[1], layer.shape[2]))
    raise AssertionError(layer.kind)
