"""Measures the kernel passes of the tiny GPU, and writes the tables of docs/gpu.md.

python scripts/gpu_effects.py
python scripts/gpu_effects.py --check   exits 1 where the page is stale
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.backends.gpu.artifact import execute
from trivet.backends.gpu.counts import Counts
from trivet.backends.gpu.machine import read_machine
from trivet.backends.gpu.memplan import initial_memory
from trivet.backends.gpu.pipeline import LEVELS, compile_graph
from trivet.frontends.tiny.convert import parse
from trivet.passes.stages import StageManager

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gpu.md"
BEGIN, END = "<!-- effects -->\n", "<!-- /effects -->\n"

PRODUCTS = {
    "4 x 8 x 16, bias, relu": (4, 8, 16, "relu(x @ w + b)"),
    "8 x 16 x 32": (8, 16, 32, "x @ w"),
    "16 x 3 x 8, bias, relu": (16, 3, 8, "relu(x @ w + b)"),
    "1 x 48 x 10, bias": (1, 48, 10, "x @ w + b"),
    "8 x 64 x 32": (8, 64, 32, "x @ w"),
}


def source(rows: int, inner: int, columns: int, expression: str) -> str:
    return (
        f"input x: i8[{rows}, {inner}]\nconst w: i8[{inner}, {columns}] = random(seed=1)\n"
        f"const b: i32[{columns}] = random(seed=2)\nlet y = {expression}\noutput y\n"
    )


def measured(text: str, level: int, without: frozenset[str] = frozenset()) -> Counts:
    """What one run executes, on inputs that are the same for ever."""
    graph, machine = parse(text), read_machine()
    settings = driver.Settings(level=1, target="gpu")
    driver.optimize(graph, settings, legalize=driver.legalization(settings))
    program = compile_graph(graph, machine, level, StageManager(graph, "", (), without))
    memory = initial_memory(program.memory)
    rng = np.random.default_rng(0)
    program.interface.write(memory, program.memory, [rng.integers(-128, 128, v.type.shape) for v in graph.inputs])
    programs = {compiled.program.name: compiled.program for compiled in program.compiled}
    return sum((counts for _, counts in execute(program.launches, programs, memory, machine)), Counts())


def by_level(names: Sequence[str] = tuple(PRODUCTS)) -> list[str]:
    lines = ["| product | | -O0 | -O1 | -O2 | -O2 / -O0 |", "|---|---|--:|--:|--:|--:|"]
    for name in names:
        counts = [measured(source(*PRODUCTS[name]), level) for level in range(3)]
        for figure in ("instructions", "loads", "cycles"):
            values = [getattr(c, figure) for c in counts]
            ratio = values[2] / values[0]
            shown = " | ".join(f"{v:,}" for v in values)
            lines.append(f"| {name if figure == 'instructions' else ''} | {figure} | {shown} | {ratio:.2f} |")
    return lines


def without_each() -> list[str]:
    names = [kernel_pass.name for kernel_pass in LEVELS[2]]
    lines = ["| -O2 without | " + " | ".join(PRODUCTS) + " |", "|---" + "|--:" * len(PRODUCTS) + "|"]
    whole = [measured(source(*shape), 2).cycles for shape in PRODUCTS.values()]
    lines.append("| nothing | " + " | ".join(f"{cycles:,}" for cycles in whole) + " |")
    for name in names:
        left = [measured(source(*shape), 2, frozenset({name})).cycles for shape in PRODUCTS.values()]
        cells = [f"{cycles:,} ({cycles / full:.2f})" for cycles, full in zip(left, whole, strict=True)]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return lines


def page() -> str:
    """The page with fresh tables."""
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    intro = "Cycles of the model; in parentheses, times what all passes together need.\n\n"
    tables = "\n".join(by_level()) + "\n\n" + intro + "\n".join(without_each()) + "\n"
    return head + BEGIN + "\n" + tables + "\n" + END + tail


def main(arguments: list[str]) -> int:
    fresh = page()
    if "--check" in arguments:
        return int(fresh != PAGE.read_text())
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
