"""Quantization at run time, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import agrees, ints, model, node, rand

U8, I8 = np.uint8, np.int8


def u8(*shape: int, seed: int = 1) -> np.ndarray:
    return ints(*shape, seed=seed, low=0, high=256, dtype=U8)


def test_the_range_becomes_scale_and_zero_point(tmp_path: Path) -> None:
    for offset in (0.0, 5.0, -5.0):
        x = rand(3, 7) + np.float32(offset)
        agrees(model([node("DynamicQuantizeLinear", "x", "y s z")], {"x": x}, "y s z"), {"x": x}, tmp_path)


MATRICES = {
    "without zero points": ("a b", {"b": u8(6, 5)}),
    "zero points of both": ("a b za zb", {"b": u8(6, 5), "za": U8(7), "zb": U8(200)}),
    "a zero point a column": ("a b za zb", {"b": u8(6, 5), "za": U8(7), "zb": u8(5, seed=4)}),
    "int8 weights": ("a b za zb", {"b": ints(6, 5, low=-60, high=60, dtype=I8), "za": U8(7), "zb": I8(-3)}),
}


@pytest.mark.parametrize("title", MATRICES)
def test_products(title: str, tmp_path: Path) -> None:
    operands, constants = MATRICES[title]
    a = u8(2, 3, 6, seed=2)
    agrees(model([node("MatMulInteger", operands)], {"a": a}, constants=constants), {"a": a}, tmp_path)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "padded": ((1, 3, 6, 7), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided, dilated": ((1, 3, 9, 8), (4, 3, 3, 2), {"strides": [2, 1], "dilations": [2, 2]}),
    "depthwise": ((2, 4, 6, 7), (4, 1, 3, 3), {"group": 4, "pads": [1, 0, 1, 0]}),
    "one axis": ((1, 3, 9), (4, 3, 3), {"pads": [2, 0]}),
}


@pytest.mark.parametrize("title", CONVOLUTIONS)
def test_convolutions(title: str, tmp_path: Path) -> None:
    shape, filters, attributes = CONVOLUTIONS[title]
    x, w = u8(*shape), u8(*filters, seed=3)
    nodes = [node("ConvInteger", "x w zx zw", **attributes)]
    agrees(model(nodes, {"x": x}, constants={"w": w, "zx": U8(9), "zw": U8(120)}), {"x": x}, tmp_path)


def test_a_layer_with_the_scale_of_its_data(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z zw", "sums"),
        node("Cast", "sums", "real", to=1),
        node("Mul", "s sw", "scale"),
        node("Mul", "real scale"),
    ]
    x = rand(4, 6)
    constants = {"w": u8(6, 5), "zw": U8(128), "sw": np.float32(0.02)}
    agrees(model(nodes, {"x": x}, constants=constants), {"x": x}, tmp_path)


def test_microsofts_forms(tmp_path: Path) -> None:
    x, bias = rand(4, 6), rand(5, seed=3)
    constants = {"w": u8(6, 5), "sw": np.float32(0.02), "zw": U8(128), "b": bias}
    nodes = [node("DynamicQuantizeMatMul", "x w sw zw b", domain="com.microsoft")]
    agrees(model(nodes, {"x": x}, constants=constants), {"x": x}, tmp_path)
    a = u8(4, 6)
    nodes = [node("MatMulIntegerToFloat", "a w sa sw za zw b", domain="com.microsoft")]
    agrees(model(nodes, {"a": a}, constants={**constants, "sa": np.float32(0.1), "za": U8(3)}), {"a": a}, tmp_path)
