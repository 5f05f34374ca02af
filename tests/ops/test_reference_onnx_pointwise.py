"""Float functions, quantization and quantized pointwise operators against onnxruntime without optimizations.

Quantized operators stand between DequantizeLinear and QuantizeLinear there: at most one step apart, by float rounding.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from one_operator import integer, operand, quant, rngs, seed
from onnx import helper, numpy_helper

from references import run_onnxruntime
from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I16, U8, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType
from trivet.ops import activation as a
from trivet.ops import elementwise as e
from trivet.ops import mathematics as m
from trivet.ops.quantize import Dequantize, Quantize
from trivet.ops.softmax import LogSoftmax, Softmax

CASES = 20
OPSET = 21


def run(nodes: list[onnx.NodeProto], inputs: dict[str, Array], constants: dict[str, Array]) -> Array:
    """The value `y` of a graph."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in inputs.items()
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return run_onnxruntime(model.SerializeToString(), inputs)[0]


FLOAT_FUNCTIONS = [
    (a.Logistic(), "Sigmoid", {}),
    (a.Tanh(), "Tanh", {}),
    (a.HardSwish(), "HardSwish", {}),
    (m.Abs(), "Abs", {}),
    (a.LeakyRelu(0.3), "LeakyRelu", {"alpha": 0.3}),
    (a.Elu(0.7), "Elu", {"alpha": 0.7}),
    (a.HardSigmoid(0.2, 0.5), "HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    (a.Gelu(), "Gelu", {}),
    (a.Gelu(approximate=True), "Gelu", {"approximate": "tanh"}),
    (m.Exp(), "Exp", {}),
    (m.Neg(), "Neg", {}),
    (m.Erf(), "Erf", {}),
    (m.Floor(), "Floor", {}),
    (m.Ceil(), "Ceil", {}),
    (m.Round(), "Round", {}),
    (m.Sin(), "Sin", {}),
    (m.Cos(), "Cos", {}),
    (a.Softplus(), "Softplus", {}),
    (Softmax(1), "Softmax", {"axis": 1}),
    (Softmax(2), "Softmax", {"axis": 2}),
    (LogSoftmax(1), "LogSoftmax", {"axis": 1}),
]


@pytest.mark.parametrize(("op", "kind", "attributes"), FLOAT_FUNCTIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_float_functions(op: Op, kind: str, attributes: dict[str, object]) -> None:
    x = np.random.default_rng(5).normal(size=(3, 20, 17)).astype(np.float32) * 3
    (result,) = op.evaluate((x,), (TensorType(F32, x.shape),))
    expected = run([helper.make_node(kind, ["x"], ["y"], **attributes)], {"x": x}, {})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "kind"), [(m.Log(), "Log"), (m.Sqrt(), "Sqrt"), (m.Reciprocal(), "Reciprocal")])
def test_float_functions_of_positive_numbers(op: Op, kind: str) -> None:
    x = np.random.default_rng(6).uniform(0.01, 9, (500,)).astype(np.float32)
    (result,) = op.evaluate((x,), (TensorType(F32, x.shape),))
    np.testing.assert_allclose(result, run([helper.make_node(kind, ["x"], ["y"])], {"x": x}, {}), rtol=1e-6)


def parameters(name: str, quantization: Quant, dtype: DType) -> dict[str, Array]:
    return {
        f"{name}_scale": np.float32(quantization.scale),
        f"{name}_zero": dtype.numpy.type(quantization.zero_point),
    }


@pytest.mark.parametrize("dtype", [I8, U8, I16], ids=lambda d: d.name)
def test_quantize_rounds_halves_to_even(dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        out = quant(rng, dtype)
        steps = rng.integers(-600, 600, 500) / 2 if integer(rng, 0, 1) else rng.normal(size=500) * 100
        x = (steps * out.scale).astype(np.float32)
        (result,) = Quantize(out, dtype, Numerics.ONNX).evaluate((x,), (TensorType(F32, x.shape),))
        node = helper.make_node("QuantizeLinear", ["x", "y_scale", "y_zero"], ["y"])
        np.testing.assert_array_equal(result, run([node], {"x": x}, parameters("y", out, dtype)))


@pytest.mark.parametrize("dtype", [I8, I16], ids=lambda d: d.name)
def test_dequantize(dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (500,), dtype)
        assert x_type.quant is not None
        node = helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["y"])
        (result,) = Dequantize().evaluate((x,), (x_type,))
        np.testing.assert_array_equal(result, run([node], {"x": x}, parameters("x", x_type.quant, dtype)))


def check_between(
    kind: str, op: Op, types: tuple[TensorType, ...], arrays: tuple[Array, ...], out: Quant, **attributes: object
) -> None:
    """The operator on dequantized operands, quantized again."""
    nodes, constants, inputs = [], parameters("y", out, I8), {}
    for name, type_, array in zip("xz", types, arrays, strict=False):
        assert type_.quant is not None
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_real"]))
        constants |= parameters(name, type_.quant, I8)
        inputs[name] = array
    nodes.append(helper.make_node(kind, [f"{name}_real" for name in inputs], ["y_real"], **attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["y_real", "y_scale", "y_zero"], ["y"]))
    (result,) = op.evaluate(arrays, types)
    steps = np.abs(result.astype(int) - run(nodes, inputs, constants).astype(int))
    assert steps.max() <= 1 and (steps == 1).mean() < 0.002, f"{op}: {steps.max()} steps, {(steps != 0).mean():.4f}"


@pytest.mark.parametrize("kind", [e.Add, e.Sub, e.Mul, e.Div], ids=lambda kind: kind.name)
def test_quantized_arithmetic(kind: type[e.Add | e.Sub | e.Mul | e.Div], request: pytest.FixtureRequest) -> None:
    """Products and quotients come out about as large as sums: the result's scale follows."""
    for rng in rngs(seed(request), CASES):
        (a_type, x), (b_type, z) = operand(rng, (40, 50), I8), operand(rng, (50,), I8)
        assert a_type.quant is not None and b_type.quant is not None
        if kind is e.Div:
            z = np.where(z == b_type.quant.zero_point, z ^ 1, z).astype(np.int8)
        sa, sb = a_type.quant.scale, b_type.quant.scale
        size = {e.Add: max(sa, sb), e.Sub: max(sa, sb), e.Mul: sa * sb * 60, e.Div: sa / sb / 10}[kind]
        out = quant(rng, I8, size * 2.0 ** rng.uniform(-1, 2))
        op = kind(out=out, numerics=Numerics.ONNX)
        check_between(kind.name.capitalize(), op, (a_type, b_type), (x, z), out)


QUANTIZED = [
    ("Sigmoid", a.Logistic, {}, Quant.per_tensor(1 / 256, -128)),
    ("Tanh", a.Tanh, {}, Quant.per_tensor(1 / 128, 0)),
    ("HardSwish", a.HardSwish, {}, None),
    ("LeakyRelu", lambda out, numerics: a.LeakyRelu(0.25, out, numerics), {"alpha": 0.25}, None),
    ("Relu", lambda out, numerics: a.Clamp(Bounds(lo=out.zero_point), True, out, numerics), {}, None),
    (
        "Softmax",
        lambda out, numerics: Softmax(1, 1.0, out, I8, numerics),
        {"axis": 1},
        Quant.per_tensor(1 / 256, -128),
    ),
    ("LogSoftmax", lambda out, numerics: LogSoftmax(1, out, numerics), {"axis": 1}, None),
]


@pytest.mark.parametrize(("kind", "make", "attributes", "fixed"), QUANTIZED, ids=[case[0] for case in QUANTIZED])
def test_quantized_functions(
    kind: str, make: object, attributes: dict[str, object], fixed: Quant | None, request: pytest.FixtureRequest
) -> None:
    assert callable(make)
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (40, 30), I8)
        assert x_type.quant is not None
        out = fixed or quant(rng, I8, x_type.quant.scale * 2.0 ** rng.uniform(-1, 1))
        check_between(kind, make(out=out, numerics=Numerics.ONNX), (x_type,), (x,), out, **attributes)
