"""Places, booleans, whole quotients and sums so far, against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import loaded

from references import run_litert
from tflite_builder import FieldValue, ModelBuilder
from trivet import interp

F, N, L = np.float32, np.int32, np.bool_
Tensors = list[np.ndarray]
Results = list[tuple[tuple[int, ...], type]]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3, 4)).astype(F)
FLAGS = RNG.integers(0, 2, (2, 6)).astype(L)
NUMBERS = RNG.integers(-9, 10, (3, 4)).astype(N)
DIVISORS = np.array([3, -3, 4, -5], N)

CASES: dict[str, tuple[str, str | None, dict[str, FieldValue], Tensors, Tensors, Results]] = {
    "and": ("LOGICAL_AND", None, {}, [FLAGS, ~FLAGS], [], [((2, 6), L)]),
    "or": ("LOGICAL_OR", None, {}, [FLAGS, FLAGS[::-1].copy()], [], [((2, 6), L)]),
    "not": ("LOGICAL_NOT", None, {}, [FLAGS], [], [((2, 6), L)]),
    "any": ("REDUCE_ANY", "ReducerOptions", {"keep_dims": False}, [FLAGS], [np.array([1], N)], [((2,), L)]),
    "the largest": ("TOPK_V2", None, {}, [X], [np.array(2, N)], [((2, 3, 2), F), ((2, 3, 2), N)]),
    "tuples": ("GATHER_ND", None, {}, [X, np.array([[1, 2], [0, 0]], N)], [], [((2, 4), F)]),
    "rows added": (
        "SCATTER_ND", None, {}, [np.array([[1], [3], [1]], N), X[0]], [np.array([5, 4], N)], [((5, 4), F)],
    ),
    "sums so far": (
        "CUMSUM", "CumsumOptions", {"exclusive": True, "reverse": True}, [X], [np.array(1, N)], [((2, 3, 4), F)],
    ),
    "one of many": (
        "ONE_HOT", "OneHotOptions", {"axis": -1}, [np.array([0, 2, 5], N)],
        [np.array(4, N), np.array(2, F), np.array(-1, F)], [((3, 4), F)],
    ),
    "whole quotients": ("FLOOR_DIV", None, {}, [NUMBERS, DIVISORS], [], [((3, 4), N)]),
    "remainders": ("FLOOR_MOD", None, {}, [NUMBERS, DIVISORS], [], [((3, 4), N)]),
    "angles": ("ATAN2", None, {}, [X, X[::-1].copy()], [], [((2, 3, 4), F)]),
}  # fmt: skip


def test_local_response_counts_all_neighbours(tmp_path: Path) -> None:
    """LiteRT's reference kernel leaves out the last one; its optimized kernel and TensorFlow do not."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2, 3, 4), F), m.tensor("y", (1, 2, 3, 4), F)
    fields: dict[str, FieldValue] = {"radius": 1, "bias": 1.5, "alpha": 0.5, "beta": 0.75}
    m.operator("LOCAL_RESPONSE_NORMALIZATION", [x], [y], "LocalResponseNormalizationOptions", **fields)
    (found,), _ = interp.run(loaded(tmp_path, m.finish([x], [y])).graph, [X[None]])
    squares = np.pad(X[None].astype(np.float64) ** 2, ((0, 0), (0, 0), (0, 0), (1, 1)))
    sums = squares[..., :-2] + squares[..., 1:-1] + squares[..., 2:]
    np.testing.assert_allclose(found, X[None] / (1.5 + 0.5 * sums) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("title", CASES)
def test_operators_equal_litert(title: str, tmp_path: Path) -> None:
    kind, options, fields, inputs, constants, results = CASES[title]
    m = ModelBuilder()
    operands = [m.tensor(f"x{i}", array.shape, array.dtype) for i, array in enumerate(inputs)]
    fixed = [m.tensor(f"c{i}", array.shape, array.dtype, data=array) for i, array in enumerate(constants)]
    outputs = [m.tensor(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(results)]
    m.operator(kind, [*operands, *fixed], outputs, options, **fields)
    model = m.finish(operands, outputs)
    found, _ = interp.run(loaded(tmp_path, model).graph, inputs)
    for ours, theirs in zip(found, run_litert(model, inputs), strict=True):
        if ours.dtype == F:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)
