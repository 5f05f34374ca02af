"""Instruments for people: dumps, timings, counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection

from trivet.analysis.ranges import Ranges, analyze_ranges
from trivet.core.interval import Interval
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.text.printer import print_graph, print_type, value_names
from trivet.passes.base import Pass
from trivet.passes.lowered import Lowered, StageRun
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

    def after(self, run: PassRun, graph: Graph) -> str | None:
        name = run.pass_.name
        if (self._after is None or name in self._after) and (run.changed or not self._only_changed):
            number = f", round {run.round}" if run.round else ""
            state = "" if run.changed else " (no change)"
            self._write(f"// ---- after {name}{number}{state}\n{print_graph(graph, elide=True)}")
        return None

    def before_stage(self, name: str, program: Lowered | None) -> None:
        if program is not None and (self._before is None or name in self._before):
            self._write(f"// ---- before {name}\n{program.text()}")

    def after_stage(self, run: StageRun) -> str | None:
        if (self._after is None or run.name in self._after) and (run.changed or not self._only_changed):
            state = "" if run.changed else " (no change)"
            self._write(f"// ---- after {run.name}{state}\n{run.program.text()}")
        return None


class Timings(Instrument):
    """Prints the time of every pass, summed over its runs, and the share of the total; then of every stage."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._seconds: dict[str, float] = defaultdict(float)
        self._runs: Counter[str] = Counter()
        self._checking = 0.0

    def after(self, run: PassRun, graph: Graph) -> str | None:
        self._seconds[run.pass_.name] += run.seconds
        self._runs[run.pass_.name] += 1
        self._checking += run.checking
        return None

    def end(self, graph: Graph) -> None:
        total = sum(self._seconds.values())
        for name, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            share = seconds / total if total else 0.0
            self._write(f"{seconds * 1e3:9.3f} ms {share:6.1%} {self._runs[name]:4d} runs  {name}\n")
        self._write(f"{total * 1e3:9.3f} ms 100.0%            total\n")
        self._write(f"{self._checking * 1e3:9.3f} ms                   structural verification, beside it\n")

    def after_stage(self, run: StageRun) -> str | None:
        self._write(f"{run.seconds * 1e3:9.3f} ms                   stage {run.name}\n")
        return None


class Stats(Instrument):
    """Prints how often each rewrite fired."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self.fired: dict[str, Counter[str]] = defaultdict(Counter)

    def after(self, run: PassRun, graph: Graph) -> str | None:
        self.fired[run.pass_.name].update(run.fired)
        return None

    def end(self, graph: Graph) -> None:
        for name, counts in self.fired.items():
            for rewrite, count in sorted(counts.items()):
                self._write(f"{count:6d} {name}: {rewrite}\n")

    def after_stage(self, run: StageRun) -> str | None:
        for rewrite, count in sorted(run.fired.items()):
            self._write(f"{count:6d} {run.name}: {rewrite}\n")
        return None


class PrintRanges(Instrument):
    """Prints the interval of every integer value, and of the sums inside products, as range-check sees them.

    That is before range-check, which may reject the program, and once more at the end if anything changed since.
    """

    def __init__(self, write: Write, i32: Interval | None = None) -> None:
        self._write = write
        self._i32 = i32
        self._text = ""

    def before(self, pass_: Pass, graph: Graph) -> None:
        if pass_.name == "range-check":
            self._print(graph)

    def end(self, graph: Graph) -> None:
        self._print(graph)

    def _print(self, graph: Graph) -> None:
        text = describe_ranges(graph, analyze_ranges(graph, self._i32))
        if text != self._text:
            self._write(text)
        self._text = text


def describe_ranges(graph: Graph, ranges: Ranges) -> str:
    """A line for every integer value: its name, type and interval, and the sums of the product that makes it."""
    names = value_names(graph)
    values = [*graph.inputs, *(state.read for state in graph.states), *graph.constants()]
    lines = ["// ---- ranges"]
    lines += [_range_line(value, names, ranges) for value in values if value.type.dtype.is_integer]
    for node in graph.nodes:
        lines += [
            _range_line(value, names, ranges) + _sums_text(node, ranges)
            for value in node.outputs
            if value.type.dtype.is_integer
        ]
    return "\n".join(lines) + "\n"


def _range_line(value: Value, names: dict[int, str], ranges: Ranges) -> str:
    interval = ranges.interval(value)
    return f"//   %{names[id(value)]}: {print_type(value.type)} in [{interval.lo}, {interval.hi}]"


def _sums_text(node: Node, ranges: Ranges) -> str:
    sums = ranges.sums.get(id(node))
    if sums is None:
        return ""
    channels = f" of {sums.channels} channels" if sums.channels > 1 else ""
    worst = sums.worst
    return f"; sums{channels} in [{worst.lo}, {worst.hi}], {sums.margin_bits:.1f} bits of int32 to spare"
