"""Fits the costs of kernels to instructions that were executed under QEMU, and writes them as data.

    python scripts/fit_costs.py [--write] MACHINE MODEL ...

Every model is planned for the machine layer by layer and by rows, with the kernels for its core and with portable ones,
and run there; every layer's instructions are taken.
A kernel's coefficients have least squares over its layers, each weighed by its size, none of them negative. `--write`
puts them under src/trivet/targets/costs, and the totals of each model into tests/targets/measured, with which a test
compares what is predicted.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.device.emulated import Emulated
from trivet.device.machines import BY_NAME
from trivet.device.network import plan_network
from trivet.device.tools import toolchain
from trivet.errors import CompileError
from trivet.estimate import calls, terms
from trivet.planning.options import Objective
from trivet.targets import read_target
from trivet.targets.costs import TERMS

CHECKOUT = Path(__file__).resolve().parents[1]
COSTS = CHECKOUT / "src/trivet/targets/costs"
MEASURED = CHECKOUT / "tests/targets/measured"
WEIGHT = 0.75
"""Errors count in relation to this power of a layer's instructions: 1 would be relative errors, 0 absolute ones."""

LEAST_LAYERS = 2
"""A kernel that was seen less often has no fit."""


@dataclass
class Measured:
    """Instructions of the layers of all runs on one machine, by kernel, and of whole runs."""

    compiler: str = ""
    layers: dict[str, list[tuple[list[int], int]]] = field(default_factory=lambda: defaultdict(list))
    beside: list[tuple[int, int, int]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)


def measure(machine_name: str, models: list[Path]) -> Measured:
    machine, found = BY_NAME[machine_name], Measured()
    tools = toolchain(machine)
    found.compiler = tools.version
    for model in models:
        for objective, portable in product((Objective.SPEED, Objective.MEMORY), (False, True)):
            settings = driver.Settings(target=machine_name, objective=objective, portable_kernels=portable)
            try:
                loaded = driver.load(model, settings)
                selection = driver.legal_graph(loaded.graph, settings)
                plan = driver.fitting_plan(loaded.graph, selection, replace(settings, fast_bytes=None))
                compiled = driver.write(loaded, plan, selection, settings)
                emulated = Emulated(plan_network(compiled.data), machine, tools)
                emulated.run(Artifact(compiled.data).random_inputs(0))
            except CompileError as error:
                print(f"{model.stem}: {str(error).splitlines()[0]}", file=sys.stderr)
                break
            costs = emulated.costs
            if len(costs.layers) != len(list(plan.steps())):
                continue
            for step, cost in zip(plan.steps(), costs.layers, strict=True):
                values = terms(step.node, step.firings)
                row = [values[term] for term in TERMS]
                found.layers[cost.layer.kernel].append((row, cost.instructions))
            beside = costs.instructions - sum(c.instructions for c in costs.layers)
            further = sum(calls(step.node, step.firings) - 1 for step in plan.steps())
            found.beside.append((len(costs.layers), further, beside))
            kernels = "portable" if portable else "target"
            found.totals[f"{model.name} {objective.value} {kernels}"] = costs.instructions
            print(f"{machine_name} {model.stem} {objective.value} {kernels}: {costs.instructions:,}", flush=True)
    return found


def fit(layers: list[tuple[list[int], int]]) -> dict[str, float]:
    """Coefficients by term; a term whose coefficient would be negative is left out."""
    rows = np.array([row for row, _ in layers], np.float64)
    counts = np.array([max(count, 1) for _, count in layers], np.float64)
    used = [i for i in range(len(TERMS)) if rows[:, i].any()]
    while used:
        scaled = rows[:, used] / (counts**WEIGHT)[:, None]
        norms = np.linalg.norm(scaled, axis=0)
        solution = np.linalg.lstsq(scaled / norms, counts ** (1 - WEIGHT), rcond=1e-9)[0] / norms
        if (solution >= 0).all():
            return {TERMS[i]: float(f"{value:.6g}") for i, value in zip(used, solution, strict=True)}
        used.pop(int(np.argmin(solution * norms)))
    return {"outputs": float(f"{counts.sum() / max(1.0, rows[:, 2].sum()):.6g}")}


def beside(runs: list[tuple[int, int, int]]) -> dict[str, float]:
    """What a run takes beside its kernels: for each layer, and for each further call."""
    counts = np.sqrt([count for _, _, count in runs])
    columns = np.array([run[:2] for run in runs], np.float64) / counts[:, None]
    layer, call = np.linalg.lstsq(columns, counts, rcond=None)[0]
    return {"layers": round(layer, 2), "calls": round(call, 2)}


def write(machine_name: str, found: Measured) -> None:
    cpu = read_target(machine_name).cpu
    everything = [layer for layers in found.layers.values() for layer in layers]
    lines = [
        f'source = "scripts/fit_costs.py: {len(everything)} layers on QEMU\'s {machine_name}, {found.compiler}"',
        f"run = {inline(beside(found.beside))}",
        f"default = {inline(fit(everything))}",
        "",
        "[kernels]",
        *(
            f"{kernel} = {inline(fit(layers))}"
            for kernel, layers in sorted(found.layers.items())
            if len(layers) >= LEAST_LAYERS
        ),
    ]
    COSTS.mkdir(exist_ok=True)
    (COSTS / f"{cpu}.toml").write_text("\n".join(lines) + "\n")
    MEASURED.mkdir(exist_ok=True)
    (MEASURED / f"{cpu}.json").write_text(json.dumps(found.totals, indent=1) + "\n")


def inline(coefficients: dict[str, float]) -> str:
    return "{ " + ", ".join(f"{term} = {value}" for term, value in coefficients.items()) + " }"


def main() -> None:
    machine_name, *models = [argument for argument in sys.argv[1:] if argument != "--write"]
    found = measure(machine_name, [Path(model) for model in models])
    for kernel, layers in sorted(found.layers.items()):
        print(f"{kernel:24} {len(layers):4} layers  {inline(fit(layers))}")
    if "--write" in sys.argv:
        write(machine_name, found)


if __name__ == "__main__":
    main()
