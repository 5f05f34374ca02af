"""Every plan gives what the layer-wise plan gives, in every element: networks times budgets times techniques.

    python bench/budget_sweep.py MODEL...

For each network: the layer-wise plan, then plans for budgets from the smallest that works up, with inputs and outputs
by rows where they have several, and with repeated work allowed. Each is run on the native kernels; the high-water
mark must not exceed the planned bytes. Networks that cannot be compiled are named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.errors import CompileError
from trivet.planning.options import Objective

SHARES = (0.0, 0.02, 0.1, 0.3, 0.6)
"""Of the way from the smallest budget to that of whole layers."""


def ways() -> Iterator[driver.Settings]:
    """What may be asked beside a budget."""
    for rows in (False, True):
        for overhead in (1.0, 1.25):
            yield driver.Settings(input_rows=rows, max_overhead=overhead, objective=Objective.MEMORY)
    yield driver.Settings(output_rows=True, objective=Objective.MEMORY)


def artifact(model: Path, settings: driver.Settings) -> Artifact:
    return Artifact(driver.build(driver.load(model, settings), settings).data)


def check(one: Artifact, inputs: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert one.high_water_bytes(inputs) <= one.arena_bytes
    one.reset()
    for got, right in zip(one.run(inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, right)


def sweep(model: Path) -> int:
    """How many plans were run and found right."""
    layers = artifact(model, driver.Settings())
    inputs = layers.random_inputs(0)
    layers.reset()
    wanted, count = layers.run(inputs), 0
    for settings in ways():
        try:
            small = artifact(model, settings)
        except CompileError:
            continue  # nothing has rows at the border
        check(small, inputs, wanted)
        count += 1
        if settings.max_overhead > 1 or settings.output_rows:
            continue
        for share in SHARES:
            budget = small.arena_bytes + round(share * max(0, layers.arena_bytes - small.arena_bytes))
            made = driver.Settings(input_rows=settings.input_rows, fast_bytes=budget)
            check(artifact(model, made), inputs, wanted)
            count += 1
    return count


def main() -> None:
    failed = []
    for name in sys.argv[1:]:
        start = time.perf_counter()
        try:
            text = f"{sweep(Path(name))} plans equal"
        except CompileError as error:
            text = f"not compiled: {str(error).splitlines()[0][:80]}"
        except AssertionError as error:
            failed.append(name)
            text = f"WRONG: {str(error).strip().splitlines()[0][:80]}"
        print(f"{Path(name).stem[:48]:48} {text}, {time.perf_counter() - start:.1f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
