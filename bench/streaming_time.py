"""Time of streamed plans beside the plan that runs layer by layer, in one process, turn by turn.

    python bench/streaming_time.py MODEL...

For budgets from the smallest that works, with a little more (5 and 10 per cent), to that of whole layers:
microseconds of the least of many runs, inputs and outputs included, and the ratio to the layer-wise plan. Outputs must
be equal in every element.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.planning.options import Objective

ROUNDS = 60
FACTORS = (1.0, 1.05, 1.1)
"""Of the smallest budget."""

SHARES = (0.1, 0.25, 0.5)
"""Of the way from the smallest budget to that of whole layers."""


def artifact(model: Path, objective: Objective, fast_bytes: int | None) -> Artifact:
    settings = driver.Settings(objective=objective, fast_bytes=fast_bytes)
    return Artifact(driver.build(driver.load(model, settings), settings).data)


def least_times(artifacts: list[Artifact]) -> list[float]:
    """Microseconds of each artifact's quickest run, all run in turn."""
    inputs = artifacts[0].random_inputs(0)
    wanted = artifacts[0].run(inputs)
    best = [float("inf")] * len(artifacts)
    for _ in range(ROUNDS):
        for index, one in enumerate(artifacts):
            start = time.perf_counter()
            outputs = one.run(inputs)
            best[index] = min(best[index], time.perf_counter() - start)
            assert all(np.array_equal(a, b) for a, b in zip(outputs, wanted, strict=True))
    return [seconds * 1e6 for seconds in best]


def main() -> None:
    print(f"{'network':32} {'budget':>8} {'us':>9}  ratio")
    for name in sys.argv[1:]:
        model = Path(name)
        whole, small = (artifact(model, objective, None) for objective in (Objective.SPEED, Objective.MEMORY))
        top, bottom = whole.arena_bytes, small.arena_bytes
        budgets = [round(factor * bottom) for factor in FACTORS]
        budgets += [bottom + round(share * (top - bottom)) for share in SHARES]
        artifacts = [whole, small, *(artifact(model, Objective.SPEED, budget) for budget in budgets)]
        times = least_times(artifacts)
        labels = ["layers", "smallest", *(f"{budget:,}" for budget in budgets)]
        for label, microseconds in zip(labels, times, strict=True):
            print(f"{model.stem[:32]:32} {label:>8} {microseconds:9.1f}  {microseconds / times[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
