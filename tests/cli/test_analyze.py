"""`analyze` and `compile` take one road: what one says of a plan is true of the other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet import driver
from trivet.core.numerics import Numerics
from trivet.fitting import analyze_model
from trivet.report import plan_report

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "models" / "digits_int8.tflite"

SETTINGS = {
    "plain": driver.Settings(),
    "constants in memory": driver.Settings(warm_weights=True),
    "packed constants": driver.Settings(compress=True),
    "input by rows": driver.Settings(input_rows=True),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_analyze_tells_what_compile_makes(settings: driver.Settings) -> None:
    analysis = analyze_model(DIGITS, settings)
    made = plan_report(driver.build(driver.load(DIGITS, settings), settings))
    assert (analysis.fast_bytes, analysis.flash_bytes) == (made.fast_bytes, made.flash_bytes)
    assert analysis.chosen == made.techniques and analysis.fits


def test_flash_is_asked_of_the_plan_that_would_be_written() -> None:
    settings = driver.Settings(warm_weights=True, flash_bytes=100)
    (reason,) = analyze_model(DIGITS, settings).reasons
    assert "more than the 100 of flash" in str(reason)


@pytest.mark.parametrize("asked", [None, Numerics.LITERT, Numerics.TFLM])
def test_a_frontend_says_which_contract_it_read_a_file_under(asked: Numerics | None) -> None:
    loaded = driver.load(DIGITS, driver.Settings(numerics=asked))
    assert loaded.numerics is (asked or Numerics.TFLM)
    assert {getattr(node.op, "numerics", asked) for node in loaded.graph.nodes} <= {loaded.numerics, None}
    assert driver.load(EXAMPLES / "tiny" / "mm_bias_relu.tiny").numerics is None
