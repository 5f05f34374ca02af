"""What the frontend decides: names, borders, uint8 as int8, notes, bindings, states, shape arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import loaded, small_network

from tflite_builder import ModelBuilder
from trivet import interp
from trivet.core.dtype import I8, U8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import InvalidModel, Problems
from trivet.frontends.options import LoadOptions
from trivet.ir.text.printer import print_graph
from trivet.ir.verify import verify

F, B, U = np.float32, np.int8, np.uint8


def test_the_small_network_as_text(tmp_path: Path) -> None:
    """int8 weights are symmetric, the padding is resolved, the absent bias is absent, names are the file's."""
    graph = loaded(tmp_path, small_network()).graph
    lines = [line.strip() for line in print_graph(graph, elide=True).splitlines() if line.startswith("  %")]
    assert lines == [
        "%y: i8[1, 2, 2, 3]{scale=0.7, zero=-10} = conv2d{stride=(2, 2), pads=((0, 1), (0, 1)), "
        "out=quant(scale=0.7, zero=-10), numerics=tflm}(%x, %w, %b)",
        "%flat: i8[1, 12]{scale=0.7, zero=-10} = reshape{shape=(1, 12)}(%y)",
        "%z: i8[1, 2]{scale=1.5, zero=0} = dense{out=quant(scale=1.5, zero=0), numerics=tflm}(%flat, %v)",
        "%p: i8[1, 2]{scale=0.00390625, zero=-128} = softmax{axis=1, out=quant(scale=0.00390625, zero=-128), "
        "dtype=i8, numerics=tflm}(%z)",
    ]
    verify(graph)


def uint8_model() -> bytes:
    m = ModelBuilder()
    x = m.tensor("x", (1, 3), U, scale=0.5, zero_point=130)
    w = m.tensor("w", (2, 3), U, scale=0.1, zero_point=100, data=[[0, 100, 255], [1, 2, 3]])
    y = m.tensor("y", (1, 2), U, scale=2.0, zero_point=128)
    m.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    return m.finish([x], [y])


def test_uint8_is_restated_as_int8_between_the_borders(tmp_path: Path) -> None:
    graph = loaded(tmp_path, uint8_model()).graph
    assert [node.op.name for node in graph.nodes] == ["requantize", "dense", "requantize"]
    dense = graph.nodes[1]
    assert (graph.inputs[0].type.dtype, graph.outputs[0].type.dtype) == (U8, U8)
    assert [v.type.dtype for v in (*dense.inputs, dense.output)] == [I8, I8, I8]
    assert dense.inputs[0].type.quant == Quant.per_tensor(0.5, 2)
    assert dense.inputs[1].type.quant == Quant.per_tensor(0.1, -28)
    assert dense.inputs[1].data is not None
    assert dense.inputs[1].data.tolist() == [[-128, -28, 127], [-127, -126, -125]]
    assert dense.op.numerics is Numerics.LITERT_U8


def test_zero_points_of_int8_filters_are_ignored(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2, 2, 1), B, scale=0.5), m.tensor("y", (1, 2, 2, 1), B, scale=0.5)
    w = m.tensor("w", (1, 1, 1, 1), B, scale=0.1, zero_point=5, data=[7])
    b = m.tensor("b", (1,), np.int32, data=[0])
    m.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", padding=0, stride_w=1, stride_h=1)
    weights = loaded(tmp_path, m.finish([x], [y])).graph.nodes[0].inputs[1]
    assert weights.type.quant == Quant.per_tensor(0.1, 0)


def test_the_quantized_dimension_of_a_vector_is_ignored(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2, 2, 1), B, scale=0.5), m.tensor("y", (1, 2, 2, 2), B, scale=0.5)
    w = m.tensor("w", (1, 1, 1, 2), B, scale=np.array([0.1, 0.2]), axis=3, data=[[[[7, 8]]]])
    b = m.tensor("b", (2,), np.int32, scale=np.array([0.1, 0.2]), axis=3, data=[0, 1])
    fields = {"padding": 0, "stride_w": 1, "stride_h": 1, "depth_multiplier": 2}
    m.operator("DEPTHWISE_CONV_2D", [x, w, b], [y], "DepthwiseConv2DOptions", **fields)
    weights = loaded(tmp_path, m.finish([x], [y])).graph.nodes[0].inputs[1]
    assert weights.type.quant == Quant.per_axis([0.1, 0.2], [0, 0], 2)


def test_declared_quantization_after_a_move_is_a_view(tmp_path: Path) -> None:
    """Runtimes copy the bytes of a reshape whatever its tensors declare."""
    m = ModelBuilder()
    x, y = m.tensor("x", (4,), B, scale=0.5), m.tensor("y", (2, 2), B, scale=0.25, zero_point=9)
    m.operator("RESHAPE", [x, m.tensor("s", (2,), np.int32, data=[2, 2])], [y])
    graph = loaded(tmp_path, m.finish([x], [y])).graph
    assert [node.op.name for node in graph.nodes] == ["reshape", "reinterpret"]
    assert graph.outputs[0].type.quant == Quant.per_tensor(0.25, 9)


def test_shape_arithmetic_is_gone(tmp_path: Path) -> None:
    """x [2, 6] -> reshape to [SHAPE(x)[0], 3, 2]."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 6), F), m.tensor("y", (2, 3, 2), F)
    shape, first = m.tensor("shape", (2,), np.int32), m.tensor("first", (), np.int32)
    packed = m.tensor("packed", (3,), np.int32)
    zero, one = m.tensor("zero", (1,), np.int32, data=[0]), m.tensor("one", (1,), np.int32, data=[1])
    three, two = m.tensor("three", (), np.int32, data=3), m.tensor("two", (), np.int32, data=2)
    m.operator("SHAPE", [x], [shape], "ShapeOptions", out_type=2)
    m.operator("STRIDED_SLICE", [shape, zero, one, one], [first], "StridedSliceOptions", shrink_axis_mask=1)
    m.operator("PACK", [first, three, two], [packed], "PackOptions", values_count=3)
    m.operator("RESHAPE", [x, packed], [y])
    graph = loaded(tmp_path, m.finish([x], [y])).graph
    assert [node.op.name for node in graph.nodes] == ["reshape"]
    assert graph.outputs[0].type.shape == (2, 3, 2)


def test_equal_constants_are_one(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (2,), F) for name in "xyz")
    m.operator("ADD", [x, m.tensor("a", (2,), F, data=[1, 2])], [y], "AddOptions")
    m.operator("ADD", [y, m.tensor("b", (2,), F, data=[1, 2])], [z], "AddOptions")
    assert len(list(loaded(tmp_path, m.finish([x], [z])).graph.constants())) == 1


def double(shape: tuple[int, ...]) -> bytes:
    m = ModelBuilder()
    x, y, unused = m.tensor("x", shape, F), m.tensor("y", shape, F), m.tensor("unused", (1,), F)
    m.operator("ADD", [x, x], [y], "AddOptions")
    return m.finish([x, unused], [y])


def test_an_unused_input_is_noted(tmp_path: Path) -> None:
    assert loaded(tmp_path, double((2, 3))).notes == ("input 'unused' is not used",)


def test_a_free_dimension_is_bound_and_noted(tmp_path: Path) -> None:
    result = loaded(tmp_path, double((-1, 3)))
    assert result.graph.outputs[0].type.shape == (1, 3)
    assert result.notes[0] == "input 'x': free dimension 0 was bound to 1"


def test_a_free_dimension_is_noted_where_the_file_is_refused(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, w = m.tensor("x", (1, -1, 4, 1), np.float32), m.tensor("w", (1, 3, 1, 1), np.float32, data=np.ones((1, 3, 1, 1)))
    y = m.tensor("y", (1, 1, 4, 1), np.float32)
    m.operator("CONV_2D", [x, w, -1], [y], "Conv2DOptions", padding=1, stride_w=1, stride_h=1)
    with pytest.raises(Problems, match="note: input 'x': free dimension 1 was bound to 1"):
        loaded(tmp_path, m.finish([x], [y]))


def test_an_input_takes_another_shape(tmp_path: Path) -> None:
    result = loaded(tmp_path, double((-1, 3)), LoadOptions(input_shapes={"x": (5, 3)}))
    assert result.graph.outputs[0].type.shape == (5, 3)
    assert result.notes == ("input 'unused' is not used",)


def test_an_input_becomes_a_constant(tmp_path: Path) -> None:
    options = LoadOptions(bindings={"x": np.ones((2, 3), F)})
    graph = loaded(tmp_path, double((2, 3)), options).graph
    assert [value.name for value in graph.inputs] == ["unused"]
    assert graph.outputs[0].data is not None and graph.outputs[0].data.tolist() == [[2, 2, 2]] * 2


def test_an_unknown_input_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="there is no input 'z'"):
        loaded(tmp_path, double((2, 3)), LoadOptions(input_shapes={"z": (1,)}))


def test_an_absent_subgraph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="subgraph 3 was asked for, the file has 1"):
        loaded(tmp_path, double((2, 3)), LoadOptions(subgraph=3))


def counter() -> bytes:
    """count = count + x; the variable starts as zeros."""
    m = ModelBuilder()
    x, count, total = (m.tensor(name, (2,), F) for name in ("x", "count", "total"))
    handle = m.tensor("handle", (), np.int32, type_code=13)
    m.operator("VAR_HANDLE", [], [handle], "VarHandleOptions")
    m.operator("READ_VARIABLE", [handle], [count])
    m.operator("ADD", [count, x], [total], "AddOptions")
    m.operator("ASSIGN_VARIABLE", [handle, total], [])
    return m.finish([x], [total])


def test_a_variable_is_a_state(tmp_path: Path) -> None:
    graph = loaded(tmp_path, counter()).graph
    assert [state.read.name for state in graph.states] == ["count"]
    states = None
    for total in ([1, 2], [2, 4], [3, 6]):
        outputs, states = interp.run(graph, [np.array([1, 2], F)], states)
        assert outputs[0].tolist() == total


def test_a_variable_read_after_its_assignment_is_no_state(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, kept, y = (m.tensor(name, (2,), F) for name in ("x", "kept", "y"))
    handle = m.tensor("handle", (), np.int32, type_code=13)
    m.operator("VAR_HANDLE", [], [handle], "VarHandleOptions")
    m.operator("ASSIGN_VARIABLE", [handle, x], [])
    m.operator("READ_VARIABLE", [handle], [kept])
    m.operator("ADD", [kept, x], [y], "AddOptions")
    graph = loaded(tmp_path, m.finish([x], [y])).graph
    assert not graph.states
    assert [node.op.name for node in graph.nodes] == ["add"]
