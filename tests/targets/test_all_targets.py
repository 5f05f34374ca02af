"""`analyze --all-targets`, and runs of plans for boards that they do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trivet import driver
from trivet.cli.main import main
from trivet.survey import survey

CHECKOUT = Path(__file__).resolve().parents[2]
DIGITS = str(CHECKOUT / "examples" / "models" / "digits_int8.tflite")


def test_budgets_of_a_board_are_its_own_memories() -> None:
    fits = {fit.target.name: fit for fit in survey(DIGITS, driver.Settings()).fits}
    assert fits["nrf52-dk"].budgets == {"fast": 65536, "slow": None, "flash": 524288}
    assert all(fit.fits and fit.plan.techniques == ("layer by layer",) for fit in fits.values())
    assert {fit.smallest_bytes for fit in fits.values()} == {2204}


def test_a_tight_budget_is_met_by_rows_or_by_slow_memory() -> None:
    fits = {fit.target.name: fit for fit in survey(DIGITS, driver.Settings(fast_bytes=2300)).fits}
    assert fits["nrf52-dk"].plan.techniques[0] == "row streaming"
    fits = {fit.target.name: fit for fit in survey(DIGITS, driver.Settings(fast_bytes=1500)).fits}
    assert not fits["nrf52-dk"].fits and "1,500" in str(fits["nrf52-dk"].reasons[0])
    assert fits["mimxrt1060-evk"].fits and fits["mimxrt1060-evk"].plan.slow_bytes > 0


def test_what_analyze_says_of_one_board_is_what_it_says_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--all-targets", "--json", "-m", "3K"]) == 0
    (all_of_them,) = [t for t in json.loads(capsys.readouterr().out)["targets"] if t["target"] == "stm32vldiscovery"]
    assert main(["analyze", DIGITS, "--target", "stm32vldiscovery", "--json", "-m", "3K"]) == 0
    alone = json.loads(capsys.readouterr().out)
    for key in ("fits", "fast_bytes", "flash_bytes", "techniques"):
        assert all_of_them[key] == alone[key]


def test_the_table_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--all-targets", "-m", "1000", "-f", "4000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("frdm-k64f"))
    assert "  no  " in row and "fast memory lacks 1,204 bytes, flash memory lacks" in row
    assert lines[-1].startswith("fits 0 of")


def test_all_targets_and_one_are_not_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", DIGITS, "--all-targets", "--target", "frdm-k64f"]) == 2
    assert "give either" in capsys.readouterr().err


def test_a_plan_runs_for_a_board_that_it_fits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan, board = str(tmp_path / "d.tgrs"), tmp_path / "small.toml"
    assert main(["compile", DIGITS, "-o", plan, "-q"]) == 0
    assert main(["run", plan, "--target", "stm32vldiscovery"]) == 0
    board.write_text('cpu = "cortex-m3"\n[[memory]]\nname = "sram"\nkind = "fast"\nbytes = 6000\n')
    assert main(["run", plan, "--target", str(board)]) == 1
    assert "6,144 bytes of fast memory, 144 more than small has" in capsys.readouterr().err
