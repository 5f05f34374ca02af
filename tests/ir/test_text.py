"""The text form reads back as the same graph, and says what is wrong with a text that does not."""

from __future__ import annotations

import numpy as np
import pytest

from trivet import interp
from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I32, U8
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import InvalidModel
from trivet.ir.graph import Graph, Port
from trivet.ir.text.parser import parse_graph
from trivet.ir.text.printer import print_graph
from trivet.ir.types import TensorType
from trivet.ir.verify import verify
from trivet.ops import OP_BY_NAME
from trivet.ops.conv import Conv2D
from trivet.ops.movement import Pad, Reshape, Transpose


def quantized_convolution() -> Graph:
    graph = Graph("net/with strange name")
    quant = Quant.per_tensor(0.1, -3)
    port = Port("model input", TensorType(U8, (1, 3, 4, 4), quant.shifted(128)), (0, 3, 1, 2))
    x = graph.add_input("x", TensorType(I8, (1, 4, 4, 3), quant), port)
    weights = np.arange(4 * 27, dtype=np.int8).reshape(4, 3, 3, 3)
    per_channel = Quant.per_axis([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], 0)
    w = graph.constant(weights, TensorType(I8, weights.shape, per_channel), "w;0")
    b = graph.constant(np.array([1, -2, 3, -4], np.int32), TensorType(I32, (4,)), "b")
    op = Conv2D(pads=((1, 1), (1, 1)), clamp=Bounds(-3, 127), out=Quant.per_tensor(0.25, 4), numerics=Numerics.TFLM)
    y = graph.emit(op, x, w, b, name="y")
    graph.add_output(graph.emit(Reshape((1, 64)), y))
    return graph


def round_trip(graph: Graph) -> Graph:
    text = print_graph(graph)
    again = parse_graph(text, OP_BY_NAME)
    verify(again)
    assert print_graph(again) == text
    return again


def test_a_quantized_convolution_reads_back() -> None:
    graph = quantized_convolution()
    again = round_trip(graph)
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    assert again.input_ports == graph.input_ports
    assert again.inputs[0].type == graph.inputs[0].type
    assert [c.type for c in again.constants()] == [c.type for c in graph.constants()]
    for before, after in zip(graph.constants(), again.constants(), strict=True):
        np.testing.assert_array_equal(before.data, after.data)


def test_what_an_input_accepts_reads_back() -> None:
    graph = Graph()
    type_ = TensorType(I32, (2,))
    graph.add_output(graph.add_input("x", type_, Port("x", type_, None, Interval(-7, 9))))
    graph.add_output(graph.add_input("y", type_))
    assert [port.accepts for port in round_trip(graph).input_ports] == [Interval(-7, 9), None]


@pytest.mark.parametrize("accepts", ["(1, 0)", "(-129, 0)", "(0, 128)", "(0)", "5", "(0.5, 1)", "(0, 1, 2)", "[0, 1]"])
def test_what_no_input_accepts_is_refused(accepts: str) -> None:
    text = f'graph main(%x: i8[2]) {{ port input 0 "x": i8[2] accepts={accepts} return %x }}'
    with pytest.raises(InvalidModel, match=r"accepts|expected"):
        parse_graph(text, OP_BY_NAME)


def test_states_read_back() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (2, 2)))
    state = graph.add_state("history", TensorType(F32, (2, 2)), np.array([[0.1, 0.2], [np.inf, -0.0]], np.float32))
    written = graph.emit(Transpose((1, 0)), x, name="written")
    graph.set_state(state, written)
    graph.add_output(state)
    again = round_trip(graph)
    outputs, states = interp.run(again, [np.eye(2, dtype=np.float32)])
    np.testing.assert_array_equal(outputs[0], graph.states[0].initial)
    np.testing.assert_array_equal(states[0], np.eye(2, dtype=np.float32))


@pytest.mark.parametrize("value", [0.1, 1e-30, -0.0, float("inf"), 16777217.0])
def test_float_attributes_keep_every_bit(value: float) -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(F32, (2,)))
    graph.add_output(graph.emit(Pad((1,), (0,), value), x))
    op = round_trip(graph).nodes[0].op
    assert isinstance(op, Pad) and repr(op.value) == repr(value)


def test_unnamed_and_repeated_names_become_unique() -> None:
    graph = Graph()
    x = graph.add_input("a", TensorType(F32, (2,)))
    first = graph.emit(Reshape((1, 2)), x, name="a")
    graph.add_output(graph.emit(Reshape((2,)), first))
    assert len({v.name for n in round_trip(graph).nodes for v in n.outputs}) == 2


HEAD = "graph main(%x: f32[2]) {\n"

INVALID = [
    ("unknown operator", HEAD + "%y = reshap{shape=(2,)}(%x)\nreturn %y }", 2, "did you mean 'reshape'"),
    ("unknown value", HEAD + "%y = reshape{shape=(2,)}(%z)\nreturn %y }", 2, "%z is not defined"),
    ("unknown attribute", HEAD + "%y = reshape{size=(2,)}(%x)\nreturn %y }", 2, "no attribute 'size' (it has: shape)"),
    ("wrong attribute type", HEAD + "%y = reshape{shape=2}(%x)\nreturn %y }", 2, "expected a tuple"),
    ("operand mismatch", HEAD + "%y = reshape{shape=(3,)}(%x)\nreturn %y }", 2, "changes the element count"),
    ("declared type", HEAD + "%y: f32[3] = reshape{shape=(2,)}(%x)\nreturn %y }", 2, "is f32[2], not f32[3]"),
    ("defined twice", HEAD + "%x = reshape{shape=(2,)}(%x)\nreturn %x }", 2, "%x is defined twice"),
    ("unbalanced", HEAD + "return %x", 2, "expected '}', found 'end of file'"),
    ("element type", "graph main(%x: f33[2]) { return %x }", 1, "unknown element type 'f33'"),
    ("constant range", HEAD + "const %c: i8[2] = [1, 200]\nreturn %x }", 2, "200 is not a value of i8"),
    ("constant count", HEAD + "const %c: i8[2] = [1]\nreturn %x }", 2, "has 2 elements, found 1"),
    ("elided data", HEAD + "const %c: i8[200] = #c\nreturn %x }", 2, "the data of #c is missing"),
    ("huge shape", "graph main(%x: f32[100000, 100000]) { return %x }", 1, "out of range"),
    ("infinite scale", "graph main(%x: i8[2]{scale=1e999, zero=0}) { return %x }", 1, "a scale is a float32 from 0"),
    ("negative scale", "graph main(%x: i8[2]{scale=-1.0, zero=0}) { return %x }", 1, "a scale is a float32 from 0"),
    ("scale of a word", "graph main(%x: i8[2]{scale=one, zero=0}) { return %x }", 1, "a scale is a float32 from 0"),
    (
        "scales of no axis",
        "graph main(%x: i8[2]{scales=(1.0, 2.0), zeros=(0, 0), axis=1}) { return %x }",
        1,
        "2 scales along axis 1 of [2]",
    ),
    (
        "more scales than channels",
        "graph main(%x: i8[2]{scales=(1.0, 2.0, 3.0), zeros=(0, 0, 0), axis=0}) { return %x }",
        1,
        "3 scales along axis 0 of [2]",
    ),
    ("strange character", HEAD + "?", 2, "unexpected character '?'"),
    ("deep nesting", HEAD + "%y = reshape{shape=" + "(" * 10000, 2, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "line", "message"), [c[1:] for c in INVALID], ids=[c[0] for c in INVALID])
def test_errors_name_the_place(text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidModel) as caught:
        parse_graph(text, OP_BY_NAME, "case.tir")
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"case.tir:{line}:")
