"""`trivet run --on` and `trivet bench --on`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from devices import CHECKOUT, DIGITS, M4, M55, toolchain
from jsonschema import Draft202012Validator

from trivet.cli.main import main
from trivet.device import tools
from trivet.device.machines import BY_NAME, MACHINES

FLAGS = ["--cflags=-O1"]
"""A module with all kernels in it takes long to compile."""


def check_schema(name: str, text: str) -> dict[str, object]:
    schema = json.loads((CHECKOUT / "docs" / "schema" / f"{name}.v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    value: dict[str, object] = json.loads(text)
    Draft202012Validator(schema).validate(value)
    return value


def test_a_plan_runs_checked_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toolchain(BY_NAME[M4])
    plan, image = tmp_path / "digits.tgrs", tmp_path / "x.npy"
    np.save(image, np.full((1, 32, 32, 1), 5, np.int8))
    assert main(["compile", str(DIGITS), "-o", str(plan), "-q"]) == 0
    capsys.readouterr()
    arguments = ["-i", str(image), "-o", str(tmp_path / "out"), "--check", str(DIGITS), "--json"]
    assert main(["run", str(plan), "--on", M4, *arguments]) == 0
    value = check_schema("run-device", capsys.readouterr().out)
    assert value["check"][0]["differing"] == [0]
    assert main(["run", str(plan), "-i", str(image), "-o", str(tmp_path / "host"), "-q"]) == 0
    here, there = (np.load(tmp_path / folder / "output_0.npy") for folder in ("host", "out"))
    assert np.array_equal(here, there)


@pytest.mark.parametrize("options", [[], ["--schedule", "table"], ["--memory", "caller"], ["--style", "plan"]])
def test_modules_run(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toolchain(BY_NAME[M55])
    folder = tmp_path / "digits"
    assert main(["compile", str(DIGITS), "-o", str(folder), *options, "-q"]) == 0
    capsys.readouterr()
    assert main(["run", str(folder), "--on", M55, *FLAGS, "--check", str(DIGITS), "--json"]) == 0
    value = check_schema("run-device", capsys.readouterr().out)
    assert value["high_water_bytes"] == 6144
    assert options == ["--style", "plan"] or value["init_instructions"] < 1000
    assert len(value["layers"]) == (10 if "table" in options else 0)


def test_bench_makes_a_plan_for_each_machine(capsys: pytest.CaptureFixture[str]) -> None:
    toolchain(BY_NAME[M4])
    assert main(["bench", str(DIGITS), "--on", f"{M4},{M55}", "--json"]) == 0
    value = check_schema("bench-device", capsys.readouterr().out)
    assert [found["machine"] for found in value["machines"]] == [M4, M55]


@pytest.mark.parametrize("machine", [machine.name for machine in MACHINES])
def test_a_missing_tool_is_said_with_the_command_that_installs_it(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "digits.tgrs"
    assert main(["compile", str(DIGITS), "-o", str(plan), "-q"]) == 0
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    capsys.readouterr()
    assert main(["run", str(plan), "--on", machine, "--cc", "gcc"]) == 2
    error = capsys.readouterr().err
    assert f"{BY_NAME[machine].emulator} is not installed" in error
    assert error.count("apt-get install -y --no-install-recommends") == 3


def test_what_does_not_fit_is_said_in_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toolchain(BY_NAME["stm32vldiscovery"])
    model = tmp_path / "wide.tiny"
    model.write_text("input x: i8[64, 64]\nlet y = relu(x + x)\noutput y\n")
    plan = tmp_path / "wide.tgrs"
    assert main(["compile", str(model), "-o", str(plan), "-q"]) == 0
    capsys.readouterr()
    assert main(["run", str(plan), "--on", "stm32vldiscovery"]) == 1
    error = capsys.readouterr().err
    assert "bytes of RAM" in error and "more than the 8,192 that there are" in error


def test_an_unknown_machine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x.tgrs", "--on", "mps3-an548"]) == 2
    assert "did you mean 'mps3-an547'?" in capsys.readouterr().err
