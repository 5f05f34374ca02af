"""Shapes and constants that are resolved at import: inputs, shape arithmetic, bindings, branches, functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import agrees, model, node, rand, run, save

from trivet.errors import Problems
from trivet.frontends.onnx.convert import load
from trivet.frontends.options import LoadOptions
from trivet.ops.conv import Conv2D
from trivet.ops.movement import Reshape

FLOAT = onnx.TensorProto.FLOAT


def free(name: str, *dims: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, dims)


def test_free_dimensions_become_one_and_are_reported(tmp_path: Path) -> None:
    loaded = load(save(model([node("Relu", "x")], {"x": free("x", "batch", 3, None)}), tmp_path))
    assert loaded.graph.inputs[0].type.shape == (1, 3, 1)
    assert loaded.notes == (
        "input 'x': free dimension 0 ('batch') was bound to 1",
        "input 'x': free dimension 2 was bound to 1",
    )


def test_a_given_shape_decides_its_symbols_everywhere(tmp_path: Path) -> None:
    proto = model([node("Concat", "x z", axis=1)], {"x": free("x", "n", 2), "z": free("z", "n", 3)})
    loaded = load(save(proto, tmp_path), LoadOptions(input_shapes={"x": (4, 2)}))
    assert [value.type.shape for value in loaded.graph.inputs] == [(4, 2), (4, 3)]
    assert loaded.notes == ("input 'z': free dimension 0 ('n') was bound to 4",)


def test_a_given_shape_may_replace_a_stated_one_with_a_note(tmp_path: Path) -> None:
    loaded = load(
        save(model([node("Relu", "x")], {"x": rand(1, 4)}), tmp_path), LoadOptions(input_shapes={"x": (2, 4)})
    )
    assert loaded.graph.outputs[0].type.shape == (2, 4)
    assert loaded.notes == ("input 'x': dimension 0 is 1 in the model and 2 as given",)


BAD_SHAPES = {
    "unknown input": ({"q": (1, 4)}, "the model has no input 'q' to give a shape\n       hint: inputs: 'x'"),
    "other rank": ({"x": (4,)}, "input 'x' has 2 dimensions, [4] was given"),
    "zero": ({"x": (0, 4)}, "input 'x' cannot have the shape [0, 4]"),
    "too large": ({"x": (1 << 20, 1 << 20)}, "input 'x' f32[1048576, 1048576] takes 4398046511104 bytes"),
}


@pytest.mark.parametrize("title", BAD_SHAPES)
def test_impossible_input_shapes(title: str, tmp_path: Path) -> None:
    shapes, message = BAD_SHAPES[title]
    path = save(model([node("Relu", "x")], {"x": rand(1, 4)}), tmp_path)
    with pytest.raises(Problems) as caught:
        load(path, LoadOptions(input_shapes=shapes))
    assert message in str(caught.value)


def test_shape_arithmetic_leaves_no_operators(tmp_path: Path) -> None:
    """The exporter's flatten: Shape, Gather, Unsqueeze, Concat, Reshape."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "batch"),
        node("Unsqueeze", "batch zero1", "batch1"),
        node("Concat", "batch1 rest", "target", axis=0),
        node("Reshape", "x target"),
    ]
    constants = {"zero": np.int64(0), "zero1": np.array([0]), "rest": np.array([-1])}
    x = rand(2, 3, 4)
    loaded = agrees(model(nodes, {"x": x}, constants=constants), {"x": x}, tmp_path)
    assert [type(n.op) for n in loaded.graph.nodes] == [Reshape]


def test_ranges_and_constants_of_shapes_are_evaluated(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s", start=1),
        node("ConstantOfShape", "s", "ones", value=helper.make_tensor("v", FLOAT, [1], [1.0])),
        node("Size", "x", "count"),
        node("Range", "zero count one", "r"),
        node("Cast", "r", "rf", to=FLOAT),
        node("Reshape", "rf s0", "grid"),
        node("Add", "grid ones", "sum"),
        node("Mul", "sum x"),
    ]
    constants = {"zero": np.int64(0), "one": np.int64(1), "s0": np.array([2, 3])}
    x = rand(2, 3)
    loaded = agrees(model(nodes, {"x": x}, constants=constants), {"x": x}, tmp_path)
    assert len(loaded.graph.nodes) == 1


def test_an_initializer_listed_as_input_is_a_constant(tmp_path: Path) -> None:
    weights = rand(3, 2, 3, 3)
    inputs = {"x": rand(1, 2, 5, 5), "w": weights}
    proto = model([node("Conv", "x w")], inputs, constants={"w": weights})
    loaded = load(save(proto, tmp_path))
    assert [port.name for port in loaded.graph.input_ports] == ["x"]
    assert any(isinstance(n.op, Conv2D) and n.inputs[1].is_constant for n in loaded.graph.nodes)


def test_a_bound_input_is_a_constant(tmp_path: Path) -> None:
    x, shape = rand(2, 6), np.array([3, -1])
    proto = model([node("Reshape", "x s")], {"x": x, "s": shape})
    loaded = load(save(proto, tmp_path), LoadOptions(bindings={"s": shape}))
    np.testing.assert_array_equal(run(loaded, {"x": x})[0], x.reshape(3, 4))


def test_a_binding_of_another_element_type_is_refused(tmp_path: Path) -> None:
    path = save(model([node("Relu", "x")], {"x": rand(2)}), tmp_path)
    with pytest.raises(Problems, match="input 'x' is float, it cannot be bound to int64 elements"):
        load(path, LoadOptions(bindings={"x": np.array([1, 2])}))


@pytest.mark.parametrize("rank", [2, 3])
def test_the_branch_that_a_known_condition_chooses_is_inlined(rank: int, tmp_path: Path) -> None:
    result = [helper.make_tensor_value_info("r", FLOAT, None)]
    branches = {
        "then_branch": helper.make_graph([node("Neg", "x", "r")], "then", [], result),
        "else_branch": helper.make_graph([node("Exp", "x", "r")], "else", [], result),
    }
    nodes = [
        node("Shape", "x", "s"),
        node("Size", "s", "rank"),
        node("Equal", "rank two", "is_matrix"),
        node("If", "is_matrix", **branches),
    ]
    x = rand(*(2,) * rank)
    agrees(model(nodes, {"x": x}, constants={"two": np.int64(2)}), {"x": x}, tmp_path)


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = [node("Mul", "a b", "t"), helper.make_node("LeakyRelu", ["t"], ["r"])]
    body[1].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    function = helper.make_function("own", "Scaled", ["a", "b"], ["r"], body, [helper.make_opsetid("", 18)], ["slope"])
    nodes = [node("Scaled", "x w", "h", "own", slope=0.25), node("Scaled", "h w", "y", "own", slope=0.5)]
    x = rand(2, 3)
    agrees(model(nodes, {"x": x}, constants={"w": rand(3)}, functions=[function]), {"x": x}, tmp_path)


def test_what_only_shape_arithmetic_read_is_gone(tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "e"), node("Shape", "e", "s"), node("Reshape", "x s")]
    loaded = load(save(model(nodes, {"x": rand(2, 3)}), tmp_path))
    assert not loaded.graph.nodes


def test_the_order_of_the_file_does_not_matter(tmp_path: Path) -> None:
    nodes = [node("Neg", "h"), node("Exp", "x", "h")]
    loaded = load(save(model(nodes, {"x": rand(2, 3)}), tmp_path))
    assert [n.op.name for n in loaded.graph.nodes] == ["exp", "neg"]


def test_the_last_operand_of_an_operator_is_computed_first(tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "a"), node("Neg", "x", "b"), node("Add", "a b")]
    loaded = load(save(model(nodes, {"x": rand(2)}), tmp_path))
    assert [n.op.name for n in loaded.graph.nodes] == ["neg", "exp", "add"]


def test_values_keep_the_names_of_the_file(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "h"), node("Relu", "h")]
    loaded = load(save(model(nodes, {"x": rand(1, 2, 5, 5)}, constants={"w": rand(3, 2, 3, 3)}), tmp_path))
    names = {value.name: value.type.shape for n in loaded.graph.nodes for value in n.outputs}
    assert names["h"] == (1, 3, 3, 3) and names["y"] == (1, 3, 3, 3)
    assert loaded.graph.output_ports[0].name == "y"
