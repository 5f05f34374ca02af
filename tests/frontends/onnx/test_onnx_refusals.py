"""What cannot be converted: one report with every problem, each with its place, reason and remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import ints, model, node, rand, save

from trivet.errors import CompileError, InvalidModel, Problems
from trivet.frontends.onnx.convert import load
from trivet.frontends.onnx.ops import CONVERTERS
from trivet.frontends.onnx.refusals import _REASONS
from trivet.frontends.options import LoadOptions

X = rand(1, 4, 6, 6)


def report(proto: onnx.ModelProto, directory: Path) -> str:
    with pytest.raises(Problems) as caught:
        load(save(proto, directory))
    return str(caught.value).replace(f"{directory}/", "")


def test_all_problems_come_in_one_report(tmp_path: Path) -> None:
    nodes = [
        node("Frobnicate", "x", "a", name="first"),
        node("Unique", "a", "b"),
        node("Conv", "x w2", "c", name="third", dilations=[1, 1, 1]),
        node("MaxPool", "x", "d e", kernel_shape=[2, 2]),
        node("Resize", "x - s", "f", coordinate_transformation_mode="tf_crop_and_resize"),
        node("Reshape", "x shape", "g"),
        node("Concat", "b c d f g", "y", axis=0),
    ]
    constants = {
        "w2": rand(3, 4, 3, 3),
        "s": np.float32([1, 1, 2, 2]),
    }
    proto = model(nodes, {"x": X, "shape": np.array([1, -1])}, constants=constants)
    assert report(proto, tmp_path) == (
        "model.onnx: 6 problems\n"
        "  1. model.onnx: operator 0 Frobnicate 'first': there is no converter for it\n"
        "       hint: express it with elementwise operators, or stop the model before it\n"
        "  2. model.onnx: operator 1 Unique: the size of its result depends on the data\n"
        "       hint: stop the model before it and do this step outside\n"
        "  3. model.onnx: operator 2 Conv 'third': dilations (1, 1, 1) do not suit 2 spatial axes\n"
        "  4. model.onnx: operator 3 MaxPool: its result 'e' is not supported\n"
        "  5. model.onnx: operator 4 Resize: coordinate_transformation_mode 'tf_crop_and_resize'\n"
        "       hint: export with half_pixel, asymmetric or align_corners\n"
        "  6. model.onnx: operator 5 Reshape: operand 1 (the shape, 'shape' i64[2]) is computed at run time\n"
        "       hint: make the shape a constant, for example with onnxsim, or bind the input that it depends on"
    )


def test_notes_about_free_dimensions_stand_below_the_problems(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, "h", "w"])
    proto = model([node("Conv", "x w")], {"x": info}, constants={"w": rand(2, 3, 5, 5)})
    text = report(proto, tmp_path)
    assert "note: input 'x': free dimension 2 ('h') was bound to 1" in text
    assert "operator 0 Conv: conv2d window (5, 5) does not fit f32[1, 1, 1, 3]" in text


Case = tuple[Sequence[onnx.NodeProto], dict[str, np.ndarray], dict[str, np.ndarray], str]
FEED = {"x": X}
W = {"w": rand(3, 4, 3, 3)}
SINGLE: dict[str, Case] = {
    "four spatial axes": (
        [node("ConvTranspose", "x w")],
        {"x": rand(1, 3, 4, 4, 4, 4)},
        {"w": rand(3, 2, 3, 3, 3, 3)},
        "4 spatial axes, 1 or 2",
    ),
    "weights of another rank": (
        [node("Conv", "x w")],
        {"x": X},
        {"w": rand(3, 4, 3)},
        "weights f32[3, 4, 3] in 1 groups do not suit",
    ),
    "groups that do not divide": (
        [node("Conv", "x w", group=3)],
        {"x": X},
        {"w": rand(3, 4, 3, 3)},
        "3 groups of 4 channels do not suit",
    ),
    "kernel_shape that contradicts": (
        [node("Conv", "x w", kernel_shape=[2, 2])],
        {"x": X},
        {"w": rand(3, 4, 3, 3)},
        "kernel_shape (2, 2) contradicts",
    ),
    "negative pads": (
        [node("Conv", "x w", pads=[-1, 0, 0, 0])],
        {"x": X},
        {"w": rand(3, 4, 3, 3)},
        "negative pads (-1, 0, 0, 0)",
    ),
    "unknown auto_pad": (
        [node("Conv", "x w", auto_pad="ODD")],
        {"x": X},
        {"w": rand(3, 4, 3, 3)},
        "auto_pad 'ODD' is none of",
    ),
    "a norm of order 0": (
        [node("LpPool", "x", kernel_shape=[2, 2], p=0)],
        {"x": X},
        {},
        "the norm of order 0",
    ),
    "training batch norm": (
        [node("BatchNormalization", "x c c c c", training_mode=1)],
        {"x": X},
        {"c": rand(4)},
        "training mode",
    ),
    "batch norm of other channels": (
        [node("BatchNormalization", "x c c c c")],
        {"x": X},
        {"c": rand(3)},
        "do not suit the channels",
    ),
    "resize of channels": (
        [node("Resize", "x - s")],
        {"x": X},
        {"s": np.float32([1, 2, 2, 2])},
        "a resize of axes [1, 2, 3]",
    ),
    "reshape that loses elements": (
        [node("Reshape", "x s")],
        {"x": X},
        {"s": np.array([5, -1])},
        "cannot reshape f32[1, 4, 6, 6] to [5, -1]",
    ),
    "squeeze of a wide axis": ([node("Squeeze", "x a")], FEED, {"a": np.array([1])}, "cannot squeeze axes (1,)"),
    "axis outside": ([node("Softmax", "x", axis=4)], FEED, {}, "axis 4 is outside rank 4"),
    "no permutation": ([node("Transpose", "x", perm=[0, 1, 1, 2])], FEED, {}, "(0, 1, 1, 2) is no permutation"),
    "split that does not divide": (
        [node("Split", "x s", "y z", axis=1)],
        {"x": X},
        {"s": np.array([1, 1])},
        "do not divide axis 1",
    ),
    "index outside": (
        [node("Gather", "x i", axis=1)],
        {"x": X},
        {"i": np.array([0, 4])},
        "indices reach from 0 to 4, axis 1 has 4",
    ),
    "shapes that do not broadcast": ([node("Add", "x z")], FEED, {"z": rand(5)}, "do not broadcast together"),
    "half precision": ([node("Mul", "x x")], {"x": X.astype(np.float16)}, {}, "hint: convert the model to float32"),
    "missing operand": ([node("Conv", "x")], FEED, {}, "operand 1 is missing"),
    "missing attribute": ([node("MaxPool", "x")], FEED, {}, "attribute 'kernel_shape' is missing"),
    "attribute of another type": (
        [node("LeakyRelu", "x", alpha="big")],
        {"x": X},
        {},
        "attribute 'alpha' is not a number",
    ),
    "an empty maximum": (
        [node("Slice", "x zero zero", "e"), node("ReduceMax", "e")],
        {"x": X},
        {"zero": np.array([0])},
        "a reduction of the empty f32[0, 4, 6, 6]",
    ),
    "a constant beyond every memory": (
        [node("ConstantOfShape", "s")],
        {},
        {"s": np.array([1 << 40])},
        "a constant of shape [1099511627776]",
    ),
    "a data-sized result": (
        [node("NonMaxSuppression", "x x")],
        {"x": X},
        {},
        "the size of its result depends on the data",
    ),
    "a map": ([node("ZipMap", "x", domain="ai.onnx.ml")], {"x": X}, {}, "maps and strings have no fixed storage"),
}


@pytest.mark.parametrize("title", SINGLE)
def test_single_refusal(title: str, tmp_path: Path) -> None:
    nodes, inputs, constants, message = SINGLE[title]
    text = report(model(nodes, inputs, constants=constants), tmp_path)
    assert "1 problem\n" in text and message in text


def test_branches_of_two_shapes_chosen_at_run_time_are_refused(tmp_path: Path) -> None:
    branch = helper.make_graph([node("Exp", "x", "r")], "branch", [], [onnx.ValueInfoProto(name="r")])
    other = helper.make_graph([node("Flatten", "x", "s")], "other", [], [onnx.ValueInfoProto(name="s")])
    operator = node("If", "c", then_branch=branch, else_branch=other)
    text = report(model([operator], {"c": np.array(True), "x": X}), tmp_path)
    assert "chosen at run time" in text


def test_an_operator_that_nothing_reads_is_not_reported(tmp_path: Path) -> None:
    loaded = load(save(model([node("Frobnicate", "x", "a"), node("Relu", "x")], {"x": X}), tmp_path))
    assert len(loaded.graph.nodes) == 1


def test_unconvertible_operators_behind_a_failed_one_are_reported_too(tmp_path: Path) -> None:
    nodes = [node("Frobnicate", "x", "a"), node("Relu", "a", "b"), node("Twiddle", "b")]
    text = report(model(nodes, {"x": X}), tmp_path)
    assert "2 problems" in text and "operator 0 Frobnicate" in text and "operator 2 Twiddle" in text


def test_what_reads_an_unconvertible_result_is_checked_by_its_inferred_type(tmp_path: Path) -> None:
    nodes = [
        node("Bernoulli", "x", "hidden"),
        node("Transpose", "hidden", "turned", perm=[0, 2, 1, 3]),
        node("Concat", "turned wide"),
    ]
    nodes[2].attribute.append(helper.make_attribute("axis", 0))
    text = report(model(nodes, {"x": rand(3, 1, 1, 2)}, constants={"wide": rand(3, 1, 1, 5)}), tmp_path)
    assert "2 problems" in text
    assert "operator 2 Concat: concat does not take f32[3, 1, 1, 2] with f32[3, 1, 1, 5]" in text


def test_an_unsupported_input_type_is_named(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2])
    assert "input 'x' holds string elements" in report(model([node("Relu", "x")], {"x": info}), tmp_path)


def test_an_input_without_a_shape_asks_for_one(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)
    path = save(model([node("Relu", "x")], {"x": info}), tmp_path)
    with pytest.raises(Problems, match="give one with --input-shape x:1x"):
        load(path)
    assert load(path, LoadOptions(input_shapes={"x": (2, 3)})).graph.outputs[0].type.shape == (2, 3)


def test_an_output_declared_as_another_type_is_invalid(tmp_path: Path) -> None:
    proto = model([node("Relu", "x")], {"x": X})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.INT8, None))
    assert "output 'y' is declared i8, its operator gives f32" in report(proto, tmp_path)


def test_old_operator_sets_are_read(tmp_path: Path) -> None:
    assert load(save(model([node("Reshape", "x", shape=[-1])], {"x": X}, opset=1), tmp_path)).graph.nodes


def test_a_file_holds_one_graph(tmp_path: Path) -> None:
    path = save(model([node("Relu", "x")], {"x": X}), tmp_path)
    with pytest.raises(CompileError, match="subgraph 1 was asked for"):
        load(path, LoadOptions(subgraph=1))


def test_recursive_functions_are_invalid(tmp_path: Path) -> None:
    body = [node("F", "a", "r", "own")]
    function = helper.make_function("own", "F", ["a"], ["r"], body, [helper.make_opsetid("own", 1)])
    with pytest.raises((InvalidModel, Problems)):
        load(save(model([node("F", "x", "y", "own")], {"x": X}, functions=[function]), tmp_path))


def test_no_refusal_names_an_operator_that_converts() -> None:
    assert not {("", kind) for kind in _REASONS} & CONVERTERS.keys()


def test_gather_with_computed_indices_of_a_wide_type(tmp_path: Path) -> None:
    """Only 32- and 64-bit indices are operands of a gather."""
    inputs = {"x": X, "i": ints(2, dtype=np.int16)}
    assert "gather takes i32 or i64 indices" in report(model([node("Gather", "x i")], inputs), tmp_path)
