"""Measures the tile passes of the TPU, and writes the tables of docs/tpu.md.

python scripts/tpu_effects.py           needs the directory of real networks: $TRIVET_SHARED, or beside the checkout
python scripts/tpu_effects.py --check   exits 1 where the page is stale
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

from trivet import driver
from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.lower import lower
from trivet.backends.tpu.machine import reference
from trivet.backends.tpu.target import TILE_PASSES
from trivet.backends.tpu.timing import LayerTime, Timing, simulate

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = CHECKOUT / "docs" / "tpu.md"
BEGIN, END = "<!-- effects -->\n", "<!-- /effects -->\n"
ARRAY = 16

NETWORKS = {
    "ad01": "tiny__ad01_int8",
    "kws": "tiny__kws_ref_model",
    "resnet8": "tiny__pretrainedResnet_quant",
    "vww": "tiny__vww_96_int8",
}

MEASURED = ("skip-zero-passes", "reuse-weights", "prefetch-weights")
"""Passes that change cycles."""


def program_at(path: Path, level: int, without: str = "") -> Program:
    """A network as a program, with or without one of the tile passes."""
    settings = driver.Settings(level=level, target=f"tpu:{ARRAY}")
    graph = driver.load(path).graph
    driver.optimize(graph, settings, legalize=driver.legalization(settings))
    program = lower(graph, reference(ARRAY))
    for pass_ in TILE_PASSES if level else ():
        if pass_.name != without:
            program = pass_.run(program, Counter()) or program
    return program


def weight_bytes(timing: Timing) -> int:
    return sum(layer.weight_bytes for layer in timing.layers)


def effects(paths: dict[str, Path]) -> list[str]:
    heads = ["network", "-O0", "-O1", *(f"without `{name}`" for name in MEASURED)]
    heads += ["weights loaded, -O0", "-O1", "activation memory, -O0", "-O1"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for name, path in paths.items():
        programs = [program_at(path, 0), program_at(path, 1)]
        timings = [simulate(program) for program in programs]
        cells = [timing.cycles for timing in timings]
        cells += [simulate(program_at(path, 1, left_out)).cycles for left_out in MEASURED]
        cells += [weight_bytes(timing) for timing in timings] + [program.used_bytes for program in programs]
        lines.append(f"| {name} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    return lines


def figures(paths: dict[str, Path]) -> list[str]:
    lines = [
        "| network | cycles | utilization | 1x1 layers, weighted by MACs | slowest layer beside its roofline |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, path in paths.items():
        program = program_at(path, 1)
        timing = simulate(program)
        macs = sum(layer.macs for layer in timing.layers)
        pairs = zip(program.layers, timing.layers, strict=True)
        pointwise = [time for layer, time in pairs if time.macs and layer.a.taps == 1 and layer.a.rows > 1]
        worst = max(layer.cycles / layer.roofline for layer in timing.layers)
        total = macs / (ARRAY**2 * timing.cycles)
        lines.append(f"| {name} | {timing.cycles:,} | {total:.1%} | {weighted(pointwise)} | {worst:.1%} |")
    return lines


def weighted(layers: list[LayerTime]) -> str:
    """Utilization of layers, weighted by their MACs; layers whose MACs stand in skipped passes have none."""
    macs = sum(layer.macs for layer in layers)
    return f"{sum(layer.macs * layer.utilization(ARRAY) for layer in layers) / macs:.1%}" if macs else "-"


def main() -> int:
    shared = Path(os.environ.get("TRIVET_SHARED", CHECKOUT.parent / "shared"))
    paths = {name: shared / "models" / "networks" / "tflite" / f"{file}.tflite" for name, file in NETWORKS.items()}
    paths = {"digits": CHECKOUT / "examples" / "models" / "digits_int8.tflite", **paths}
    text = "\n".join(["", *effects(paths), "", *figures(paths), "", ""])
    page = PAGE.read_text()
    start, stop = page.index(BEGIN) + len(BEGIN), page.index(END)
    if "--check" in sys.argv[1:]:
        return int(page[start:stop] != text)
    PAGE.write_text(page[:start] + text + page[stop:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
