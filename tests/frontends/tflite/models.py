"""Small models that several tests read, damage or refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tflite_builder import ModelBuilder
from trivet.frontends.options import Loaded, LoadOptions
from trivet.frontends.tflite import load


def loaded(tmp_path: Path, model: bytes, options: LoadOptions | None = None) -> Loaded:
    """The model through a file called `model.tflite`."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    return load(path, options)


def small_network() -> bytes:
    """A quantized convolution, a reshape by a shape operand, a dense layer per channel, a softmax."""
    random = np.random.default_rng(7)
    m = ModelBuilder()
    x = m.tensor("x", (1, 4, 4, 2), np.int8, scale=0.5, zero_point=3)
    w = m.tensor("w", (3, 3, 3, 2), np.int8, scale=0.1, data=random.integers(-127, 128, (3, 3, 3, 2)))
    b = m.tensor("b", (3,), np.int32, scale=0.05, data=[1, 2, 3])
    y = m.tensor("y", (1, 2, 2, 3), np.int8, scale=0.7, zero_point=-10)
    m.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", padding=0, stride_w=2, stride_h=2)
    shape = m.tensor("shape", (2,), np.int32, data=[1, -1])
    flat = m.tensor("flat", (1, 12), np.int8, scale=0.7, zero_point=-10)
    m.operator("RESHAPE", [y, shape], [flat])
    v = m.tensor("v", (2, 12), np.int8, scale=np.array([0.1, 0.2]), data=random.integers(-127, 128, (2, 12)))
    z = m.tensor("z", (1, 2), np.int8, scale=1.5)
    m.operator("FULLY_CONNECTED", [flat, v, -1], [z], "FullyConnectedOptions")
    p = m.tensor("p", (1, 2), np.int8, scale=1 / 256, zero_point=-128)
    m.operator("SOFTMAX", [z], [p], "SoftmaxOptions", beta=1.0)
    return m.finish([x], [p])
