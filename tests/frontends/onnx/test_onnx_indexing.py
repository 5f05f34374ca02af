"""Gather and scatter by elements and tuples, the largest elements, bits, contractions, loops: against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import agrees, ints, model, node, rand

X = rand(3, 4, 5)
I64 = np.int64

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray], dict[str, np.ndarray], str]] = {
    "elements along an axis": (
        [node("GatherElements", "x i", axis=1)], {"x": X, "i": ints(3, 2, 5, low=-4, high=4)}, {}, "y",
    ),
    "tuples": ([node("GatherND", "x i")], {"x": X, "i": ints(6, 2, low=-3, high=3)}, {}, "y"),
    "tuples in batches": (
        [node("GatherND", "x i", batch_dims=1)], {"x": X, "i": ints(3, 2, 1, low=0, high=4)}, {}, "y",
    ),
    "elements placed": (
        [node("ScatterElements", "x i u", axis=2)],
        {"x": X, "i": np.array([[[0, -1]], [[2, 1]]]), "u": rand(2, 1, 2, seed=3)}, {}, "y",
    ),
    "elements added": (
        [node("ScatterElements", "x i u", axis=0, reduction="add")],
        {"x": X, "i": np.array([[[0, 1]], [[0, 1]]]), "u": rand(2, 1, 2, seed=3)}, {}, "y",
    ),
    "rows placed": (
        [node("ScatterND", "x i u")], {"x": X, "u": rand(2, 5, seed=3)}, {"i": np.array([[0, 1], [2, 3]])}, "y",
    ),
    "rows of which the larger stays": (
        [node("ScatterND", "x i u", reduction="max")],
        {"x": X, "i": np.array([[0], [2]]), "u": rand(2, 4, 5, seed=3)}, {}, "y",
    ),
    "the largest": ([node("TopK", "x k", "y i", axis=1)], {"x": X}, {"k": np.array([3])}, "y i"),
    "the smallest": ([node("TopK", "x k", "y i", largest=0)], {"x": X}, {"k": np.array([2])}, "y i"),
    "one of the largest": ([node("Hardmax", "x", axis=1)], {"x": X}, {}, "y"),
    "sums so far": ([node("CumSum", "x a", exclusive=1)], {"x": X}, {"a": np.array(1)}, "y"),
    "sums of integers from behind": (
        [node("CumSum", "x a", reverse=1)], {"x": ints(3, 4)}, {"a": np.array(-1)}, "y",
    ),
    "remainders": ([node("Mod", "x d")], {"x": ints(3, 4, low=-9, high=9)}, {"d": np.array([3, -3, 4, -5])}, "y"),
    "truncated remainders": ([node("Mod", "x d", fmod=1)], {"x": X * 5}, {"d": np.float32([-1.5])}, "y"),
    "moved bits": (
        [node("BitShift", "x s", direction="LEFT")],
        {"x": ints(3, 4, low=0, high=255, dtype=np.uint8)}, {"s": np.uint8([1, 2, 0, 7])}, "y",
    ),
    "exclusive or": ([node("BitwiseXor", "x s")], {"x": ints(3, 4)}, {"s": np.array([5, -1, 0, 7])}, "y"),
    "angles": (
        [node("Asin", "x", "a"), node("Acos", "x", "b"), node("Atan", "x", "c"), node("Sum", "a b c")],
        {"x": np.linspace(-0.9, 0.9, 9, dtype=np.float32)}, {}, "y",
    ),
    "hyperbolic angles": (
        [node("Asinh", "x", "a"), node("Atanh", "x", "b"), node("Sum", "a b")],
        {"x": np.linspace(-0.9, 0.9, 9, dtype=np.float32)}, {}, "y",
    ),
    "a contraction": (
        [node("Einsum", "x w", equation="bij,jk->bki")], {"x": X}, {"w": rand(5, 2)}, "y",
    ),
    "a contraction in batches": (
        [node("Einsum", "x w", equation="...ij,...kj->...ik")], {"x": X, "w": rand(3, 2, 5)}, {}, "y",
    ),
    "a long join": ([node("Concat", " ".join(["x"] * 40), axis=1)], {"x": X}, {}, "y"),
}  # fmt: skip


@pytest.mark.parametrize("title", CASES)
def test_operators(title: str, tmp_path: Path) -> None:
    nodes, inputs, constants, outputs = CASES[title]
    agrees(model(nodes, inputs, outputs, constants), inputs, tmp_path)


def info(name: str, dtype: int = onnx.TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, None)


def test_a_loop_with_a_result_of_every_round(tmp_path: Path) -> None:
    shape = list(X.shape)
    body = helper.make_graph(
        [node("Identity", "go", "on"), node("Add", "v x", "w"), node("Mul", "w w", "s")], "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, shape),
        ],
        [info("on", onnx.TensorProto.BOOL), info("w"), info("s")],
    )  # fmt: skip
    constants = {"n": np.array(3), "c": np.array(True)}
    agrees(model([node("Loop", "n c x", "y z", body=body)], {"x": X}, "y z", constants), {"x": X}, tmp_path)


def test_a_scan_over_rows(tmp_path: Path) -> None:
    body = helper.make_graph(
        [node("Add", "v r", "w"), node("Mul", "w r", "s")], "body", [info("v"), info("r")], [info("w"), info("s")]
    )
    inputs = {"v": rand(4), "x": rand(3, 4, seed=2)}
    agrees(model([node("Scan", "v x", "y z", body=body, num_scan_inputs=1)], inputs, "y z"), inputs, tmp_path)


def test_branches_chosen_at_run_time(tmp_path: Path) -> None:
    yes = helper.make_graph([node("Exp", "x", "a")], "yes", [], [info("a")])
    no = helper.make_graph([node("Neg", "x", "b")], "no", [], [info("b")])
    for condition in (True, False):
        inputs = {"c": np.array(condition), "x": X}
        agrees(model([node("If", "c", then_branch=yes, else_branch=no)], inputs), inputs, tmp_path)
