"""What counts as a difference, under each promise that a pass makes."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.core.dtype import F32, I8
from trivet.core.quant import Quant
from trivet.ir.types import TensorType
from trivet.passes.base import Exact, Preserves, Relative, Steps
from trivet.passes.traces import Observed
from trivet.passes.verify_each import first_difference

NAN, INF = float("nan"), float("inf")


def floats(*values: float, step: float = 0.0) -> Observed:
    return Observed(TensorType(F32, (len(values),)), np.array(values, np.float32), step)


def stored(*values: int, scale: float = 0.5) -> Observed:
    return Observed(TensorType(I8, (len(values),), Quant.per_tensor(scale, 0)), np.array(values, np.int8), scale)


SAME = [
    ("exactly the same", floats(1, NAN, INF), floats(1, NAN, INF), Exact()),
    ("a little off, beside a larger element", floats(1, 100), floats(1.0005, 100), Relative(1e-5)),
    ("no number stays none", floats(1, NAN, INF), floats(1, NAN, INF), Relative(1e-5)),
    ("one step", stored(3, 4), stored(4, 3), Steps(1)),
    ("one step of what was dequantized", floats(1, 2, step=0.5), floats(1.5, 1.5), Steps(1)),
]
DIFFERENT = [
    ("the last bit", floats(1), floats(float(np.nextafter(np.float32(1), np.float32(2)))), Exact()),
    ("too far", floats(1, 100), floats(1.0015, 100), Relative(1e-5)),
    ("a number becomes none", floats(1, 2), floats(1, NAN), Relative(1e-5)),
    ("a number becomes infinite", floats(1, 2), floats(1, INF), Relative(1e-5)),
    ("infinity becomes a number", floats(1, INF), floats(1, 2), Relative(1e-5)),
    ("two steps", stored(3), stored(5), Steps(1)),
    ("a number becomes none, steps allowed", floats(1, 2, step=0.5), floats(1, NAN), Steps(1)),
]


@pytest.mark.parametrize(("before", "after", "preserves"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_same(before: Observed, after: Observed, preserves: Preserves) -> None:
    assert first_difference({"x": before}, {"x": after}, preserves) is None


@pytest.mark.parametrize(("before", "after", "preserves"), [c[1:] for c in DIFFERENT], ids=[c[0] for c in DIFFERENT])
def test_different(before: Observed, after: Observed, preserves: Preserves) -> None:
    assert str(first_difference({"x": before}, {"x": after}, preserves)).startswith("%x at [")
