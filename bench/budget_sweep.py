"""Every network at several budgets between its smallest memory and layer by layer: results must not change.

    python bench/budget_sweep.py [--steps 4] [--seed 0] MODEL...

A plan that runs layer by layer is compared in every element with what each tighter plan computes, the file is proved
(`trivet verify PLAN`), and the measured high-water mark must be the planned bytes. Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.errors import CompileError
from trivet.ir.op import Array
from trivet.planning.options import Objective
from trivet.proof.soundness import violations


def built(model: Path, settings: driver.Settings) -> Artifact:
    return Artifact(driver.build(driver.load(model, settings), settings).data)


def budgets(smallest: int, largest: int, steps: int) -> list[int]:
    """Evenly spread in the logarithm, both ends included."""
    ratio = largest / max(1, smallest)
    return sorted({round(smallest * ratio ** (i / max(1, steps - 1))) for i in range(steps)})


def differing(expected: list[Array], found: list[Array]) -> int:
    """Elements that are not the same, bit by bit."""
    pairs = zip(expected, found, strict=True)
    return sum(int(np.count_nonzero(_bits(e) != _bits(f))) for e, f in pairs)


def _bits(array: Array) -> Array:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def faults(plan: Artifact, inputs: list[Array], expected: list[Array]) -> list[str]:
    """What is wrong with one plan, in one line each."""
    found = []
    plan.reset()
    wrong = differing(expected, plan.run(inputs))
    if wrong:
        found.append(f"{wrong} bytes of the results differ")
    found += violations(plan.data)[:1]
    plan.reset()
    if plan.high_water_bytes(inputs) > plan.arena_bytes:
        found.append("uses more memory than it claims")
    return found


def sweep(model: Path, steps: int, seed: int) -> tuple[int, list[str]]:
    """Plans that were tried, and what is wrong with them.

    Raises: CompileError, where the model is refused.
    """
    whole = built(model, driver.Settings())
    least = built(model, driver.Settings(objective=Objective.MEMORY))
    inputs = whole.random_inputs(seed)
    whole.reset()
    expected = whole.run(inputs)
    problems = [f"{whole.arena_bytes:,} bytes: {text}" for text in faults(whole, inputs, expected)]
    plans = {least.arena_bytes: least}
    for budget in budgets(least.arena_bytes, whole.arena_bytes, steps):
        if budget not in plans:
            plans[budget] = built(model, driver.Settings(fast_bytes=budget))
    for budget, plan in plans.items():
        if plan.arena_bytes > budget:
            problems.append(f"{budget:,} bytes: the plan takes {plan.arena_bytes:,}")
        problems += [f"{budget:,} bytes: {text}" for text in faults(plan, inputs, expected)]
    return len(plans) + 1, problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--steps", type=int, default=4, help="budgets for each network")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    total, failed, refused = 0, 0, 0
    for model in arguments.models:
        start = time.perf_counter()
        try:
            count, problems = sweep(model, arguments.steps, arguments.seed)
        except CompileError as error:
            refused += 1
            print(f"{model.stem:50} refused: {str(error).splitlines()[0][:60]}", flush=True)
            continue
        total, failed = total + count, failed + len(problems)
        seconds = time.perf_counter() - start
        print(f"{model.stem:50} {count} plans, {seconds:6.1f} s  {'; '.join(problems) or 'ok'}", flush=True)
    print(f"{total} plans, {failed} faults, {refused} networks refused")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
