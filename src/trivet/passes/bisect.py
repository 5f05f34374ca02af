"""Finds the pass that breaks a program without watching each: by running prefixes of the pipeline."""

from __future__ import annotations

from collections.abc import Callable

from trivet.core.record import dataclass
from trivet.errors import CompileError
from trivet.ir.graph import Graph
from trivet.ir.text.printer import print_graph
from trivet.passes.base import Exact, Pass
from trivet.passes.manager import Instrument, PassManager, PassRun, PassVerifyError, Pipeline
from trivet.passes.verify_each import VerifyEach


class VerifyWhole(VerifyEach):
    """Compares the program at the end with the one before the first pass.

    Passes that are not exact divide the pipeline: what stands before one, and what it makes of that, is compared too.
    """

    difference: str | None = None

    def before(self, pass_: Pass, graph: Graph) -> None:
        if not isinstance(pass_.preserves, Exact):
            self.difference = self.difference or self.compare(graph, Exact())

    def after(self, run: PassRun, graph: Graph) -> str | None:
        if not isinstance(run.pass_.preserves, Exact) and run.changed:
            self.difference = self.difference or VerifyEach.after(self, run, graph)
        return None

    def end(self, graph: Graph) -> None:
        self.difference = self.difference or self.compare(graph, Exact())


@dataclass(frozen=True, slots=True)
class Bisection:
    """What `bisect` found: the pipeline's length in pass runs, how many prefixes were tried, and the fault, if any.

    The fault's pass run is number `position`, counted from 1: all before it keep the program right.
    """

    runs: int
    tried: int
    position: int = 0
    fault: PassVerifyError | None = None

    def __str__(self) -> str:
        if self.fault is None:
            return f"bisect: none of the {self.runs} pass runs breaks the program"
        return (
            f"bisect: pass run {self.position} of {self.runs}, {self.fault.pass_name}, breaks the program; "
            f"without it and what follows it is right ({self.tried} prefixes tried)"
        )


class Bisector:
    """Runs prefixes of a pipeline on fresh copies of a program, which `load` makes."""

    def __init__(
        self, load: Callable[[], Graph], pipeline: Pipeline, disabled: frozenset[str], verify: Callable[[], VerifyWhole]
    ) -> None:
        self._load = load
        self._pipeline = pipeline
        self._disabled = disabled
        self._verify = verify
        self._tried = 0

    def run(self) -> Bisection:
        """The first pass run that breaks the program, by halving the interval that holds it."""
        total, reason = self._prefix(None)
        if reason is None:
            return Bisection(total, self._tried)
        right, wrong = 0, total
        while wrong - right > 1:
            middle = (right + wrong) // 2
            _, found = self._prefix(middle)
            right, wrong, reason = (right, middle, found) if found is not None else (middle, wrong, reason)
        return Bisection(total, self._tried, wrong, self._fault(wrong, reason))

    def _prefix(self, limit: int | None, *watch: Instrument, graph: Graph | None = None) -> tuple[int, str | None]:
        """How many passes ran, and what is wrong after them."""
        self._tried += 1
        graph, verify = graph or self._load(), self._verify()
        manager = PassManager([verify, *watch], self._disabled, limit=limit)
        try:
            manager.run(graph, self._pipeline)
        except PassVerifyError as fault:
            return manager.started, fault.reason
        except CompileError:
            # The program was rejected: what came before the verdict is what can be wrong.
            verify.end(graph)
        return manager.started, verify.difference

    def _fault(self, position: int, reason: str) -> PassVerifyError:
        graph, watch = self._load(), _Watch(position)
        self._prefix(position, watch, graph=graph)
        return PassVerifyError(watch.name, reason, watch.text, print_graph(graph), self._verify().flags)


class _Watch(Instrument):
    """Keeps the name of one pass run, and the graph before it."""

    def __init__(self, position: int) -> None:
        self._left = position
        self.name = self.text = ""

    def before(self, pass_: Pass, graph: Graph) -> None:
        self._left -= 1
        if self._left == 0:
            self.name, self.text = pass_.name, print_graph(graph)
