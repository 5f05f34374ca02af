"""Planning time: synthetic networks of 100 to 3,000 operators, and networks with a stated limit.

    python bench/planning_time.py [--sizes 100,300,1000] [MODEL...]

Each network is planned three times: layer by layer (no budget), within the middle between the smallest and the
layer-wise memory, and for the least memory. The last lines give the exponent of the growth: time ~ operators^exponent.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from sketches import architectures
from sketches.graphs import int8_graph
from trivet import driver
from trivet.backends.plan.legalize import LegalizePlan
from trivet.backends.plan.selection import Selection
from trivet.ir.graph import Graph
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.planner import plan

SIZES = (100, 200, 300, 500, 1000, 2000, 3000)
LIMITS = {"mobilenet_v2_96": 3.0, "mobilenet_v2_144": 3.0, "mobilenet_v2_224": 3.0, "synthetic_300": 30.0}
MODEL_LIMIT = 1.0
"""Seconds that each model named on the command line may take for its least memory."""


def legal(graph: Graph) -> tuple[Graph, Selection]:
    legalize = LegalizePlan()
    driver.optimize(graph, driver.Settings(), (), (legalize,))
    return graph, legalize.selection


def timed(graph: Graph, selection: Selection, budget: int | None, objective: Objective) -> tuple[float, int]:
    """Seconds of processor time and bytes of one planning."""
    start = time.process_time()
    made = plan(graph, budget, None, selection, PlanOptions(objective))
    return time.process_time() - start, made.region_bytes("fast")


def report(name: str, graph: Graph, limit: float | None) -> list[float]:
    graph, selection = legal(graph)
    whole, layers = timed(graph, selection, None, Objective.SPEED)
    least, smallest = timed(graph, selection, None, Objective.MEMORY)
    middle, _ = timed(graph, selection, (layers + smallest) // 2, Objective.SPEED)
    verdict = "" if limit is None else f"limit {limit:.0f} s: {'ok' if least <= limit else 'MISSED'}"
    bytes_used = f"{layers:10,} {smallest:10,}"
    seconds = f"{whole:8.2f} {middle:8.2f} {least:8.2f}"
    print(f"{name:24} {len(graph.nodes):6} {bytes_used} {seconds}  {verdict}", flush=True)
    return [whole, middle, least]


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of log(time) over log(size), least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(t, 1e-3)) for t in times]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="operators of the synthetic networks")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    print(f"{'network':24} {'nodes':>6} {'layers':>10} {'smallest':>10} {'layers s':>8} {'middle s':>8} {'least s':>8}")
    for path in arguments.models:
        report(path.stem[:24], driver.load(path).graph, MODEL_LIMIT)
    for resolution in (96, 144, 224):
        name = f"mobilenet_v2_{resolution}"
        report(name, int8_graph(architectures.mobilenet_v2(resolution)), LIMITS[name])
    rows = [
        report(f"synthetic_{size}", int8_graph(architectures.synthetic(size)), LIMITS.get(f"synthetic_{size}"))
        for size in sizes
    ]
    if len(sizes) > 1:
        for name, times in zip(("layers", "middle", "least"), zip(*rows, strict=True), strict=True):
            print(f"growth, {name}: operators^{exponent(sizes, list(times)):.2f}")


if __name__ == "__main__":
    main()
