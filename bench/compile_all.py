"""How long every network of some directories takes to compile, in this process, and which part of it.

    python bench/compile_all.py DIRECTORY_OR_MODEL... [--over SECONDS]

Without a budget or, with `--memory`, for the smallest memory. Seconds of processor time, which other work on a machine
does not change much, split into reading, passes, planning and writing. Prints the slow ones first (those `--over` so
many seconds), then the median, the largest and what was refused. A first network is compiled before, so that imports
do not count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from trivet import driver
from trivet.errors import CompileError
from trivet.planning.options import Objective

SUFFIXES = (".onnx", ".tflite", ".tiny")
PARTS = ("read", "passes", "plan", "write")

T = TypeVar("T")


@dataclass
class Times:
    """Seconds of each part of the compilation of one network; the reason where it was refused."""

    model: Path
    seconds: dict[str, float]
    refusal: str | None = None

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def part(self, name: str, work: Callable[[], T]) -> T:
        start = time.process_time()
        try:
            return work()
        finally:
            self.seconds[name] = time.process_time() - start

    def __str__(self) -> str:
        parts = "  ".join(f"{self.seconds.get(name, 0.0):8.3f}" for name in PARTS)
        return f"{self.model.name[:70]:70} {self.total:8.3f} = {parts}"


def compile_parts(model: Path, settings: driver.Settings) -> Times:
    times = Times(model, {})
    try:
        loaded = times.part("read", lambda: driver.load(model, settings))
        selection = times.part("passes", lambda: driver.legal_graph(loaded.graph, settings))
        plan = times.part("plan", lambda: driver.fitting_plan(loaded.graph, selection, settings))
        times.part("write", lambda: driver.write(loaded, plan, selection, settings))
    except CompileError as error:
        times.refusal = str(error).splitlines()[0]
    return times


def models(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.suffix in SUFFIXES)


def report(found: list[Times], over: float) -> None:
    print(f"{'network':70} {'seconds':>8} = " + "  ".join(f"{name:>8}" for name in PARTS))
    for times in sorted(found, key=lambda times: -times.total):
        if times.total >= over:
            print(times)
    compiled = [times.total for times in found if times.refusal is None]
    refused = [times for times in found if times.refusal is not None]
    if compiled:
        print(f"{len(compiled)} compiled: median {median(compiled):.3f} s, largest {max(compiled):.3f} s")
    print(f"{len(refused)} refused" + "".join(f"\n  {times.model.name}: {times.refusal}" for times in refused))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--over", type=float, default=0.0, help="print networks that take at least so many seconds")
    parser.add_argument("--memory", action="store_true", help="plan for the smallest memory")
    arguments = parser.parse_args()
    settings = driver.Settings(objective=Objective.MEMORY if arguments.memory else Objective.SPEED)
    files = list(models(arguments.paths))
    if not files:
        sys.exit("no model in " + ", ".join(arguments.paths))
    compile_parts(files[0], settings)
    report([compile_parts(file, settings) for file in files], arguments.over)


if __name__ == "__main__":
    main()
