"""Where the target has kernels for single layers, blocks of them are the last resort."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet import api
from trivet.driver import Settings

BUDGET = 6 * 1024
"""Enough for streams of single layers, and for quicker ones with blocks where all kernels are portable."""


@pytest.mark.shared
@pytest.mark.parametrize(("target", "has_blocks"), [(None, True), ("cortex-m4", False), ("cortex-m55", False)])
def test_blocks_give_way_to_the_kernels_of_a_core(target: str | None, has_blocks: bool, shared: Path) -> None:
    model = shared / "models/networks/tflite/tiny__kws_ref_model.tflite"
    artifact = api.compile(model, Settings(fast_bytes=BUDGET, target=target))
    kernels = {step.kernel for step in artifact.plan.steps}
    assert ("block_s8" in kernels) is has_blocks
