"""What `--json` prints is what the published schemas say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from trivet.cli.main import main

CHECKOUT = Path(__file__).resolve().parents[2]
SCHEMAS = CHECKOUT / "docs" / "schema"
DIGITS = str(CHECKOUT / "examples" / "models" / "digits_int8.tflite")

COMMANDS = {
    "compile": ["compile", DIGITS, "-o", "PLAN"],
    "analyze": ["analyze", DIGITS, "-m", "100"],
    "analyze-targets": ["analyze", DIGITS, "--all-targets"],
    "run": ["run", "PLAN", "--check", DIGITS, "--profile"],
    "bench": ["bench", DIGITS, "--repeat", "2"],
    "verify": ["verify", DIGITS, "--runs", "1"],
    "inspect-model": ["inspect", DIGITS],
    "inspect-plan": ["inspect", "PLAN"],
    "ops": ["ops"],
    "targets": ["targets"],
}

FILES = {"bench-device", "run-device", "gpu-launch", "tpu-schedule", "tpu-compile", "tpu-run"}
"""Schemas that are tested with their backends and machines."""


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_valid(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = str(tmp_path / "digits.tgrs")
    assert main(["compile", DIGITS, "-o", plan, "-m", "3K", "-q"]) == 0
    capsys.readouterr()
    assert main([plan if a == "PLAN" else a for a in COMMANDS[name]] + ["--json"]) == 0
    schema = json.loads((SCHEMAS / f"{name}.v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(capsys.readouterr().out))


def test_every_schema_is_tested() -> None:
    assert {path.name.removesuffix(".v1.json") for path in SCHEMAS.glob("*.json")} == set(COMMANDS) | FILES
