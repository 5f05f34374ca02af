"""What is refused: all of a model's problems in one report, each with index, kind, name, reason and hint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import loaded

from tflite_builder import ModelBuilder
from trivet.errors import CompileError, InvalidModel, Problems

F, B = np.float32, np.int8


def message(tmp_path: Path, model: bytes) -> str:
    with pytest.raises(CompileError) as refusal:
        loaded(tmp_path, model)
    return str(refusal.value)


def chain(*kinds: tuple[str, str | None]) -> bytes:
    """Operators on float32[4], one after the other; the second of a pair is a custom code."""
    m = ModelBuilder()
    first = value = m.tensor("t0", (4,), F)
    for number, (kind, custom) in enumerate(kinds, 1):
        result = m.tensor(f"t{number}", (4,), F)
        m.operator(kind, [value], [result], custom_code=custom)
        value = result
    return m.finish([first], [value])


def test_all_problems_stand_in_one_report(tmp_path: Path) -> None:
    model = chain(("UNIQUE", None), ("ABS", None), ("CUSTOM", "Filter"), ("RNN", None))
    assert (
        message(tmp_path, model)
        == """\
model.tflite: 3 problems
  1. model.tflite: operator 0 UNIQUE 't1': the number of results depends on the data
       hint: cut the network before it, and compute it in the application
  2. model.tflite: operator 2 CUSTOM:Filter 't3': the custom operator 'Filter' is not part of TFLite
       hint: cut the network before it, and compute it in the application
  3. model.tflite: operator 3 RNN 't4': recurrent layers of this kind do not convert
       hint: export the layer as a plain graph: Keras with unroll=True, or as a streaming network with variables"""
    )


def test_what_follows_from_a_refusal_is_not_reported(tmp_path: Path) -> None:
    """The reshape needs what the unknown operator computes; only the unknown operator is a problem."""
    m = ModelBuilder()
    x, shape = m.tensor("x", (4,), F), m.tensor("shape", (2,), np.int32)
    y = m.tensor("y", (2, 2), F)
    m.operator("UNIQUE", [x], [shape])
    m.operator("BROADCAST_TO", [x, shape], [y])
    with pytest.raises(Problems) as refusal:
        loaded(tmp_path, m.finish([x], [y]))
    assert [problem.where.kind for problem in refusal.value.problems] == ["UNIQUE"]


def test_dynamic_range_weights_with_a_zero_point(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4), F), m.tensor("y", (1, 2), F)
    w = m.tensor("w", (2, 4), B, scale=0.1, zero_point=3, data=np.ones((2, 4)))
    m.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    text = message(tmp_path, m.finish([x], [y]))
    assert "operator 0 FULLY_CONNECTED 'y': weights 'w' i8[2, 4] with float activations" in text
    assert "hint: quantize activations as well" in text


def test_weights_that_are_computed(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, w = m.tensor("x", (1, 4, 4, 1), F), m.tensor("w", (1, 2, 2, 1), F)
    y = m.tensor("y", (1, 4, 4, 1), F)
    m.operator("CONV_2D", [x, w, -1], [y], "Conv2DOptions", padding=0, stride_w=1, stride_h=1)
    assert "operand 1 'w' is computed at run time" in message(tmp_path, m.finish([x, w], [y]))


def test_string_input(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("words", (4,), F, type_code=5), m.tensor("y", (4,), F)
    m.operator("ABS", [x], [y])
    assert "input 'words': tensor 'words' has element type STRING" in message(tmp_path, m.finish([x], [y]))


def test_fused_tanh(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (4,), F), m.tensor("y", (4,), F)
    m.operator("ADD", [x, x], [y], "AddOptions", fused_activation_function=4)
    assert "fused activation TANH; accepted are RELU, RELU6 and RELU_N1_TO_1" in message(tmp_path, m.finish([x], [y]))


def conv(**options: int) -> bytes:
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 2), F), m.tensor("y", (1, 4, 4, 1), F)
    w = m.tensor("w", (1, 3, 3, 2), F, data=np.ones((1, 3, 3, 2)))
    fields = {"padding": 0, "stride_w": 1, "stride_h": 1} | options
    m.operator("CONV_2D", [x, w, -1], [y], "Conv2DOptions", **fields)
    return m.finish([x], [y])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stride_h": 0}, "strides must be 1..65535, got (0, 1)"),
        ({"stride_w": 1 << 20}, "strides must be 1..65535, got (1, 1048576)"),
        ({"dilation_w_factor": -1}, "dilation (1, -1) must be 1..65535"),
        ({"padding": 7}, "padding code 7, expected 0 (SAME) or 1 (VALID)"),
        ({"padding": 1, "dilation_w_factor": 3}, "conv2d window (3, 3) does not fit"),
    ],
)
def test_impossible_options(tmp_path: Path, options: dict[str, int], text: str) -> None:
    assert text in message(tmp_path, conv(**options))


def quantized(scale: object, zero_point: object = 0, shape: tuple[int, ...] = (4,), axis: int = 0) -> bytes:
    m = ModelBuilder()
    x = m.tensor("x", shape, B, scale=scale, zero_point=zero_point, axis=axis)
    y = m.tensor("y", shape, B, scale=0.1)
    m.operator("LOGISTIC", [x], [y])
    return m.finish([x], [y])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (quantized(np.nan), "has the scale nan, possible is 0 to"),
        (quantized(-1.0), "has the scale -1, possible is 0 to"),
        (quantized(np.inf), "has the scale inf, possible is 0 to"),
        (quantized(0.1, 300), "has the zero point 300, which is no i8"),
        (quantized(np.ones(3), shape=(2, 4), axis=1), "has 3 scales along axis 1"),
        (quantized(np.ones(3), shape=(2, 3), axis=9), "has 3 scales along axis 9"),
    ],
)
def test_impossible_quantization(tmp_path: Path, model: bytes, text: str) -> None:
    assert text in message(tmp_path, model)


def test_constant_of_another_size(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (4,), F), m.tensor("y", (4,), F)
    c = m.tensor("c", (4,), F, data=np.ones(3))
    m.operator("ADD", [x, c], [y], "AddOptions")
    assert "tensor 'c' f32[4] needs 16 bytes, has 12" in message(tmp_path, m.finish([x], [y]))


def test_a_tensor_that_nothing_computes(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (4,), F) for name in "xyz")
    m.operator("ADD", [x, z], [y], "AddOptions")
    text = message(tmp_path, m.finish([x], [y]))
    assert "operator 0 ADD 'y': tensor 'z' is read before anything computes it" in text


def test_empty_input(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (0, 4), F), m.tensor("y", (0, 4), F)
    m.operator("ABS", [x], [y])
    assert "input 'x': f32[0, 4] is empty" in message(tmp_path, m.finish([x], [y]))


def test_empty_result(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (4,), F), m.tensor("y", (0,), F)
    begin, size = m.tensor("begin", (1,), np.int32, data=[2]), m.tensor("size", (1,), np.int32, data=[0])
    m.operator("SLICE", [x, begin, size], [y])
    assert "operator 0 SLICE 'y': result 'y' f32[0] is empty" in message(tmp_path, m.finish([x], [y]))


def test_no_output(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (4,), F), m.tensor("y", (4,), F)
    m.operator("ABS", [x], [y])
    with pytest.raises(InvalidModel, match="the model has no output"):
        loaded(tmp_path, m.finish([x], []))
