"""Every suite of TFLite models through every runner, against the outputs of the reference runtimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runners import RUNNERS, Runner
from suites import FLOAT_TOLERANCE, Case, difference, tflite_networks, tflite_public_bugs

from trivet.core.numerics import Numerics
from trivet.errors import CompileError

ABSENT = pytest.param(None, id="shared-absent")

TOLERANCES = {"mediapipe__selfie_segmentation": 1e-4}
"""Of the largest output. This network is sensitive: one unit in the last place of every input pixel moves single
outputs by up to 1.8e-5, so that other orders of summation, each right to the last bit or two, end 3.5e-5 apart."""


def cases(suite: Callable[[], Iterator[Case]]) -> pytest.MarkDecorator:
    """One test per case and runner; a single one, which skips, where the models are absent."""
    found = [
        pytest.param((runner, case), id=f"{runner.name}-{case.title}") for runner in RUNNERS for case in suite()
    ] or [ABSENT]
    return pytest.mark.parametrize("run", found)


@pytest.mark.shared
@cases(tflite_networks)
def test_network_equals_its_golden(run: tuple[Runner, Case], shared: Path) -> None:
    check(*run)


@pytest.mark.shared
@cases(tflite_public_bugs)
def test_public_bug_is_absent(run: tuple[Runner, Case], shared: Path) -> None:
    check(*run)


def check(runner: Runner, case: Case) -> None:
    """The runner equals the reference, or refuses with the stated reason; a refusal that is not needed fails."""
    reason = runner.refusals.get(case.path.stem)
    if reason is None:
        tolerance = TOLERANCES.get(case.path.stem, FLOAT_TOLERANCE)
        assert difference(runner.run(case.path, case.numerics, case.inputs()), case.expected(), tolerance) is None
        return
    with pytest.raises(CompileError) as refused:
        runner.run(case.path, case.numerics, case.inputs())
    assert reason in str(refused.value)


@pytest.mark.shared
def test_the_contracts_differ_on_ad01_and_each_is_met(shared: Path) -> None:
    tflm, litert = (case for case in tflite_networks() if case.path.stem == "tiny__ad01_int8")
    assert (tflm.numerics, litert.numerics) == (Numerics.TFLM, Numerics.LITERT)
    for runner in RUNNERS:
        outputs = {case.numerics: runner.run(case.path, case.numerics, case.inputs()) for case in (tflm, litert)}
        assert difference(outputs[Numerics.TFLM], tflm.expected()) is None
        assert difference(outputs[Numerics.LITERT], litert.expected()) is None
        assert difference(outputs[Numerics.TFLM], outputs[Numerics.LITERT]) == (
            "output 0: 167 of 640 elements differ, by up to 1"
        )
