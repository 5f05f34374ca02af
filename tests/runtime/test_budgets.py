"""A sample of `bench/budget_sweep.py`: at every budget the results are those of the plan that runs layer by layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sketches import architectures
from sketches.graphs import int8_graph
from sketches.layers import Sketch
from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.frontends.options import Loaded
from trivet.planning.options import Objective
from trivet.proof.soundness import violations

SKETCHES: dict[str, Callable[[], Sketch]] = {
    "unet": lambda: architectures.unet(16, 4),
    "dense": lambda: architectures.dense_blocks(8, 4, 2),
    "inception": lambda: architectures.inception(16),
    "audio": lambda: architectures.audio(120),
}


def built(name: str, settings: driver.Settings) -> Artifact:
    return Artifact(driver.build(Loaded(int8_graph(SKETCHES[name]())), settings).data)


@pytest.mark.parametrize("name", SKETCHES)
def test_results_are_the_same_at_every_budget(name: str) -> None:
    whole, least = (built(name, driver.Settings(objective=objective)) for objective in Objective)
    assert least.arena_bytes < whole.arena_bytes
    inputs = whole.random_inputs(5)
    expected, _ = interp.run_model(int8_graph(SKETCHES[name]()), inputs)
    middle = (least.arena_bytes * whole.arena_bytes) ** 0.5
    between = built(name, driver.Settings(fast_bytes=int(middle)))
    assert between.arena_bytes <= middle
    for plan in (whole, between, least):
        assert all(np.array_equal(e, f) for e, f in zip(expected, plan.run(inputs), strict=True))
        assert violations(plan.data) == []
        assert plan.high_water_bytes(inputs) <= plan.arena_bytes
