"""Scales so far apart that multipliers leave what kernels take are refused when compiling, never when a plan is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runners import host_model

from tflite_builder import ModelBuilder
from trivet import driver, interp
from trivet.core.numerics import Numerics
from trivet.errors import CompileError

FAR = ((1e8, 1e-8, 1.0), (1e-8, 1e8, 1.0), (1e30, 1e-30, 1.0), (1e20, 1e-8, 1e20), (1e-30, 1e30, 1e-30))
"""Scales of the operand, the result, and the other operand or the weights."""
SHAPE = (1, 4, 4, 2)
TWO = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "MAXIMUM": None, "SQUARED_DIFFERENCE": None}
ONE = {"LEAKY_RELU": "LeakyReluOptions", "RELU": None, "RELU6": None, "QUANTIZE": None, "HARD_SWISH": None, "ABS": None}
PRODUCTS = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}


def model(kind: str, scales: tuple[float, float, float], dtype: type) -> bytes:
    x_scale, y_scale, other = scales
    m = ModelBuilder()
    x, y = m.tensor("x", SHAPE, dtype, scale=x_scale), m.tensor("y", SHAPE, dtype, scale=y_scale)
    if kind in PRODUCTS:
        shape = (2, 1, 1, 2) if kind == "CONV_2D" else (1, 1, 1, 2)
        w = m.tensor("w", shape, np.int8, scale=other, data=np.arange(np.prod(shape)))
        b = m.tensor("b", (2,), np.int64 if dtype is np.int16 else np.int32, scale=1.0, data=[1, 2])
        m.operator(kind, [x, w, b], [y], PRODUCTS[kind], stride_w=1, stride_h=1, padding=1)
    elif kind in TWO:
        z = m.tensor("z", SHAPE, dtype, scale=other)
        m.operator(kind, [x, z], [y], TWO[kind])
        return m.finish([x, z], [y])
    elif kind == "MEAN":
        axes, y = m.tensor("a", (2,), np.int32, data=[1, 2]), m.tensor("z", (1, 2), dtype, scale=y_scale)
        m.operator(kind, [x, axes], [y], "ReducerOptions")
    else:
        m.operator(kind, [x], [y], ONE[kind])
    return m.finish([x], [y])


@pytest.mark.parametrize("numerics", Numerics, ids=lambda numerics: numerics.value)
@pytest.mark.parametrize("kind", [*PRODUCTS, *TWO, *ONE, "MEAN"])
def test_what_compiles_runs_and_is_right(kind: str, numerics: Numerics, tmp_path: Path) -> None:
    path, settings, rng = tmp_path / "model.tflite", driver.Settings(numerics=numerics), np.random.default_rng(0)
    for dtype in (np.int8, np.int16):
        for scales in FAR:
            path.write_bytes(model(kind, scales, dtype))
            try:
                compiled = driver.build(driver.load(path, settings), settings)
            except CompileError:
                continue
            limits = np.iinfo(dtype)
            inputs = [
                rng.integers(limits.min, limits.max, p.type.shape).astype(dtype) for p in compiled.graph.input_ports
            ]
            expected, _ = interp.run(driver.load(path, settings).graph, inputs)
            for got, wanted in zip(host_model(compiled.data).run(inputs), expected, strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_some_far_scales_are_refused_and_some_compile(tmp_path: Path) -> None:
    path, settings = tmp_path / "model.tflite", driver.Settings()
    path.write_bytes(model("CONV_2D", (1e8, 1e-8, 1.0), np.int8))
    with pytest.raises(CompileError):
        driver.build(driver.load(path, settings), settings)
    path.write_bytes(model("CONV_2D", (1e-8, 1e8, 1.0), np.int8))
    assert driver.build(driver.load(path, settings), settings).data
