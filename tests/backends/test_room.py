"""Work space for kernels that run faster with more: only what is free, and what the budget allows."""

from __future__ import annotations

import numpy as np
import pytest

from int8_networks import Builder
from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.frontends.options import Loaded
from trivet.ir.graph import Graph
from trivet.planning.options import Objective
from trivet.planning.plan import BufferKind


def wide_convolutions() -> Graph:
    """Two layers whose windows of 576 products leave room for two pixels on the stack."""
    b = Builder()
    return b.finish(b.conv(b.conv(b.input(1, 6, 6, 64), 64), 64))


def compiled(**settings: object) -> driver.Compiled:
    return driver.build(Loaded(wide_convolutions()), driver.Settings(target="cortex-m4", **settings))  # type: ignore[arg-type]


def scratch_bytes(made: driver.Compiled) -> int:
    return max((b.size_bytes for b in made.plan.buffers if b.kind is BufferKind.SCRATCH), default=0)


def test_speed_takes_memory_that_no_budget_forbids() -> None:
    small, fast = compiled(objective=Objective.MEMORY), compiled()
    assert scratch_bytes(fast) > scratch_bytes(small)


def test_the_smallest_plan_does_not_grow() -> None:
    portable = compiled(objective=Objective.MEMORY, portable_kernels=True)
    assert compiled(objective=Objective.MEMORY).plan.region_bytes("fast") <= portable.plan.region_bytes("fast")


def test_a_budget_is_kept_and_used() -> None:
    least = compiled(portable_kernels=True).plan.region_bytes("fast")
    tight, ample = compiled(fast_bytes=least), compiled(fast_bytes=least + 8000)
    assert tight.plan.region_bytes("fast") <= least < ample.plan.region_bytes("fast") <= least + 8000


@pytest.mark.parametrize("objective", Objective)
def test_results_do_not_depend_on_it(objective: Objective) -> None:
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 6, 64)).astype(np.int8)
    made = compiled(objective=objective)
    (expected,), _ = interp.run_model(wide_convolutions(), [x])
    (actual,) = Artifact(made.data).run([x])
    np.testing.assert_array_equal(actual, expected)
