"""The `.tiny` language: what programs mean, and what an error looks like."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from normal_form import normal_form
from trivet import interp
from trivet.core.dtype import I8, I32
from trivet.errors import InvalidModel
from trivet.frontends.options import LoadOptions
from trivet.frontends.tiny import constants
from trivet.frontends.tiny.convert import load, parse
from trivet.ir.verify import verify

DENSE = """# a dense layer
input  x: i8[4, 8]
const  w: i8[8, 16] = random(seed=1)
const  b: i32[16] = 7
let    y = relu(x @ w + b)
output y
"""


def test_a_dense_layer() -> None:
    graph = parse(DENSE)
    verify(graph)
    assert [n.op.name for n in graph.nodes] == ["matmul", "add", "relu"]
    assert graph.outputs[0].name == "y"
    x = np.arange(32, dtype=np.int8).reshape(4, 8)
    w = constants.random(I8, (8, 16), 1).astype(np.int64)
    (y,), _ = interp.run(graph, [x])
    np.testing.assert_array_equal(y, np.maximum(x.astype(np.int64) @ w + 7, 0))


def test_every_operator_knows_its_span() -> None:
    loc = parse(DENSE).nodes[1].loc
    assert str(loc) == "<text>:5:17" and loc is not None


def test_product_binds_tighter_than_sum() -> None:
    graph = parse("input a: i32[2,2] input b: i32[2,2] let y = a + a @ b output y")
    assert [n.op.name for n in graph.nodes] == ["matmul", "add"]


def test_sums_associate_to_the_left() -> None:
    graph = parse("input a: i32[2] input b: i32[2] input c: i32[2] let y = a + b + c output y")
    assert [v.name for v in graph.nodes[0].inputs] == ["a", "b"]
    assert graph.nodes[1].inputs[1].name == "c"


@pytest.mark.parametrize("value", [127, -128])
def test_the_greatest_and_the_least_number_fit(value: int) -> None:
    constant = parse(f"const c: i8[2] = {value}\noutput c").outputs[0]
    assert constant.data is not None and constant.data.tolist() == [value, value]


def test_lists_may_span_lines() -> None:
    graph = parse("input x: i32[2]\nconst c: i32[2, 2] = [[1, -2],\n  [3, 4]]\nlet y = x @ c\noutput y")
    (y,), _ = interp.run(graph, [np.array([1, 1], np.int32)])
    np.testing.assert_array_equal(y, [4, 2])


def test_lists_may_hold_comments_and_signs() -> None:
    constant = parse("const c: i32[2, 3] = [[1, -2, +3], # one row, [9], 8\n [ 04,5 ,\n6 ]]\noutput c").outputs[0]
    assert constant.data is not None and constant.data.tolist() == [[1, -2, 3], [4, 5, 6]]


def test_a_program_may_come_from_another_system(tmp_path: Path) -> None:
    path = tmp_path / "dense.tiny"
    path.write_bytes(b"\xef\xbb\xbf" + DENSE.replace("\n", "\r\n").encode())
    assert normal_form(load(path, LoadOptions()).graph) == normal_form(parse(DENSE, "dense"))
    path.write_bytes(b"\xef\xbb\xbfinput x: i8[2]\r\nlet y = z\r\n")
    with pytest.raises(InvalidModel, match=r":2:9: 'z' is not defined"):
        load(path, LoadOptions())


COUNT = 250_000
LARGE = [
    ("numbers", f"const c: i8[{COUNT}] = [" + "12," * (COUNT - 1) + "7]\noutput c", None),
    ("rows", f"const c: i8[{COUNT // 2}, 1] = [" + "[12]," * (COUNT // 2 - 1) + "[7]]\noutput c", None),
    (
        "a number that does not fit",
        f"const c: i8[{COUNT}] = [" + "12," * (COUNT - 1) + "128]",
        ":1:750021: 128 does not",
    ),
    ("a row too many", "const c: i8[1, 1] = [" + "[12]," * COUNT + "[7]]", ":1:23: axis 0 has 1 entries, the list has"),
    ("a comma too many", f"const c: i8[{COUNT}] = [" + "12," * COUNT + "]", ":1:750024: found ']', expected '[' or"),
    (
        "no end",
        f"const c: i8[{COUNT}] = [" + "12," * COUNT + "1\noutput c",
        ":2:1: found 'output', expected ',' or ']'",
    ),
    ("white space", "const c: i8[2] = [[1" + " " * 1_000_000 + "x]]", ":1:1000021: found 'x', expected ',' or ']'"),
    ("axes", "input x: i8[" + "1, " * COUNT + "1]", ":1:19: tensors have one or two axes, this one has more"),
    ("a name", "let y = " + "q" * 1_000_000, ":1:9: 'qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq...' is not defined"),
    ("a file", 'const c: i8[1] = file "' + "q" * 1_000_000 + '"', ":1:23: cannot read ..."),
]


@pytest.mark.parametrize(("text", "error"), [c[1:] for c in LARGE], ids=[c[0] for c in LARGE])
def test_a_line_of_a_megabyte_takes_no_two_seconds(text: str, error: str | None) -> None:
    start = time.process_time()
    if error is None:
        data = parse(text).outputs[0].data
        assert data is not None and data.ravel()[-1] == 7
    else:
        with pytest.raises(InvalidModel) as caught:
            parse(text)
        assert str(caught.value).startswith(f"<text>{error}") and len(str(caught.value)) < 600
    assert time.process_time() - start < 2


def test_constants_from_files_are_relative_to_the_program(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.array([5, 6], np.int64))
    graph = parse('input x: i32[2] const c: i32[2] = file "c.npy" let y = x + c output y', directory=tmp_path)
    (y,), _ = interp.run(graph, [np.array([1, 1], np.int32)])
    np.testing.assert_array_equal(y, [6, 7])


def test_random_data_is_the_same_for_ever() -> None:
    assert constants.random(I8, (6,), 1).tolist() == RANDOM_I8
    assert constants.random(I32, (4,), 42).tolist() == RANDOM_I32
    many = constants.random(I8, (100_000,), 3)
    assert many.min() == -128 and many.max() == 127


RANDOM_I8 = [65, -25, -34, -117, 57, 0]
RANDOM_I32 = [312, 888, -832, -430]

HEAD = "input x: i8[2, 3]\n"

ERRORS = [
    ("unbalanced", HEAD + "let y = relu(x\noutput y", "<text>:3:1", "expected ')'"),
    ("unknown name", HEAD + "let y = xx\noutput y", "<text>:2:9", "'xx' is not defined, did you mean 'x'?"),
    (
        "shape mismatch",
        HEAD + "let y = x @ x\noutput y",
        "<text>:2:11",
        "the inner sizes of i8[2, 3] @ i8[2, 3] differ",
    ),
    ("sum mismatch", HEAD + "const c: i8[2] = 1\nlet y = x + c\noutput y", "<text>:3:11", "do not match"),
    ("two vectors", "input x: i8[3]\nlet y = x @ x\noutput y", "<text>:2:11", "no axis left"),
    ("constant too large", "const c: i8[2] = 200\noutput c", "<text>:1:18", "200 does not fit i8 (-128 to 127)"),
    ("list too short", "const c: i8[2] = [1]\noutput c", "<text>:1:19", "axis 0 has 2 entries, the list has 1"),
    ("list too deep", "const c: i8[1] = [[1]]\noutput c", "<text>:1:20", "nested deeper than 1 axes"),
    ("empty list", "const c: i8[2] = []\noutput c", "<text>:1:18", "axis 0 has 2 entries, the list has 0"),
    ("empty row", "const c: i8[1, 2] = [ [ ]]\noutput c", "<text>:1:23", "axis 1 has 2 entries, the list has 0"),
    ("a number in place of a row", "const c: i8[2, 1] = [[1], 2]\noutput c", "<text>:1:23", "axis 1 is missing"),
    ("a misfit in the second row", "const c: i8[2, 2] = [[1, 2], [3, -129]]", "<text>:1:34", "-129 does not fit"),
    ("a misfit after a comment", "const c: i8[2] = [1, # 5\n 300]", "<text>:2:2", "300 does not fit"),
    ("a long number in a row", "const c: i8[1, 2] = [[1, " + "9" * 21 + "]]", "<text>:1:26", "too long"),
    ("axes of nothing", "input x: i8[]", "<text>:1:13", "found ']', expected a number"),
    ("missing file", 'const c: i8[2] = file "no.npy"\noutput c', "<text>:1:23", "cannot read"),
    ("unknown type", "input x: f32[2]", "<text>:1:10", "expected i8 or i32"),
    ("three axes", "input x: i8[2, 2, 2]", "<text>:1:19", "one or two axes"),
    ("defined twice", HEAD + HEAD, "<text>:2:7", "'x' is defined twice"),
    ("no output", HEAD, "<text>:2:1", "has no output"),
    ("strange character", HEAD + "let y = x $ x", "<text>:2:11", "unexpected character '$'"),
    ("keyword as a name", HEAD + "let relu = x", "<text>:2:5", "found 'relu', expected a name"),
    ("not a program", "hello world", "<text>:1:1", "expected"),
    ("deep nesting", HEAD + "let y = " + "(" * 10_000 + "x" + ")" * 10_000, "<text>:2:209", "brackets"),
    ("long number", "input x: i8[" + "9" * 1_000_000 + "]", "<text>:1:13", "too long"),
    ("long line", HEAD + "let y = x" + " + x" * 250_000, "<text>:2:40011", "more than 10000 operators"),
    ("long list", "const c: i8[2] = [" + "1, " * 50_000 + "]", "<text>:1:150019", "found ']', expected"),
    ("no operand", HEAD + "let y = x +\noutput y", "<text>:3:1", "found 'output', expected"),
]


@pytest.mark.parametrize(("text", "where", "message"), [c[1:] for c in ERRORS], ids=[c[0] for c in ERRORS])
def test_errors_have_a_place_a_caret_and_a_reason(text: str, where: str, message: str) -> None:
    with pytest.raises(InvalidModel) as caught:
        parse(text)
    shown = str(caught.value)
    assert shown.startswith(where + ":") and message in shown and "^" in shown
    assert len(shown) < 600
