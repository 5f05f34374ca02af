"""What the machine does not run, has not got, or has no room for is said by name, in one report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from networks_on_tpu import CHECKOUT, legal, tiny

from int8_networks import QUANT, Builder
from trivet import driver
from trivet.backends.target import MachineOptions, RunOptions
from trivet.backends.tpu.machine import read_machine
from trivet.backends.tpu.target import BACKEND
from trivet.cli.main import main
from trivet.core.dtype import F32, I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import CompileError, DoesNotFit, InvalidModel, Problems, Unsupported
from trivet.frontends.options import Loaded
from trivet.frontends.tiny.convert import parse
from trivet.ir.graph import Graph
from trivet.ir.types import TensorType
from trivet.ops.activation import Tanh
from trivet.ops.elementwise import Add
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import Tile

REFERENCE = CHECKOUT / "src" / "trivet" / "backends" / "tpu" / "machine.toml"
EXAMPLES = CHECKOUT / "examples" / "tiny"


def built(text: str, **settings: object) -> None:
    driver.build_for_machine(Loaded(parse(text)), driver.Settings(target="tpu:4", **settings))


def test_every_operator_is_named_with_its_reason_in_one_report() -> None:
    b = Builder()
    x = b.input(1, 2, 4)
    doubled = b.emit(Add(out=QUANT, numerics=Numerics.ONNX), x, x)
    tiled = b.emit(Tile((1, 2, 1)), doubled)
    product = b.emit(BatchMatMul(True, QUANT, Numerics.TFLM), tiled, tiled)
    floats = b.graph.add_input("f", TensorType(F32, (3,)))
    graph = b.finish(product, b.emit(Tanh(), floats))
    with pytest.raises(Problems) as caught:
        legal(graph)
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    assert "add: the contract 'onnx' adds in floating point" in text
    assert "tile: neither the array nor the vector unit nor the scalar unit runs it" in text
    assert "batch_matmul: neither" in text and "tanh: its table would be indexed by f32" in text


def test_an_i32_product_is_refused_where_it_stands() -> None:
    path = EXAMPLES / "two_layers.tiny"
    with pytest.raises(CompileError, match=r"two_layers.tiny:9:\d+: matmul: operand %hidden of @ is i32"):
        driver.build_for_machine(driver.load(path), driver.Settings(target="tpu"))


def test_an_operand_without_a_name_is_said_by_what_makes_it() -> None:
    with pytest.raises(CompileError, match=r"matmul: operand relu\(...\) of @ is i32"):
        tiny("input x: i8[3]\nconst w: i8[3, 3] = random(seed=1)\nlet y = relu(x @ w) @ w\noutput y\n", level=0)


def test_a_scale_that_no_shift_reaches_is_refused() -> None:
    b = Builder()
    x = b.graph.add_input("x", TensorType(I8, (1, 4), Quant.per_tensor(1e12, 0)))
    graph = b.finish(b.emit(Dense(out=QUANT, numerics=Numerics.TFLM), x, b.weight(4, 4)))
    with pytest.raises(CompileError, match="a shift by 38 bits: the epilogue shifts by up to 31"):
        legal(graph)


def test_an_i32_constant_that_fits_int8_is_none() -> None:
    tiny("input x: i8[2, 2]\nconst w: i32[2, 2] = [[-128, 127], [1, 2]]\nlet y = x @ w\noutput y\n")
    with pytest.raises(CompileError, match="operand %w of @ is i32"):
        tiny("input x: i8[2, 2]\nconst w: i32[2, 2] = [[-129, 127], [1, 2]]\nlet y = x @ w\noutput y\n")


@pytest.mark.parametrize("argument", ["5", "0", "256", "-8", "x", "", "9" * 50, "³"])
def test_an_array_size_that_is_none(argument: str) -> None:
    with pytest.raises(Unsupported, match=r"there is no|is no array size"):
        BACKEND.configure(MachineOptions(argument))


def test_an_instruction_set_is_for_the_other_machine() -> None:
    with pytest.raises(Unsupported, match="one instruction set"):
        BACKEND.configure(MachineOptions(isa="extended"))


MACHINES = {
    "no TOML": ("array = ", "is no TOML"),
    "a field is missing": ("array = 8\n", "a machine has exactly the fields array, activation_bytes"),
    "a fraction": (REFERENCE.read_text().replace("= 512", "= 51.2"), "accumulator_rows must be an integer"),
    "no memory": (REFERENCE.read_text().replace("= 524288 ", "= 0 "), "must be an integer from 1"),
    "another size": (REFERENCE.read_text().replace("array = 8", "array = 12"), "there is no 12 x 12 array"),
    "a word for a truth value": (REFERENCE.read_text().replace("= true", '= "yes"'), "must be true or false"),
}


@pytest.mark.parametrize("title", MACHINES)
def test_a_machine_file_that_is_none(title: str, tmp_path: Path) -> None:
    text, message = MACHINES[title]
    path = tmp_path / "machine.toml"
    path.write_text(text)
    with pytest.raises((InvalidModel, Unsupported), match=message):
        read_machine(path)


def test_a_machine_file_decides_and_the_argument_sets_its_array(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(REFERENCE.read_text().replace("accumulator_rows = 512", "accumulator_rows = 64"))
    machine = BACKEND.configure(MachineOptions("32", path)).machine
    assert (machine.array, machine.accumulator_rows) == (32, 64)


def test_a_program_larger_than_a_memory_is_refused_with_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(REFERENCE.read_text().replace("activation_bytes = 524288", "activation_bytes = 100"))
    text = "input x: i8[8, 16]\nconst w: i8[16, 4] = random(seed=1)\nlet y = x @ w\noutput y\n"
    with pytest.raises(Problems) as caught:
        built(text, machine=path)
    assert "needs 256 bytes of activation memory, 156 more than the machine's 100" in str(caught.value)
    path.write_text(REFERENCE.read_text().replace("weight_bytes = 4194304", "weight_bytes = 48"))
    with pytest.raises(Problems, match="needs 64 bytes of weight memory, 16 more than the machine's 48"):
        built(text, machine=path)


def test_a_program_larger_than_the_simulator_is_no_fault_of_ours() -> None:
    with pytest.raises(DoesNotFit, match="simulator does not take more than"):
        built("input x: i8[8000, 8000]\nlet y = relu(x)\noutput y\n")


def test_a_sum_that_could_leave_int32_is_refused() -> None:
    b = Builder()
    x = b.input(1, 1 << 18)
    graph = b.finish(b.dense(x, 1))
    node = graph.nodes[0]
    data = np.full(node.inputs[1].type.shape, 127, np.int8)
    weight = graph.constant(data, node.inputs[1].type)
    again = Graph()
    y = again.emit(node.op, again.add_input("x", x.type), weight)
    again.add_output(y)
    with pytest.raises(CompileError, match="sum inside dense may reach"):
        legal(again)


def test_the_command_line_compiles_runs_checks_and_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(EXAMPLES / "mm_bias_relu.tiny")
    schedule, trace, x = (tmp_path / name for name in ("a.json", "trace.json", "x.npy"))
    assert main(["compile", model, "--target", "tpu:16", "-o", str(schedule), "--verify-each"]) == 0
    np.save(x, np.arange(32, dtype=np.int8).reshape(4, 8))
    run = ["run", str(schedule), "-i", str(x), "--check", model, "--trace", str(trace), "-o", str(tmp_path / "out")]
    assert main(run) == 0
    assert "oracle: equal" in capsys.readouterr().out
    assert (tmp_path / "out" / "output_0.npy").is_file() and b"traceEvents" in trace.read_bytes()
    assert main(["run", str(schedule), "-i", str(tmp_path / "absent.npy")]) == 1
    schedule.write_bytes(schedule.read_bytes()[:-20])
    assert main(["run", str(schedule)]) == 1
    assert "is no JSON" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compile", "run"])
def test_what_json_prints_is_what_its_schema_says(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, schedule = str(EXAMPLES / "mm_relu.tiny"), str(tmp_path / "a.json")
    assert main(["compile", model, "--target", "tpu", "-o", schedule, "--json"]) == 0
    if command == "run":
        capsys.readouterr()
        assert main(["run", schedule, "--check", model, "--json"]) == 0
    schema = json.loads((CHECKOUT / "docs" / "schema" / f"tpu-{command}.v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(capsys.readouterr().out))


def test_a_schedule_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InvalidModel, match="cannot read"):
        BACKEND.read(path, RunOptions())
    path.write_text("{}")
    with pytest.raises(InvalidModel, match="is no TPU schedule"):
        BACKEND.read(path, RunOptions())
