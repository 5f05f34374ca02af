"""How sums of products become stored integers, at the ends of what scales can be."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.ops.products import rescaled, rescaled_as_double, stored

SUMS = np.array([-1000, -1, 0, 1, 1000], np.int64)
SATURATED = [-128, -128, 0, 127, 127]


@pytest.mark.parametrize("scale", [1e3, 1e15, 1e17, 1e30])
def test_factors_of_any_size_saturate_under_onnx(scale: float) -> None:
    values = rescaled(SUMS, np.array([scale]), Numerics.ONNX)
    assert stored(values, 0, I8, UNBOUNDED).tolist() == SATURATED


@pytest.mark.parametrize("scale", [1e3, 1e15, 1e17, 1e30])
def test_factors_of_any_size_saturate_as_doubles(scale: float) -> None:
    values = rescaled_as_double(SUMS, np.array([scale]))
    assert stored(values, 0, I8, UNBOUNDED).tolist() == SATURATED
