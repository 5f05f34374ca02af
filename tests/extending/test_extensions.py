"""Packages that extend Trivet through entry points, each in a process of its own, as they stay once they are loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tflite_builder import ModelBuilder
from trivet.errors import ExtensionFault
from trivet.extending import Extension, _registers, load_extensions
from trivet.ops.activation import Relu
from trivet.passes.cse import Cse
from trivet.targets import target_names

HERE = Path(__file__).parent
INSTALLED, BROKEN = HERE / "installed", HERE / "broken"


def trivet(packages: Path, *arguments: object, module: str = "trivet.cli.main") -> subprocess.CompletedProcess[str]:
    """The command line where a folder of packages is on the search path."""
    path = os.pathsep.join([str(packages), *sys.path])
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def flips(count: int) -> bytes:
    """A model of custom operators, one after the other, on int8[1, 4]."""
    builder = ModelBuilder()
    values = [builder.tensor(f"v{i}", (1, 4), np.int8, scale=0.5) for i in range(count + 1)]
    for before, after in pairwise(values):
        builder.operator("CUSTOM", [before], [after], custom_code="Flip")
    return builder.finish([values[0]], [values[-1]])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three flips in a file that the example package unscrambles."""
    file = tmp_path / "flips.tflite"
    file.write_bytes(b"SCRAMBLED" + bytes(byte ^ 0x5A for byte in flips(3)))
    return file


def test_without_the_package_the_model_is_refused(model: Path) -> None:
    found = trivet(HERE, "analyze", model)
    assert found.returncode == 1 and "is not a TFLite model" in found.stderr
    model.write_bytes(flips(3))
    assert "Flip" in trivet(HERE, "analyze", model).stderr


def test_a_rewrite_an_operator_a_pass_and_a_kernel_make_a_plan(model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "flips.tgrs"
    found = trivet(INSTALLED, "compile", model, "-o", plan, "--stats", "--verify-each", "--target", "example-board")
    assert found.returncode == 0, found.stderr
    assert "flip-twice" in found.stderr
    assert "1 layer" in found.stdout, "two of three flips cancel"
    np.save(tmp_path / "x.npy", np.array([[-128, -1, 0, 127]], np.int8))
    found = trivet(INSTALLED, "run", plan, "-i", tmp_path / "x.npy", "-o", tmp_path, "--check", model)
    assert found.returncode == 0 and "oracle" in found.stdout
    assert np.load(tmp_path / "output_0.npy").tolist() == [[127, 0, -1, -128]]


def test_the_pass_can_be_left_out_as_any_other(model: Path, tmp_path: Path) -> None:
    found = trivet(INSTALLED, "compile", model, "-o", tmp_path / "f.tgrs", "--disable", "flip-twice")
    assert "3 layers" in found.stdout


def test_a_module_records_which_extensions_made_it(model: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    assert trivet(INSTALLED, "compile", model, "-o", module, "-q").returncode == 0
    record = json.loads((module / "build-record.json").read_text())
    assert record["configuration"]["extensions"] == ["example-extension 1.2"]
    found = trivet(INSTALLED, "run", module, "--check", model)
    assert found.returncode == 0, found.stderr


def test_targets_and_operators_are_listed() -> None:
    assert "2,000 bytes" in trivet(INSTALLED, "targets", "show", "example-board").stdout
    shown = trivet(INSTALLED, "ops", "show", "flip").stdout
    assert "CUSTOM:Flip" in shown and "flip_table" in shown


def test_a_package_that_replaces_something_is_refused(model: Path) -> None:
    found = trivet(BROKEN, "analyze", model)
    assert found.returncode == 1
    assert "extension 'broken' (broken_extension:extend) cannot be loaded" in found.stderr
    assert "operator 'relu' is there already" in found.stderr


def test_nothing_is_asked_for_where_nothing_is_registered() -> None:
    assert _registers(str(INSTALLED)) and not _registers(str(HERE)) and not _registers(str(HERE / "nowhere"))
    assert load_extensions() == ()


def test_names_that_exist_are_refused() -> None:
    extension = Extension()
    with pytest.raises(ExtensionFault, match="'relu'"):
        extension.operator(Relu)
    with pytest.raises(ExtensionFault, match="pass 'cse'"):
        extension.graph_pass(Cse(), after="dce")
    with pytest.raises(ExtensionFault, match="target 'host'"):
        extension.target(Path("host.toml"))


def test_nothing_is_added_after_loading() -> None:
    extension = Extension()
    extension.close()
    with pytest.raises(ExtensionFault, match="not later"):
        extension.target(Path("late.toml"))
    assert "late" not in target_names()
