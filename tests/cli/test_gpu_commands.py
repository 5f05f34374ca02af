"""The tiny GPU from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trivet.cli.main import main

PROGRAM = str(Path(__file__).resolve().parents[2] / "examples" / "tiny" / "mm_bias_relu.tiny")


def compiled(directory: Path, *options: str) -> str:
    path = str(directory / "x.tgpu")
    assert main(["compile", PROGRAM, "--target", "gpu", "-o", path, "-q", *options]) == 0
    return path


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_a_program_runs_and_is_checked(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", compiled(tmp_path, level), "--check", PROGRAM, "--check-races"]) == 0
    assert "oracle: equal in all 64 elements" in capsys.readouterr().out


def test_several_kernels_have_a_file_each_and_run_by_either_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(Path(PROGRAM).with_name("skip_connection.tiny"))
    path = tmp_path / "x.tgpu"
    assert main(["compile", program, "--target", "gpu", "-o", str(path), "-q"]) == 0
    names = sorted(p.name for p in tmp_path.iterdir())
    count = len(names) - 1
    assert count > 1 and names == sorted([*(f"x.{number}.tgpu" for number in range(count)), "x.tgpu.json"])
    for name in ("x.tgpu", "x.tgpu.json"):
        assert main(["run", str(tmp_path / name), "--check", program]) == 0
    (tmp_path / "x.1.tgpu").unlink()
    assert main(["run", str(path)]) == 1
    assert "x.1.tgpu: cannot read" in capsys.readouterr().err


def test_every_stage_is_shown_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["opt", PROGRAM, "--target", "gpu", "-O2", "--print-after-all", "--verify-each", "--time-passes"]
    assert main(arguments) == 0
    shown = capsys.readouterr().err
    for stage in ("lower-to-kernel", "licm", "shared-tile", "unroll", "fold", "kernel-dce", "regalloc-emit"):
        assert f"after {stage}" in shown and f"stage {stage}" in shown


def test_a_pass_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["opt", PROGRAM, "--target", "gpu", "-O2", "--disable", "unroll", "--print-after-all"]
    assert main(arguments) == 0
    assert "after unroll" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--target", "gpu", "--isa", "vector"], "no instruction set 'vector'"),
        (["--target", "gpu:4"], "takes no argument"),
        (["--target", "gpu", "--machine", "absent.toml"], "cannot read"),
    ],
)
def test_what_is_no_machine_is_refused(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", PROGRAM, *options, "-o", str(tmp_path / "x.tgpu")]) != 0
    assert reason in capsys.readouterr().err


def test_a_smaller_machine_refuses_what_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from_package = Path(__file__).resolve().parents[2] / "src/trivet/backends/gpu/data/tiny.toml"
    small = tmp_path / "small.toml"
    small.write_text(from_package.read_text().replace("mem_words = 1048576", "mem_words = 100"))
    arguments = ["compile", PROGRAM, "--target", "gpu", "--machine", str(small), "-o", str(tmp_path / "x.tgpu")]
    assert main(arguments) == 1
    assert "the gpu's memory 100" in capsys.readouterr().err


def test_a_trace_shows_launches_and_cores(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert main(["run", compiled(tmp_path), "--trace", str(trace), "-q"]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"launches", "core 0", "core 1"} == {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert all(e["dur"] > 0 for e in events if e["ph"] == "X")
