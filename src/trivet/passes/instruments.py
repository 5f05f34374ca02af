"""Instruments for people: dumps, timings, counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection

from trivet.ir.graph import Graph
from trivet.ir.text.printer import print_graph
from trivet.passes.base import Pass
from trivet.passes.manager import Instrument, PassRun

Write = Callable[[str], None]


class Dump(Instrument):
    """Prints the graph before or after passes; None stands for every pass."""

    def __init__(
        self,
        write: Write,
        before: Collection[str] | None = (),
        after: Collection[str] | None = (),
        only_changed: bool = False,
    ) -> None:
        self._write = write
        self._before = before
        self._after = after
        self._only_changed = only_changed

    def before(self, pass_: Pass, graph: Graph) -> None:
        if self._before is None or pass_.name in self._before:
            self._write(f"// ---- before {pass_.name}\n{print_graph(graph, elide=True)}")

    def after(self, run: PassRun, graph: Graph) -> None:
        name = run.pass_.name
        if (self._after is None or name in self._after) and (run.changed or not self._only_changed):
            number = f", round {run.round}" if run.round else ""
            state = "" if run.changed else " (no change)"
            self._write(f"// ---- after {name}{number}{state}\n{print_graph(graph, elide=True)}")


class Timings(Instrument):
    """Prints the time of every pass, summed over its runs, and the share of the total."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._seconds: dict[str, float] = defaultdict(float)
        self._runs: Counter[str] = Counter()

    def after(self, run: PassRun, graph: Graph) -> None:
        self._seconds[run.pass_.name] += run.seconds
        self._runs[run.pass_.name] += 1

    def end(self, graph: Graph) -> None:
        total = sum(self._seconds.values())
        for name, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            share = seconds / total if total else 0.0
            self._write(f"{seconds * 1e3:9.3f} ms {share:6.1%} {self._runs[name]:4d} runs  {name}\n")
        self._write(f"{total * 1e3:9.3f} ms 100.0%            total\n")


class Stats(Instrument):
    """Prints how often each rewrite fired."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self.fired: dict[str, Counter[str]] = defaultdict(Counter)

    def after(self, run: PassRun, graph: Graph) -> None:
        self.fired[run.pass_.name].update(run.fired)

    def end(self, graph: Graph) -> None:
        for name, counts in self.fired.items():
            for rewrite, count in sorted(counts.items()):
                self._write(f"{count:6d} {name}: {rewrite}\n")
