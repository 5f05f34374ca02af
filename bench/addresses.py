"""Solves hard address problems within a capacity and states the time for each.

    python bench/addresses.py [--seconds 60] DIRECTORY

DIRECTORY holds instances of the public minimalloc benchmark, `NAME.CAPACITY.csv` with columns id, lower, upper, size:
a buffer is in use in [lower, upper). Every placement is checked pair by pair.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

from trivet.planning.memory.native import NativeSearch, is_available
from trivet.planning.memory.portfolio import search
from trivet.planning.memory.problem import Block, Problem, lower_bound
from trivet.planning.memory.validate import violations
from trivet.planning.plan import Region

NODES = 1 << 40
"""Nodes that nothing reaches: the clock ends the search."""


def instance(path: Path) -> Problem:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    blocks = tuple(Block(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in rows)
    return Problem(blocks, (Region("arena", int(path.suffixes[-2][1:])),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=60, help="after which an instance is given up")
    arguments = parser.parse_args()
    solved = 0
    paths = sorted(arguments.directory.glob("*.csv"))
    print(f"{'instance':10} {'buffers':>7} {'bound':>9} {'capacity':>9} {'peak':>9} {'nodes':>10} {'seconds':>8}")
    for path in paths:
        problem = instance(path)
        capacity = problem.regions[0].size_bytes
        assert capacity is not None and is_available(problem), "build the library: make lib"
        start = time.perf_counter()
        end = start + arguments.seconds
        found = search(NativeSearch(problem), capacity, NODES, stopped=lambda end=end: time.perf_counter() > end)
        seconds = time.perf_counter() - start
        peak = "-"
        if found.placement is not None:
            assert violations(problem, found.placement) == []
            peak = f"{found.placement.peak(problem, 'arena'):,}"
            solved += 1
        print(
            f"{path.name.split('.')[0]:10} {len(problem.blocks):7} {lower_bound(problem):9,} {capacity:9,} {peak:>9} "
            f"{found.nodes:10,} {seconds:8.2f}",
            flush=True,
        )
    print(f"{solved} of {len(paths)} solved")


if __name__ == "__main__":
    main()
