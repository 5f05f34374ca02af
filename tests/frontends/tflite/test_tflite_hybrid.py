"""Dynamic range: int8 weights beside float activations, against LiteRT's reference kernels in every element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import loaded

from references import run_litert
from tflite_builder import FieldValue, ModelBuilder
from trivet import interp
from trivet.frontends.tflite.sparse import Level, Sparsity, scatter

F, B = np.float32, np.int8
Fields = dict[str, FieldValue]
CONV: Fields = {"padding": 0, "stride_w": 2, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}

LAYERS: dict[str, tuple[str, str, Fields, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = {
    "dense": ("FULLY_CONNECTED", "FullyConnectedOptions", {}, (3, 20), (5, 20), (3, 5), 1),
    "dense, relu6": (
        "FULLY_CONNECTED", "FullyConnectedOptions", {"fused_activation_function": 3}, (3, 20), (5, 20), (3, 5), 1,
    ),
    "dense, rows over their range": (
        "FULLY_CONNECTED", "FullyConnectedOptions", {"asymmetric_quantize_inputs": True}, (3, 20), (5, 20), (3, 5), 1,
    ),
    "dense, filters of many scales": ("FULLY_CONNECTED", "FullyConnectedOptions", {}, (2, 20), (5, 20), (2, 5), 5),
    "conv": ("CONV_2D", "Conv2DOptions", CONV, (1, 5, 6, 3), (4, 3, 3, 3), (1, 5, 3, 4), 1),
    "conv, filters of many scales": ("CONV_2D", "Conv2DOptions", CONV, (1, 5, 6, 3), (4, 3, 3, 3), (1, 5, 3, 4), 4),
    "conv, two images": ("CONV_2D", "Conv2DOptions", CONV, (2, 5, 6, 3), (4, 3, 3, 3), (2, 5, 3, 4), 4),
    "depthwise": (
        "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", {**CONV, "stride_w": 1, "depth_multiplier": 2},
        (1, 5, 6, 3), (1, 3, 3, 6), (1, 5, 6, 6), 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", LAYERS)
def test_layers_equal_litert(title: str, tmp_path: Path) -> None:
    kind, options, fields, shape, filters, result, scales = LAYERS[title]
    rng = np.random.default_rng(len(title))
    m = ModelBuilder()
    x, y = m.tensor("x", shape, F), m.tensor("y", result, F)
    scale = rng.uniform(0.01, 0.1, scales)
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    w = m.tensor("w", filters, B, scale=scale, axis=axis, data=rng.integers(-127, 128, filters))
    b = m.tensor("b", (result[-1],), F, data=rng.standard_normal(result[-1]))
    m.operator(kind, [x, w, b], [y], options, version=3, **fields)
    model, data = m.finish([x], [y]), rng.standard_normal(shape).astype(F)
    (found,), _ = interp.run(loaded(tmp_path, model).graph, [data])
    np.testing.assert_array_equal(found, run_litert(model, [data])[0])


SPARSE: dict[str, tuple[Sparsity, list[int], list[list[int]]]] = {
    "rows that list their columns": (
        Sparsity((0, 1), (), (Level(2, None, ()), Level(0, (0, 2, 3), (0, 3, 1)))),
        [1, 2, 3], [[1, 0, 0, 2], [0, 3, 0, 0]],
    ),
    "columns that list their rows": (
        Sparsity((1, 0), (), (Level(4, None, ()), Level(0, (0, 1, 1, 2, 2), (1, 0)))),
        [5, 6], [[0, 0, 6, 0], [5, 0, 0, 0]],
    ),
    "blocks of two": (
        Sparsity((0, 1, 2), (1,), (Level(2, None, ()), Level(0, (0, 1, 2), (1, 0)), Level(2, None, ()))),
        [1, 2, 3, 4], [[0, 0, 1, 2], [3, 4, 0, 0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", SPARSE)
def test_sparse_constants(title: str) -> None:
    sparsity, stored, dense = SPARSE[title]
    np.testing.assert_array_equal(scatter(np.array(stored), sparsity, (2, 4), "w"), dense)
