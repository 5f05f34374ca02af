"""Artifacts: the launch list and the programs, as they are written, read, damaged and refused."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from compiled import expected, graph_of, product, program_of, random_inputs, same
from hypothesis import given, settings
from hypothesis import strategies as st

from trivet.backends.gpu.artifact import files
from trivet.backends.gpu.launch import from_json, to_json
from trivet.backends.gpu.positions import line_of
from trivet.backends.gpu.runnable import GpuArtifact, read
from trivet.backends.gpu.simulate import Trap
from trivet.backends.target import RunOptions
from trivet.errors import CompileError, InvalidModel

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schema" / "gpu-launch.v1.json"
TEXT = product(4, 8, 16, "relu(x @ w + b)")


def written(directory: Path, level: int = 1) -> Path:
    """An artifact's main file."""
    for suffix, data in files(program_of(graph_of(TEXT), level)).items():
        (directory / f"x{suffix}").write_bytes(data)
    return directory / "x.tgpu"


def damaged(directory: Path, old: str, new: str, suffix: str = ".tgpu.json") -> Path:
    path = written(directory)
    damaged_file = path.with_name(f"x{suffix}")
    text = damaged_file.read_text()
    assert old in text
    damaged_file.write_text(text.replace(old, new, 1))
    return path


def test_an_artifact_runs_from_its_files(tmp_path: Path) -> None:
    artifact = read(written(tmp_path), RunOptions())
    graph = graph_of(TEXT)
    for seed in (0, 1):
        inputs = random_inputs(graph, seed)
        assert same(artifact.run(inputs), expected(graph, inputs))
    assert artifact.total().instructions > 0


def test_the_list_round_trips_and_follows_its_schema() -> None:
    program = program_of(graph_of(TEXT), 2)
    text = to_json(program.launches)
    assert from_json(text, "x.tgpu.json") == program.launches
    jsonschema.validate(json.loads(text), json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"format": "trivet-gpu-launch"', '"format": "other"', "format"),
        ('"version": 1', '"version": 9', "version 1 is known, found 9"),
        ('"isa": "base"', '"isa": "vector"', 'expected "base" or "extended"'),
        ('"grid": ', '"grid": 4000', "expected an integer from 1 to 1024"),
        ('"block": 16', '"block": 1000', "more than the machine's 1024 threads"),
        ('[], "shared_words": ', '[], "shared_words": 99999', "expected an integer from 0 to"),
        ('"arguments": []', '"arguments": [1, 2, 3, 4, 5, 6]', "at most 5"),
        ('"name": "x", "address": ', '"name": "x", "address": 9', "point outside memory"),
        ('{"address": ', '{"address": 9999', "point outside memory"),
        ('"name": "x", "address": ', '"name": "x", "address": -', "expected an integer from 0"),
        ('"registers": 8', '"registers": 4', "at least 8 registers"),
        ('"lanes": 32', '"lanes": 0', "expected an integer from 1"),
        ('"program": "k0_matmul"', '"program": "nothing"', "there is no kernel nothing"),
        ('"dtype": "i8"', '"dtype": "f32"', "a word holds integers"),
        ('"perm": null', '"perm": [0, 0]', "is no order of 2 axes"),
        ('"launches": [', '"launches": [7,', "expected an object, found 7"),
        ('"buffers"', '"things"', 'there is no "buffers"'),
        ("{", "{{", "is no JSON"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(old: str, new: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidModel) as caught:
        read(damaged(tmp_path, old, new), RunOptions())
    assert reason in str(caught.value)
    assert "x." in str(caught.value.where)


@pytest.mark.parametrize("key", ["constants", "buffers"])
def test_what_begins_in_memory_must_end_there(key: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    file = path.with_name("x.tgpu.json")
    data = json.loads(file.read_text())
    data[key][0]["address"] = data["mem_words"] - 1
    file.write_text(json.dumps(data))
    with pytest.raises(InvalidModel, match="point outside memory"):
        read(path, RunOptions())


def test_the_line_is_that_of_the_entry(tmp_path: Path) -> None:
    path = damaged(tmp_path, '"name": "x", "address": ', '"name": "x", "address": 9')
    text = path.with_name("x.tgpu.json").read_text().splitlines()
    wrong = next(number for number, line in enumerate(text, 1) if '"name": "x", "address": 9' in line)
    with pytest.raises(InvalidModel) as caught:
        read(path, RunOptions())
    assert str(caught.value.where).endswith(f"x.tgpu.json:{wrong}")


def test_positions_are_found() -> None:
    text = '{\n "a": [1,\n  {"b": "x,[",\n   "c": 2}],\n "d": 3\n}'
    assert line_of(text, ("a", 1, "c")) == 4
    assert line_of(text, ("d",)) == 5
    assert line_of(text, ("a", 0)) == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    MUL", "    FOO", "FOO is no instruction"),
        ("    MUL R1", "    MUL R9", "register R9 is out of range"),
        ("    MUL R1", "    JMP nowhere\n    MUL R1", "there is no label nowhere"),
    ],
)
def test_what_is_wrong_with_a_program_is_said_with_its_line(old: str, new: str, reason: str, tmp_path: Path) -> None:
    path = damaged(tmp_path, old, new, ".tgpu")
    lines = path.read_text().splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if new.splitlines()[0] in line)
    with pytest.raises(CompileError) as caught:
        read(path, RunOptions())
    assert reason in str(caught.value) and f"x.tgpu:{wrong}:" in str(caught.value)


def test_a_program_that_never_ends_traps_at_its_line(tmp_path: Path) -> None:
    path = damaged(tmp_path, "    MUL", "here:\n    ADD R0, R0, 0\n    JMP here\n    MUL", ".tgpu")
    limited = path.with_name("x.tgpu.json")
    limited.write_text(limited.read_text().replace('"cycle_limit": 1000000', '"cycle_limit": 10000'))
    artifact = read(path, RunOptions())
    with pytest.raises(Trap, match=r"does not end") as caught:
        artifact.run(random_inputs(graph_of(TEXT)))
    assert "x.tgpu:" in str(caught.value)


def test_an_output_that_is_none_of_its_type_is_refused(tmp_path: Path) -> None:
    path = damaged(tmp_path, '"dtype": "i32", "shape": [4, 16], "model"', '"dtype": "i8", "shape": [4, 16], "model"')
    artifact: GpuArtifact = read(path, RunOptions())
    with pytest.raises(InvalidModel, match="no i8"):
        artifact.run(random_inputs(graph_of(TEXT)))


def test_without_a_list_there_is_no_artifact(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.with_name("x.tgpu.json").unlink()
    with pytest.raises(InvalidModel, match="lies beside it"):
        read(path, RunOptions())


LIST = to_json(program_of(graph_of(product(2, 3, 2)), 1).launches)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.just([]), st.just({}), st.floats())


@settings(max_examples=25)
@given(st.data())
def test_no_damage_gets_past_the_reader(data: st.DataObject) -> None:
    """Any value of the list replaced by any other is refused, or still describes words inside memory."""
    root = json.loads(LIST)
    holder, key = root, data.draw(st.sampled_from(sorted(root)))
    while isinstance(holder[key], dict | list) and holder[key] and data.draw(st.booleans()):
        holder = holder[key]
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    holder[key] = data.draw(VALUES)
    try:
        launches = from_json(json.dumps(root), "x.tgpu.json")
    except InvalidModel as error:
        assert "x.tgpu.json:" in str(error)
        return
    for place in (*launches.inputs, *launches.outputs, *launches.buffers):
        assert 0 <= place.address <= place.address + place.words <= launches.mem_words
    assert all(np.prod([e.grid, e.block]) <= 1024 for e in launches.launches)
