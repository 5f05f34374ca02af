"""Elementwise operators, activations, products, reductions and movement: imported graphs against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import agrees, ints, model, node, rand, run, save

from trivet.frontends.onnx.convert import load

X = rand(2, 3, 4, 5)
Y = rand(3, 1, 5, seed=1)
POSITIVE = np.abs(X) + 0.1
M = rand(6, 8)
N64 = ints(2, 3, 4)


@dataclass(frozen=True)
class Case:
    """One operator on `x` (and `y`), with constant operands by name; opset 18 unless stated."""

    kind: str
    inputs: str = "x"
    x: np.ndarray = field(default_factory=lambda: X)
    y: np.ndarray | None = None
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)
    opset: int = 18
    outputs: str = "y"
    domain: str = ""


def longs(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


CASES: dict[str, Case] = {
    **{kind: Case(kind, "x y", y=Y) for kind in ("Add", "Sub", "Mul", "Div", "Less", "LessOrEqual", "Greater")},
    **{kind: Case(kind, "x y", y=Y) for kind in ("GreaterOrEqual", "PRelu")},
    **{f"{kind} of integers": Case(kind, "x y", x=N64, y=ints(4, low=1)) for kind in ("Add", "Sub", "Mul", "Div")},
    **{kind: Case(kind, "x y z", y=Y, constants={"z": scalar(0.3)}) for kind in ("Sum", "Max", "Min", "Mean")},
    **{kind: Case(kind) for kind in ("Sigmoid", "Tanh", "HardSwish", "Exp", "Erf", "Floor", "Ceil", "Round", "Sin")},
    **{kind: Case(kind) for kind in ("Cos", "Softplus", "Relu", "Neg", "Abs", "LeakyRelu", "Elu", "Selu", "Celu")},
    **{kind: Case(kind) for kind in ("ThresholdedRelu", "Shrink", "Softsign", "Mish", "HardSigmoid", "Sign", "Tan")},
    **{kind: Case(kind, x=POSITIVE) for kind in ("Log", "Sqrt", "Reciprocal", "Identity")},
    **{f"{kind} of integers": Case(kind, x=N64) for kind in ("Neg", "Abs", "Sign")},
    "Gelu": Case("Gelu", opset=20),
    "Gelu, tanh form": Case("Gelu", attributes={"approximate": "tanh"}, opset=20),
    "Gelu of onnxruntime": Case("Gelu", domain="com.microsoft"),
    "FastGelu with a bias": Case("FastGelu", "x b", constants={"b": rand(5, seed=3)}, domain="com.microsoft"),
    "QuickGelu": Case("QuickGelu", domain="com.microsoft"),
    "HardSigmoid, own slope": Case("HardSigmoid", attributes={"alpha": 0.3, "beta": 0.4}),
    "PRelu, a slope per channel": Case("PRelu", "x s", constants={"s": rand(3, 1, 1)}),
    "Pow, square": Case("Pow", "x e", constants={"e": scalar(2.0)}),
    "Pow, integer exponent": Case("Pow", "x e", x=POSITIVE, constants={"e": longs(3)}),
    "Pow, tensor": Case("Pow", "x y", x=POSITIVE, y=Y),
    "Clip, attributes": Case("Clip", attributes={"min": -0.5, "max": 0.25}, opset=7),
    "Clip, one attribute": Case("Clip", attributes={"max": 0.25}, opset=10),
    "Clip, operands": Case("Clip", "x l h", constants={"l": scalar(-0.5), "h": scalar(0.25)}),
    "Clip, upper operand": Case("Clip", "x - h", constants={"h": scalar(0.25)}),
    "Clip, computed bound": Case("Clip", "x y", y=scalar(-0.1)),
    "Clip of integers": Case("Clip", "x l h", x=N64, constants={"l": np.int64(-2), "h": np.int64(3)}),
    "Where": Case("Where", "c x y", y=Y, constants={"c": ints(4, 1).astype(np.bool_)}),
    "Cast to integer": Case("Cast", attributes={"to": onnx.TensorProto.INT32}),
    "Cast to bool": Case("Cast", attributes={"to": onnx.TensorProto.BOOL}),
    "Cast of integers": Case("Cast", x=N64, attributes={"to": onnx.TensorProto.FLOAT}),
    "Not": Case("Not", x=N64 > 0),
    **{kind: Case(kind, "x y", x=N64 > 0, y=ints(4) > 1) for kind in ("And", "Or", "Xor", "Equal")},
    "Softmax": Case("Softmax"),
    "Softmax, channels": Case("Softmax", attributes={"axis": 1}),
    "Softmax, all axes from the second": Case("Softmax", opset=11),
    "Softmax, all axes from the third": Case("Softmax", attributes={"axis": 2}, opset=11),
    "LogSoftmax": Case("LogSoftmax", attributes={"axis": -2}),
    "MatMul": Case("MatMul", "x y", x=M, y=rand(8, 3)),
    "MatMul, batches": Case("MatMul", "x y", y=rand(3, 5, 2)),
    "MatMul, row": Case("MatMul", "x y", x=rand(5), y=rand(3, 5, 2)),
    "MatMul, column": Case("MatMul", "x y", y=rand(5)),
    "MatMul, vectors": Case("MatMul", "x y", x=rand(5), y=rand(5, seed=2)),
    "FusedMatMul": Case(
        "FusedMatMul", "x y", x=M, y=rand(3, 8), attributes={"transB": 1, "alpha": 0.5}, domain="com.microsoft"
    ),
    "Gemm": Case("Gemm", "x w b", x=M, constants={"w": rand(8, 3), "b": rand(3)}),
    "Gemm, transposed": Case(
        "Gemm", "x w b", x=M, constants={"w": rand(3, 6), "b": rand(3)}, attributes={"transA": 1, "transB": 1}
    ),
    "Gemm, factors": Case(
        "Gemm", "x w b", x=M, constants={"w": rand(8, 3), "b": rand(1, 3)}, attributes={"alpha": 0.5, "beta": 2.0}
    ),
    "Gemm, scalar bias": Case("Gemm", "x w b", x=M, constants={"w": rand(8, 3), "b": scalar(2.0)}),
    "Gemm, bias per row": Case(
        "Gemm", "x w b", x=M, constants={"w": rand(8, 3), "b": rand(6, 1)}, attributes={"beta": 0.5}
    ),
    "Gemm without bias": Case("Gemm", "x w", x=M, constants={"w": rand(8, 3)}),
    "Gemm of two activations": Case(
        "Gemm", "x y b", x=M, y=rand(3, 8), constants={"b": rand(3)}, attributes={"transB": 1, "alpha": 2.0}
    ),
    **{kind: Case(kind, "x a", constants={"a": longs(1, -1)}) for kind in ("ReduceMean", "ReduceSum", "ReduceMax")},
    **{
        kind: Case(kind, "x a", constants={"a": longs(2)})
        for kind in ("ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")
    },
    **{kind: Case(kind, "x a", constants={"a": longs(2)}) for kind in ("ReduceSumSquare", "ReduceLogSumExp")},
    "ReduceLogSum": Case("ReduceLogSum", x=POSITIVE),
    "ReduceMean, attribute": Case("ReduceMean", attributes={"axes": [2, 3], "keepdims": 0}, opset=13),
    "ReduceSum, attribute": Case("ReduceSum", attributes={"axes": [1]}, opset=11),
    "ReduceSum, no axes": Case("ReduceSum", attributes={"keepdims": 0}),
    "ReduceSum, nothing to do": Case("ReduceSum", attributes={"noop_with_empty_axes": 1}),
    "ReduceSum of integers": Case("ReduceSum", "x a", x=N64, constants={"a": longs(0)}),
    "ReduceLogSumExp, large values": Case(
        "ReduceLogSumExp", "x a", x=X * 100, constants={"a": longs(3)}, attributes={"keepdims": 0}
    ),
    "ArgMax": Case("ArgMax", attributes={"axis": 1}),
    "ArgMin, last": Case("ArgMin", x=np.round(X), attributes={"axis": -1, "select_last_index": 1, "keepdims": 0}),
    "Reshape": Case("Reshape", "x s", constants={"s": longs(0, -1, 2)}),
    "Flatten": Case("Flatten", attributes={"axis": 2}),
    "Flatten, all": Case("Flatten", attributes={"axis": 0}),
    "Flatten, negative": Case("Flatten", attributes={"axis": -1}),
    "Squeeze": Case("Squeeze", "x a", x=rand(1, 3, 1, 2), constants={"a": longs(0, -2)}),
    "Squeeze, all": Case("Squeeze", x=rand(1, 3, 1, 2)),
    "Squeeze, attribute": Case("Squeeze", x=rand(1, 3, 1, 2), attributes={"axes": [2]}, opset=11),
    "Unsqueeze": Case("Unsqueeze", "x a", constants={"a": longs(0, -1)}),
    "Unsqueeze, attribute": Case("Unsqueeze", attributes={"axes": [2]}, opset=11),
    "Transpose": Case("Transpose", attributes={"perm": [2, 0, 3, 1]}),
    "Transpose, default": Case("Transpose"),
    "Concat": Case("Concat", "x x y", y=rand(2, 2, 4, 5), attributes={"axis": 1}),
    "Split": Case("Split", "x s", constants={"s": longs(1, 3)}, attributes={"axis": 2}, outputs="y z"),
    "Split, attribute": Case("Split", attributes={"axis": 2, "split": [3, 1]}, outputs="y z", opset=11),
    "Split, uneven": Case("Split", attributes={"axis": 3, "num_outputs": 3}, outputs="y z u"),
    "Slice": Case(
        "Slice", "x s e a t", constants={"s": longs(1, 4), "e": longs(99, -9), "a": longs(1, 3), "t": longs(1, -2)}
    ),
    "Slice, attributes": Case("Slice", attributes={"starts": [0, -3], "ends": [1, -1], "axes": [0, 3]}, opset=9),
    "Pad": Case("Pad", "x p v", constants={"p": longs(0, 1, 0, 2, 0, 0, 3, 0), "v": scalar(1.5)}),
    "Pad, some axes": Case("Pad", "x p - a", constants={"p": longs(1, 2), "a": longs(-1)}),
    "Pad, reflect": Case("Pad", "x p", constants={"p": longs(0, 0, 1, 2, 0, 0, 2, 3)}, attributes={"mode": "reflect"}),
    "Pad, edge": Case("Pad", "x p", constants={"p": longs(0, 0, 1, 2, 0, 0, 2, 3)}, attributes={"mode": "edge"}),
    "Pad, wrap": Case(
        "Pad", "x p", constants={"p": longs(0, 0, 1, 2, 0, 0, 2, 3)}, attributes={"mode": "wrap"}, opset=19
    ),
    "Pad, negative": Case("Pad", "x p", constants={"p": longs(0, 0, -1, 2, 0, 0, 1, -3)}),
    "Pad, attribute": Case("Pad", attributes={"pads": [0, 0, 1, 1, 0, 0, 0, 2], "value": -1.0}, opset=7),
    "Gather": Case("Gather", "x i", constants={"i": longs(2, -1, 0).reshape(3, 1)}, attributes={"axis": 2}),
    "Gather, one": Case("Gather", "x i", constants={"i": np.int64(-2)}, attributes={"axis": 1}),
    "Gather, computed": Case("Gather", "x y", y=longs(2, -1, 0), attributes={"axis": 1}),
    "Expand": Case("Expand", "x s", x=rand(3, 1), constants={"s": longs(2, 1, 4)}),
    "Tile": Case("Tile", "x r", x=M, constants={"r": longs(2, 3)}),
    "DepthToSpace": Case("DepthToSpace", x=rand(1, 8, 2, 3), attributes={"blocksize": 2}),
    "DepthToSpace, CRD": Case("DepthToSpace", x=rand(1, 8, 2, 3), attributes={"blocksize": 2, "mode": "CRD"}),
    "SpaceToDepth": Case("SpaceToDepth", x=rand(1, 2, 4, 6), attributes={"blocksize": 2}),
    "OneHot": Case("OneHot", "x d v", x=longs(0, 2, -1), constants={"d": longs(4), "v": np.float32([-1, 3])}),
    "Trilu": Case("Trilu", "x k", constants={"k": np.int64(1)}, attributes={"upper": 0}),
}


@pytest.mark.parametrize("title", CASES)
def test_operator(title: str, tmp_path: Path) -> None:
    case = CASES[title]
    inputs = {"x": case.x} if case.y is None else {"x": case.x, "y_in": case.y}
    names = " ".join("y_in" if name == "y" else name for name in case.inputs.split())
    operator = node(case.kind, names, case.outputs, case.domain, **case.attributes)
    proto = model([operator], inputs, case.outputs, case.constants, case.opset)
    agrees(proto, inputs, tmp_path)


def test_broadcast_of_operator_set_6_starts_at_an_axis(tmp_path: Path) -> None:
    """onnxruntime has no kernel for it any more."""
    inputs = {"x": X, "z": rand(3, 4)}
    loaded = load(save(model([node("Add", "x z", broadcast=1, axis=1)], inputs, opset=6), tmp_path))
    np.testing.assert_array_equal(run(loaded, inputs)[0], X + inputs["z"].reshape(3, 4, 1))


def test_dropout_is_the_identity(tmp_path: Path) -> None:
    loaded = agrees(model([node("Dropout", "x")], {"x": X}), {"x": X}, tmp_path)
    assert not loaded.graph.nodes


def test_layer_normalization_gives_its_moments(tmp_path: Path) -> None:
    operator = node("LayerNormalization", "x g", "y mean deviation")
    proto = model([operator], {"x": X}, "y mean deviation", {"g": rand(5)})
    agrees(proto, {"x": X}, tmp_path)


def test_group_normalization_of_both_meanings(tmp_path: Path) -> None:
    """Scale and bias per group before operator set 21, per channel since."""
    x = rand(2, 4, 3, 3)
    new = {"g": rand(4), "b": rand(4, seed=1)}
    agrees(
        model([node("GroupNormalization", "x g b", num_groups=2)], {"x": x}, constants=new, opset=21),
        {"x": x},
        tmp_path,
    )
