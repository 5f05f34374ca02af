"""Boards and cores: every figure has a source, and files that make no sense are refused with all their problems."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from trivet.cli.main import main
from trivet.driver import Settings, build, load
from trivet.errors import CompileError
from trivet.targets import find_target, read_target, target_names

CHECKOUT = Path(__file__).resolve().parents[2]
DIGITS = str(CHECKOUT / "examples" / "models" / "digits_int8.tflite")
BOARDS = [name for name in target_names() if read_target(name).memories]

GOOD = """cpu = "cortex-m4"
features = ["dsp"]
[[memory]]
name = "sram"
kind = "fast"
bytes = 8192
"""


def test_there_are_many_boards() -> None:
    assert len(BOARDS) >= 25


@pytest.mark.parametrize("name", target_names())
def test_every_figure_has_a_source(name: str) -> None:
    target = read_target(name)
    assert target.summary
    assert [m.name for m in target.memories if len(m.source) < 10] == []
    assert (target.clock_hz is None) == (target.clock_source == "")


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_fast_memory_and_flash(name: str) -> None:
    target = read_target(name)
    assert target.budget("fast") and target.budget("flash")


@pytest.mark.parametrize("name", BOARDS)
def test_memories_do_not_overlap(name: str) -> None:
    placed = sorted((m.address, m.size_bytes) for m in read_target(name).memories if m.address is not None)
    assert all(start + size <= next_start for (start, size), (next_start, _) in pairwise(placed))


def test_figures_that_everyone_knows() -> None:
    assert read_target("nrf52840-dk").budget("fast") == 256 * 1024
    assert read_target("rpi-pico").budget("fast") == 264 * 1024
    assert read_target("nucleo-h743zi").budget("flash") == 2 * 1024 * 1024
    assert read_target("nucleo-l4r5zi").clock_hz == 120_000_000


CASES = [
    ("cpu =", "is no TOML"),
    ("", "cpu is missing"),
    ('cpu = "cortex-m44"', "cpu 'cortex-m44' is not known, did you mean 'cortex-m4'?"),
    (GOOD + "adress = 4", "memory 1: unknown key 'adress', did you mean 'address'?"),
    (GOOD.replace("8192", "0"), "memory 1: bytes is 0, it must be positive"),
    (GOOD.replace("8192", '"8K"'), "memory 1: bytes is '8K', it must be an integer"),
    (GOOD.replace("8192", "true"), "memory 1: bytes is True, it must be an integer"),
    (GOOD.replace("fast", "quick"), "memory 1: kind 'quick' is not known; known: fast, slow, flash"),
    (GOOD.replace("name", "nam"), "memory 1: name is missing"),
    (GOOD + GOOD[GOOD.index("[[") :], "memory 2: there is a memory 'sram' already"),
    (GOOD.replace('["dsp"]', '["simd"]'), "features 'simd' is not known; known: dsp, fpu, mve"),
    ('cpu = "cortex-m4"\nclock_hz = -1', "clock_hz is -1, it must be positive"),
    ('cpu = "cortex-m4"\nmemory = [1]', "memory 1: is no table, write [[memory]]"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_file_that_makes_no_sense_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(CompileError) as caught:
        find_target(str(file))
    assert expected in str(caught.value)


def test_all_problems_come_together(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace("8192", "-1").replace("fast", "fats").replace("cortex-m4", "m4"))
    with pytest.raises(CompileError, match="3 problems"):
        find_target(str(file))


@pytest.mark.parametrize("command", ["compile", "analyze", "verify", "bench"])
def test_a_file_of_ones_own_gives_the_budgets(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(GOOD.replace("8192", "1000"))
    output = ["-o", "x.tgrs"] if command == "compile" else []
    code = main([command, DIGITS, *output, "--target", "./mine.toml"])
    out, err = capsys.readouterr()
    assert "more than the budget of 1,000" in out + err
    assert code == (0 if command == "analyze" else 1)


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--target", "none.toml"]) == 1
    assert "none.toml: cannot read it" in capsys.readouterr().err


def test_the_file_of_a_target_is_no_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tpu.toml").write_text(GOOD)
    settings = Settings(target="tpu.toml")
    assert settings.accelerator is None
    assert build(load(DIGITS, settings), settings).data


def test_show_tells_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "show", "frdm-k64f"]) == 0
    out = capsys.readouterr().out
    assert "120 MHz" in out and "262,144 bytes" in out and out.count("source: https://docs.zephyrproject.org") == 3
