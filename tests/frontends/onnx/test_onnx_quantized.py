"""Quantize, dequantize, and operators that carry their quantization as operands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import agrees, ints, model, node, rand, run, save

from references import run_onnxruntime
from trivet.core.dtype import I8, U8
from trivet.core.numerics import Numerics
from trivet.errors import Problems
from trivet.frontends.onnx.convert import load
from trivet.frontends.options import LoadOptions
from trivet.ops.matmul import Dense
from trivet.ops.quantize import Dequantize, Quantize

X = rand(2, 3, 4) * 40


def f32(*values: float) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.float32)


ZERO_POINTS = {
    "i8": np.int8(-3),
    "u8": np.uint8(120),
    "i16": np.int16(0),
    "u16": np.uint16(30000),
}


@pytest.mark.parametrize("name", ZERO_POINTS)
def test_quantize_then_dequantize(name: str, tmp_path: Path) -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")]
    constants = {"s": f32(0.37), "z": np.array(ZERO_POINTS[name])}
    agrees(model(nodes, {"x": X}, "q y", constants, opset=21), {"x": X}, tmp_path)


def test_quantize_without_zero_point_gives_uint8(tmp_path: Path) -> None:
    loaded = agrees(model([node("QuantizeLinear", "x s")], {"x": X}, constants={"s": f32(0.5)}), {"x": X}, tmp_path)
    assert loaded.graph.outputs[0].type.dtype is U8


def test_quantize_per_axis(tmp_path: Path) -> None:
    constants = {"s": f32(0.5, 0.25, 2.0), "z": np.int8([0, 3, -2])}
    nodes = [node("QuantizeLinear", "x s z", "q", axis=1), node("DequantizeLinear", "q s z", axis=1)]
    agrees(model(nodes, {"x": X}, "q y", constants), {"x": X}, tmp_path)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_dequantize_of_an_integer_input(dtype: type, tmp_path: Path) -> None:
    q = ints(2, 3, low=0, high=100, dtype=dtype)
    constants = {"s": f32(0.125), "z": np.array(0 if dtype is np.int32 else 7, dtype)}
    agrees(model([node("DequantizeLinear", "q s z")], {"q": q}, constants=constants), {"q": q}, tmp_path)


def test_dequantize_under_another_scale_than_quantized(tmp_path: Path) -> None:
    """The stored integers stay what they are."""
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q t z")]
    constants = {"s": f32(0.5), "t": f32(0.125), "z": np.int8(1)}
    agrees(model(nodes, {"x": X}, constants=constants), {"x": X}, tmp_path)


def test_integer_operators_between_the_pairs_see_stored_integers(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("Transpose", "q", "t", perm=[0, 2, 1]),
        node("Relu", "t", "r"),
        node("DequantizeLinear", "r s z"),
    ]
    agrees(model(nodes, {"x": X}, constants={"s": f32(0.5), "z": np.int8(-20)}), {"x": X}, tmp_path)


def test_concat_of_different_quantizations_joins_integers(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("QuantizeLinear", "x t z", "p"),
        node("Concat", "q p", "c", axis=1),
        node("DequantizeLinear", "c s z"),
    ]
    agrees(model(nodes, {"x": X}, constants={"s": f32(0.5), "t": f32(0.25), "z": np.int8(3)}), {"x": X}, tmp_path)


def test_an_integer_input_that_is_dequantized_first_is_a_quantized_one(tmp_path: Path) -> None:
    q = ints(2, 3, low=0, high=256, dtype=np.uint8)
    proto = model([node("DequantizeLinear", "q s z")], {"q": q}, constants={"s": f32(0.5), "z": np.uint8(7)})
    (value,) = load(save(proto, tmp_path)).graph.inputs
    assert value.type.dtype is U8 and value.type.quant is not None and value.type.quant.zero_point == 7


def test_plain_unsigned_integers_are_dequantized_by_arithmetic(tmp_path: Path) -> None:
    """They have no quantization of their own that passes could restate as a signed one."""
    q = ints(2, 3, low=0, high=256, dtype=np.uint8)
    nodes = [node("Add", "q q", "sum"), node("DequantizeLinear", "sum s z", axis=1)]
    constants = {"s": f32(0.5, 0.25, 2.0), "z": np.uint8([7, 0, 255])}
    agrees(model(nodes, {"q": q}, constants=constants), {"q": q}, tmp_path)


def test_an_unsigned_border_around_a_convolution_and_a_flatten(tmp_path: Path) -> None:
    constants = {
        "xs": f32(0.02), "xz": np.uint8(128), "ys": f32(0.25), "yz": np.uint8(100),
        "w": ints(4, 3, 3, 3, low=-100, high=100, dtype=np.int8), "ws": f32(0.01, 0.02, 0.03, 0.04),
    }  # fmt: skip
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws", "wf", axis=0),
        node("Conv", "xf wf", "c"),
        node("Flatten", "c", "f"),
        node("QuantizeLinear", "f ys yz"),
    ]
    x = ints(1, 3, 8, 8, low=0, high=256, dtype=np.uint8)
    agrees(model(nodes, {"x": x}, constants=constants), {"x": x}, tmp_path)


@pytest.mark.parametrize("transposed", [0, 1])
def test_quantized_gemm_keeps_weights_and_bias_stored(transposed: int, tmp_path: Path) -> None:
    """Scales per output channel: along axis 1 of [K, N], axis 0 of [N, K]; ours is [N, K]."""
    weights = ints(5, 4, low=-100, high=100, dtype=np.int8)
    constants = {
        "w": weights if transposed else np.ascontiguousarray(weights.T),
        "ws": f32(0.1, 0.2, 0.3, 0.4, 0.5),
        "wz": np.zeros(5, np.int8),
        "b": ints(5, low=-900, high=900, dtype=np.int32),
        "bs": f32(0.1, 0.2, 0.3, 0.4, 0.5),
    }
    nodes = [
        node("DequantizeLinear", "w ws wz", "wf", axis=0 if transposed else 1),
        node("DequantizeLinear", "b bs", "bf", axis=0),
        node("Gemm", "x wf bf", transB=transposed),
    ]
    x = rand(3, 4)
    loaded = agrees(model(nodes, {"x": x}, constants=constants), {"x": x}, tmp_path)
    (dense,) = (n for n in loaded.graph.nodes if isinstance(n.op, Dense))
    for operand in dense.inputs[1:]:
        assert operand.producer is not None and isinstance(operand.producer.op, Dequantize)
        stored = operand.producer.inputs[0]
        assert stored.is_constant and stored.type.quant is not None and stored.type.quant.axis == 0


def test_blocks_of_a_constant_are_dequantized_at_import(tmp_path: Path) -> None:
    stored, scales = ints(6, 2, low=-8, high=8, dtype=np.int8), rand(3, 2)
    nodes = [node("DequantizeLinear", "q s", "w", axis=0, block_size=2), node("MatMul", "x w")]
    x = rand(3, 6)
    agrees(model(nodes, {"x": x}, constants={"q": stored, "s": scales}, opset=21), {"x": x}, tmp_path)


def test_four_bit_weights_are_unpacked(tmp_path: Path) -> None:
    values = [-8, 7, 3, -1, 0, 5]
    weights = helper.make_tensor("w", onnx.TensorProto.INT4, [3, 2], values)
    proto = model(
        [node("DequantizeLinear", "w s", "f"), node("MatMul", "x f")],
        {"x": rand(1, 3)},
        constants={"s": f32(0.5)},
        opset=21,
    )
    proto.graph.initializer.append(weights)
    x = rand(1, 3)
    loaded = load(save(proto, tmp_path))
    expected = x @ (np.array(values, np.float32).reshape(3, 2) * 0.5)
    np.testing.assert_allclose(run(loaded, {"x": x})[0], expected, rtol=1e-6)


def test_the_contract_of_the_options_is_written_into_the_graph(tmp_path: Path) -> None:
    path = save(
        model([node("QuantizeLinear", "x s z")], {"x": X}, constants={"s": f32(1.0), "z": np.int8(0)}), tmp_path
    )
    for given, expected in ((None, Numerics.ONNX), (Numerics.TFLM, Numerics.TFLM)):
        (quantize,) = load(path, LoadOptions(numerics=given)).graph.nodes
        assert isinstance(quantize.op, Quantize) and quantize.op.numerics is expected and quantize.op.dtype is I8


SCALES = {
    "xs": f32(0.05),
    "xz": np.uint8(110),
    "ws": f32(0.02),
    "wz": np.uint8(131),
    "ys": f32(0.3),
    "yz": np.uint8(90),
    "as": f32(0.07),
    "az": np.uint8(100),
}
UNIT = {"ps": f32(1 / 256), "pz": np.uint8(0)}
Q = ints(1, 4, 6, 5, low=0, high=256, dtype=np.uint8)
WEIGHTS = ints(3, 4, 3, 3, low=0, high=256, dtype=np.uint8)
BIAS = ints(3, low=-500, high=500, dtype=np.int32)
MATRIX = ints(4, 6, low=0, high=256, dtype=np.uint8)
COLUMNS = ints(6, 3, low=0, high=256, dtype=np.uint8)

QOPERATORS = {
    "QLinearConv": (Q, "x xs xz w ws wz ys yz b", {"w": WEIGHTS, "b": BIAS}, {"pads": [1, 0, 0, 1]}, ""),
    "QLinearMatMul": (MATRIX, "x xs xz w ws wz ys yz", {"w": COLUMNS}, {}, ""),
    "QGemm": (MATRIX, "x xs xz w ws wz b ys yz", {"w": COLUMNS, "b": BIAS}, {}, "com.microsoft"),
    "QLinearAdd": (Q, "x xs xz a as az ys yz", {"a": Q[:, :, ::-1].copy()}, {}, "com.microsoft"),
    "QLinearMul": (Q, "x xs xz a as az ys yz", {"a": Q[:, :, ::-1].copy()}, {}, "com.microsoft"),
    "QLinearSigmoid": (Q, "x xs xz ps pz", UNIT, {}, "com.microsoft"),
    "QLinearLeakyRelu": (Q, "x xs xz ys yz", {}, {"alpha": 0.1}, "com.microsoft"),
    "QLinearSoftmax": (
        Q,
        "x xs xz ps pz",
        {"ps": f32(1 / 256), "pz": np.uint8(0)},
        {"opset": 13, "axis": -1},
        "com.microsoft",
    ),
    "QLinearGlobalAveragePool": (Q, "x xs xz ys yz", {}, {}, "com.microsoft"),
    "QLinearAveragePool": (Q, "x xs xz ys yz", {}, {"kernel_shape": [2, 3], "strides": [2, 1]}, "com.microsoft"),
    "QLinearConcat": (Q, "ys yz x xs xz a as az", {"a": Q}, {"axis": 1}, "com.microsoft"),
}


@pytest.mark.parametrize("kind", QOPERATORS)
def test_operator_with_quantization_operands(kind: str, tmp_path: Path) -> None:
    """One step at most: their integer requantization may round a tie where the float one does not."""
    x, inputs, constants, attributes, domain = QOPERATORS[kind]
    given = {**{k: v for k, v in SCALES.items() if k in inputs.split()}, **constants}
    proto = model([node(kind, inputs, domain=domain, **attributes)], {"x": x}, constants=given)

    (expected,) = run_onnxruntime(proto.SerializeToString(), {"x": x})
    (found,) = run(load(save(proto, tmp_path)), {"x": x})
    assert found.dtype == expected.dtype and found.shape == expected.shape
    steps = np.abs(found.astype(np.int64) - expected.astype(np.int64))
    assert steps.max() <= 1 and np.count_nonzero(steps) <= max(1, steps.size // 50)


def test_qgemm_without_output_scale_gives_floats(tmp_path: Path) -> None:
    given = {**{k: SCALES[k] for k in ("xs", "xz", "ws", "wz")}, "w": COLUMNS, "b": BIAS}
    proto = model([node("QGemm", "x xs xz w ws wz b", domain="com.microsoft")], {"x": MATRIX}, constants=given)
    agrees(proto, {"x": MATRIX}, tmp_path)


REFUSED = {
    "a scale computed at run time": (
        [node("QuantizeLinear", "x s z")], {"x": X, "s": f32(1.0)}, {"z": np.int32(0)},
        "quantization to i32 by a computed scale",
    ),
    "a scale that is no number": (
        [node("QuantizeLinear", "x s z")], {"x": X}, {"s": f32(np.nan), "z": np.int8(0)},
        "scales must be finite and not negative",
    ),
    "scales that do not suit the axis": (
        [node("QuantizeLinear", "x s z", axis=1)], {"x": X}, {"s": f32(1, 2), "z": np.int8([0, 0])},
        "2 scales do not suit axis 1 of f32[2, 3, 4]",
    ),
    "scales and zero points that differ": (
        [node("QuantizeLinear", "x s z", axis=1)], {"x": X}, {"s": f32(1, 2, 3), "z": np.int8([0, 0])},
        "3 scales with 2 zero points",
    ),
    "a scale of zero": (
        [node("QuantizeLinear", "x s z")], {"x": X}, {"s": f32(0.0), "z": np.int8(0)},
        "a scale of zero",
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", REFUSED)
def test_quantizations_that_are_refused(title: str, tmp_path: Path) -> None:
    nodes, inputs, constants, message = REFUSED[title]
    with pytest.raises(Problems) as caught:
        load(save(model(nodes, inputs, constants=constants), tmp_path))
    assert message in str(caught.value)


def test_an_eight_bit_float_is_refused_by_name(tmp_path: Path) -> None:
    proto = model([node("DequantizeLinear", "q s")], {"x": X}, constants={"s": f32(1.0)}, opset=19)
    proto.graph.initializer.append(helper.make_tensor("q", onnx.TensorProto.FLOAT8E4M3FN, [1], [1.0]))
    with pytest.raises(Problems, match="tensor 'q' holds float8e4m3fn elements"):
        load(save(proto, tmp_path))
