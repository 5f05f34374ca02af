"""A sample of `bench/sweep_quantized.py`: random quantized operators, compiled, equal both runtimes bit for bit."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from runners import host_model

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from sweep_quantized import OPERATORS, RUNTIMES, outcome

from trivet import driver
from trivet.core.numerics import Numerics

CASES = 8
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "models" / "digits_int8.tflite"


@pytest.mark.parametrize("numerics", RUNTIMES, ids=lambda numerics: numerics.value)
@pytest.mark.parametrize("kind", OPERATORS)
def test_random_operators_equal_the_runtime(kind: str, numerics: Numerics, tmp_path: Path) -> None:
    package = "tflite_micro" if numerics is Numerics.TFLM else "ai_edge_litert"
    pytest.importorskip(
        package, reason=f"pip install {'tflite-micro' if package == 'tflite_micro' else 'ai-edge-litert'}"
    )
    host_model(driver.build(driver.load(DIGITS), driver.Settings()).data)
    found: Counter[str] = Counter()
    for case in range(CASES):
        rng = np.random.default_rng([7, case])
        verdict, _, _ = outcome(OPERATORS[kind](rng), numerics, rng, tmp_path / "model.tflite")
        found[verdict] += 1
    assert not found["differs"]
    assert found["equal"] >= CASES // 2, found
