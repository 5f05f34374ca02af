"""Operators with weights: the converted graph against LiteRT's reference kernels and TFLM, in every element."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from models import loaded

from references import run_litert, run_tflm
from tflite_builder import FieldValue, ModelBuilder
from trivet import interp
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.frontends.options import LoadOptions

F, B, U, H = np.float32, np.int8, np.uint8, np.int16
TFLM, LITERT = Numerics.TFLM, Numerics.LITERT


@dataclass(frozen=True)
class Layer:
    """A product of x with random weights. Weights of uint8 have a zero point, those of int8 are symmetric."""

    title: str
    kind: str
    options: str
    dtype: type
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    fields: dict[str, FieldValue]
    channel_axis: int | None = None
    bias: bool = True
    output_shape: tuple[int, ...] | None = None
    contracts: tuple[Numerics, ...] = (TFLM, LITERT)

    def model(self) -> tuple[bytes, np.ndarray]:
        random = np.random.default_rng(len(self.title))
        m = ModelBuilder()
        zero = {F: 0, B: -9, U: 119, H: 0}[self.dtype]
        x = self._activation(m, "x", self.x, 0.05, zero)
        y = self._activation(m, "y", self.y, 0.21, {U: 140, B: 12}.get(self.dtype, 0))
        operands = [x, self._weights(m, random)]
        if self.output_shape is not None:
            shape = m.tensor("shape", (4,), np.int32, data=self.output_shape)
            operands = [shape, operands[1], x]
        operands.append(self._bias(m, random) if self.bias else -1)
        m.operator(self.kind, operands, [y], self.options, version=3 if self.dtype is B else 1, **self.fields)
        if self.dtype is F:
            return m.finish([x], [y]), random.standard_normal(self.x).astype(F)
        limits = np.iinfo(self.dtype)
        return m.finish([x], [y]), random.integers(limits.min, limits.max + 1, self.x).astype(self.dtype)

    def _activation(self, m: ModelBuilder, name: str, shape: tuple[int, ...], scale: float, zero: int) -> int:
        if self.dtype is F:
            return m.tensor(name, shape, F)
        return m.tensor(name, shape, self.dtype, scale=scale if self.dtype is not H else scale / 200, zero_point=zero)

    @property
    def channels(self) -> int:
        return self.w[self.channel_axis if self.channel_axis is not None else 0 if self.w[0] > 1 else -1]

    def _weights(self, m: ModelBuilder, random: np.random.Generator) -> int:
        if self.dtype is F:
            return m.tensor("w", self.w, F, data=random.standard_normal(self.w))
        if self.dtype is U:
            return m.tensor("w", self.w, U, scale=0.02, zero_point=101, data=random.integers(0, 256, self.w))
        scale = 0.02 if self.channel_axis is None else random.uniform(0.01, 0.03, self.channels)
        data = random.integers(-127, 128, self.w)
        return m.tensor("w", self.w, B, scale=scale, axis=self.channel_axis or 0, data=data)

    def _bias(self, m: ModelBuilder, random: np.random.Generator) -> int:
        size = (self.y[-1],)
        if self.dtype is F:
            return m.tensor("b", size, F, data=random.standard_normal(size))
        width = np.int64 if self.dtype is H else np.int32
        return m.tensor("b", size, width, scale=0.05 / 200 * 0.02, data=random.integers(-2000, 2000, size))


def window(stride: int = 1, padding: int = 0, dilation: int = 1, activation: int = 0) -> dict[str, FieldValue]:
    return {
        "padding": padding,
        "stride_h": stride,
        "stride_w": stride,
        "dilation_h_factor": dilation,
        "dilation_w_factor": dilation,
        "fused_activation_function": activation,
    }


def conv(title: str, dtype: type, x: tuple, w: tuple, y: tuple, axis: int | None = 0, **options: int) -> Layer:
    contracts = (LITERT,) if dtype is U else (TFLM, LITERT)
    fields = window(**options)
    return Layer(f"conv {title}", "CONV_2D", "Conv2DOptions", dtype, x, w, y, fields, axis, contracts=contracts)


def depthwise(title: str, dtype: type, x: tuple, w: tuple, y: tuple, axis: int | None = 3, **options: int) -> Layer:
    contracts = (LITERT,) if dtype is U else (TFLM, LITERT)
    fields = window(**options) | {"depth_multiplier": w[3] // x[3]}
    kind, table = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
    return Layer(f"depthwise {title}", kind, table, dtype, x, w, y, fields, axis, contracts=contracts)


def dense(title: str, dtype: type, x: tuple, w: tuple, y: tuple, axis: int | None = None, **fields: int) -> Layer:
    contracts = (LITERT,) if dtype is U else (TFLM, LITERT)
    bias = fields.pop("bias", True)
    kind, table = "FULLY_CONNECTED", "FullyConnectedOptions"
    return Layer(f"dense {title}", kind, table, dtype, x, w, y, fields, axis, bool(bias), contracts=contracts)


def transposed(title: str, dtype: type, x: tuple, w: tuple, y: tuple, axis: int | None = 0, **options: int) -> Layer:
    fields = {key: value for key, value in window(**options).items() if "dilation" not in key}
    kind, table = "TRANSPOSE_CONV", "TransposeConvOptions"
    return Layer(f"transposed {title}", kind, table, dtype, x, w, y, fields, axis, output_shape=y)


LAYERS = [
    conv("float32 same stride 2", F, (2, 8, 7, 3), (4, 3, 3, 3), (2, 4, 4, 4), stride=2, activation=3),
    conv("int8 same stride 2", B, (2, 8, 7, 3), (4, 3, 3, 3), (2, 4, 4, 4), stride=2, activation=1),
    conv("int8 per tensor", B, (1, 6, 6, 3), (4, 3, 2, 3), (1, 4, 5, 4), None, padding=1),
    conv("int8 dilated", B, (1, 9, 9, 2), (4, 3, 3, 2), (1, 9, 9, 4), dilation=2),
    conv("int8 grouped", B, (1, 5, 5, 6), (4, 3, 3, 3), (1, 5, 5, 4)),
    conv("int8 1x4", B, (1, 1, 30, 5), (3, 1, 4, 5), (1, 1, 8, 3), stride=4),
    conv("uint8", U, (1, 6, 6, 3), (4, 3, 3, 3), (1, 3, 3, 4), None, stride=2, activation=3),
    conv("int16", H, (1, 6, 6, 3), (4, 3, 3, 3), (1, 6, 6, 4)),
    depthwise("float32", F, (1, 6, 6, 3), (1, 3, 3, 3), (1, 6, 6, 3), activation=1),
    depthwise("int8 multiplier 2", B, (2, 6, 7, 3), (1, 3, 3, 6), (2, 3, 4, 6), stride=2),
    depthwise("int8 one input channel", B, (1, 6, 7, 1), (1, 3, 3, 8), (1, 6, 7, 8)),
    depthwise("int8 per tensor", B, (1, 6, 7, 3), (1, 3, 3, 3), (1, 4, 5, 3), None, padding=1),
    depthwise("uint8", U, (1, 6, 7, 3), (1, 3, 3, 3), (1, 6, 7, 3), None),
    depthwise("int16", H, (1, 6, 7, 3), (1, 3, 3, 3), (1, 6, 7, 3)),
    dense("float32", F, (3, 7), (5, 7), (3, 5), fused_activation_function=1),
    dense("int8", B, (3, 7), (5, 7), (3, 5)),
    dense("int8 per channel", B, (3, 7), (5, 7), (3, 5), 0),
    dense("int8 without bias", B, (3, 7), (5, 7), (3, 5), bias=0),
    dense("int8 keeps axes", B, (2, 3, 7), (5, 7), (2, 3, 5), keep_num_dims=True),
    dense("int8 flattens", B, (2, 3, 2, 7), (5, 42), (2, 5)),
    dense("uint8", U, (3, 7), (5, 7), (3, 5), fused_activation_function=1),
    dense("int16", H, (3, 7), (5, 7), (3, 5)),
    transposed("float32 same", F, (1, 4, 4, 3), (2, 4, 4, 3), (1, 8, 8, 2), stride=2),
    transposed("int8 same", B, (1, 4, 4, 3), (2, 3, 3, 3), (1, 8, 8, 2), stride=2),
    transposed("int8 odd size", B, (1, 4, 4, 3), (2, 3, 3, 3), (1, 7, 7, 2), stride=2),
    transposed("int8 valid", B, (1, 4, 4, 3), (2, 3, 3, 3), (1, 9, 9, 2), stride=2, padding=1),
    transposed("int8 valid with gaps", B, (1, 4, 4, 3), (2, 1, 1, 3), (1, 8, 8, 2), stride=2, padding=1),
]


@pytest.mark.parametrize(
    ("layer", "contract"),
    [pytest.param(layer, c, id=f"{layer.title}-{c.value}") for layer in LAYERS for c in layer.contracts],
)
def test_layer_equals_the_runtime(layer: Layer, contract: Numerics, tmp_path: Path) -> None:
    model, x = layer.model()
    (got,), _ = interp.run(loaded(tmp_path, model, LoadOptions(numerics=contract)).graph, [x])
    (expected,) = run_litert(model, [x]) if contract is LITERT else run_tflm(model, [x])
    if layer.dtype is F:
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    else:
        np.testing.assert_array_equal(got, expected)


def test_float16_weights_are_folded(tmp_path: Path) -> None:
    """Weights behind DEQUANTIZE are float32 constants of the layer, and nothing is left of the operator."""
    m = ModelBuilder()
    weights = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float16)
    half = m.tensor("half", (5, 7), np.float16, data=weights)
    x, w, y = m.tensor("x", (3, 7), F), m.tensor("w", (5, 7), F), m.tensor("y", (3, 5), F)
    m.operator("DEQUANTIZE", [half], [w])
    m.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    model = m.finish([x], [y])
    graph = loaded(tmp_path, model).graph
    assert [node.op.name for node in graph.nodes] == ["dense"]
    np.testing.assert_array_equal(graph.nodes[0].inputs[1].data, weights.astype(F))


def test_int4_weights_are_unpacked(tmp_path: Path) -> None:
    """Two weights a byte, the low nibble first."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 1, 1, 3), B, scale=0.5)
    y = m.tensor("y", (1, 1, 1, 1), B, scale=0.5)
    packed = np.array([0x7F, 0x08], np.uint8)
    w = m.tensor("w", (1, 1, 1, 3), np.uint8, scale=0.25, data=packed, type_code=17)
    b = m.tensor("b", (1,), np.int32, data=[0])
    m.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", padding=1, stride_w=1, stride_h=1)
    weights = loaded(tmp_path, m.finish([x], [y])).graph.nodes[0].inputs[1]
    assert weights.type.dtype is I8
    assert weights.data is not None and weights.data.ravel().tolist() == [-1, 7, -8]
