"""The JSON schedule: what is written reads back, the schema describes it, and damage gives an error, always."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from networks_on_tpu import CHECKOUT, EXAMPLES, compiled, legal, random_inputs, tiny

from trivet import driver
from trivet.backends.tpu.execute import execute
from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.schedule import json_schema, read, write
from trivet.backends.tpu.timing import simulate
from trivet.errors import CompileError, InvalidModel, Unsupported

SCHEMA = CHECKOUT / "docs" / "schema" / "tpu-schedule.v1.json"
DIGITS = CHECKOUT / "examples" / "models" / "digits_int8.tflite"


def digits() -> Program:
    return compiled(legal(driver.load(DIGITS).graph), 8, 1)


def small() -> Program:
    text = "input x: i8[9, 6]\nconst w: i8[6, 5] = random(seed=1)\nconst b: i32[5] = 7\n"
    return compiled(tiny(text + "let y = relu(x @ w + b) + b\noutput y\n"), 4, 1)


def test_the_published_schema_is_the_current_one() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema()
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("program", [digits(), small()], ids=["digits", "small"])
def test_what_is_written_fits_the_schema_and_reads_back(program: Program) -> None:
    data = write(program)
    Draft202012Validator(json_schema()).validate(json.loads(data))
    assert write(read(data)) == data


BODY: dict[str, Any] = json.loads(write(small()))


def damaged(*path: str | int, value: object) -> bytes:
    """The small schedule with another value at a path."""
    body = json.loads(json.dumps(BODY))
    place = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(body).encode()


DAMAGE = {
    "another format": (damaged("format", value="x"), "is no TPU schedule"),
    "another version": (damaged("version", value=2), "is version 2"),
    "an unknown array size": (damaged("machine", "array", value=5), "there is no 5 x 5 array"),
    "a huge memory": (damaged("machine", "activation_bytes", value=1 << 40), "activation_bytes must be"),
    "a fraction for an integer": (damaged("buffers", 0, "elements", value=1.5), "must be an integer, got 1.5"),
    "a truth value for an integer": (damaged("buffers", 0, "elements", value=True), "must be an integer, got True"),
    "a negative address": (damaged("buffers", 0, "address", value=-4), "negative size or address"),
    "an address beyond the memory": (damaged("buffers", 0, "address", value=1 << 20), "bytes of activation memory"),
    "an unknown element type": (damaged("buffers", 0, "dtype", value="i16"), "one of i8, u8, i32, f32"),
    "a dangling buffer": (damaged("layers", 0, "a", "buffer", value=99), "there is no buffer 99"),
    "a view that leaves its buffer": (damaged("layers", 0, "a", "offset", value=1), "a view of elements"),
    "a target that leaves its buffer": (damaged("layers", 0, "target", "row_step", value=500), "results in elements"),
    "a result one element too far": (damaged("layers", 0, "target", "offset", value=1), "results in elements 1 to 45"),
    "a layer that waits for itself": (damaged("layers", 1, "after", value=1), "it waits for layer 1"),
    "a layer that does not wait": (damaged("layers", 1, "after", value=-1), "does not wait for a layer"),
    "parameters that are not there": (damaged("layers", 0, "epilogue", 0, "at", value=4000), "there are no parameters"),
    "an unknown step": (damaged("layers", 0, "epilogue", 0, "kind", value="fly"), "whose kind is one of"),
    "a missing key": (damaged("layers", 0, "epilogue", 0, value={"kind": "bias"}), "lacks 'at'"),
    "a tile that does not exist": (damaged("layers", 0, "passes", 0, 4, value=77), "a tile that does not exist"),
    "rows outside the view": (damaged("layers", 0, "passes", 0, 2, value=10), "rows outside the view"),
    "a short pass": (damaged("layers", 0, "passes", 0, value=[1, 2]), "a list of 10 integers"),
    "a pass before what it adds to": (damaged("layers", 0, "passes", 0, 7, value=0), "accumulators that hold nothing"),
    "no base64": (damaged("tiles", value="%%%"), "tiles is no base64"),
    "half a tile": (damaged("tiles", value="AAAA"), "no multiple of 16"),
    "not a number": (damaged("machine", "array", value=float("nan")), "NaN is no number of JSON"),
    "infinity": (damaged("layers", 0, "macs", value=float("-inf")), "-Infinity is no number of JSON"),
    "deep nesting": (b"[" * 100_000, "nested too deeply"),
    "thousands of digits": (b'{"format": ' + b"9" * 5000 + b"}", "thousands of digits"),
    "no text": (b"\xff\xfe", "is not UTF-8 text"),
    "no JSON": (b"{", "is no JSON"),
}


@pytest.mark.parametrize("title", DAMAGE)
def test_damage_is_named(title: str) -> None:
    data, message = DAMAGE[title]
    with pytest.raises((InvalidModel, Unsupported)) as caught:
        read(data)
    assert message in str(caught.value)


VALUES = st.one_of(
    st.integers(-(1 << 40), 1 << 40),
    st.integers(-3, 70),
    st.sampled_from([None, True, 0.5, "", "x", [], {}, [[]], 1 << 70, -1, 0, 1, float("inf")]),
)


def places(body: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON document."""
    found = [path] if path else []
    if isinstance(body, dict):
        for key, value in body.items():
            found += places(value, (*path, key))
    elif isinstance(body, list):
        for index, value in enumerate(body):
            found += places(value, (*path, index))
    return found


PLACES = places(BODY)


@settings(max_examples=600)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_a_mutated_schedule_is_refused_or_runs_within_its_memory(
    changes: list[tuple[tuple[str | int, ...], Any]],
) -> None:
    body = json.loads(json.dumps(BODY))
    for path, value in changes:
        place = body
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    try:
        program = read(json.dumps(body).encode())
        simulate(program)
        outputs = execute(program, random_inputs_of(program))
    except CompileError:
        return
    assert len(outputs) == len(program.outputs)


@settings(max_examples=200)
@given(st.integers(0, len(write(small())) - 1), st.binary(min_size=0, max_size=3))
def test_a_schedule_with_other_bytes_is_refused_or_runs(at: int, data: bytes) -> None:
    whole = write(small())
    try:
        program = read(whole[:at] + data + whole[at + 1 :])
        execute(program, random_inputs_of(program))
    except CompileError:
        return


def random_inputs_of(program: Program) -> list[np.ndarray]:
    """Zeros for every input: what a mutated schedule asks for."""
    return [np.zeros(port.shape, program.buffers[port.buffer].dtype.numpy) for port in program.inputs]


@pytest.mark.parametrize("path", EXAMPLES[:4], ids=lambda path: path.stem)
def test_a_schedule_says_what_its_inputs_accept(path: Path) -> None:
    graph = legal(driver.load(path).graph)
    program = read(write(compiled(graph, 8, 1)))
    wanted = [None if port.accepts is None else (port.accepts.lo, port.accepts.hi) for port in graph.input_ports]
    assert [port.accepts for port in program.inputs] == wanted
    assert len(random_inputs(graph)) == len(program.inputs)
