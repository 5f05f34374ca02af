"""Runs passes in order and trusts none of them.

After every pass, always: the structure is verified, the spec that the pass ensures and the one that held before are
checked, and a pass that claims it changed nothing must have changed nothing. Instruments see every run of every pass,
inside fixpoints too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from trivet.core.record import dataclass
from trivet.ir.graph import Graph
from trivet.ir.text.printer import print_graph
from trivet.ir.verify import violations
from trivet.passes.base import Pass
from trivet.passes.specs import IMPORTED, Spec


class PassVerifyError(Exception):
    """A pass broke the program: its name, what is wrong, and the graph before and after as text."""

    def __init__(self, pass_name: str, reason: str, before: str, after: str) -> None:
        super().__init__(f"pass '{pass_name}' broke the program: {reason}")
        self.pass_name = pass_name
        self.reason = reason
        self.before = before
        self.after = after


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """A group of passes repeated until a whole round changes nothing."""

    passes: tuple[Pass, ...]
    max_rounds: int = 100


Pipeline = tuple[Pass | Fixpoint, ...]


@dataclass(frozen=True, slots=True)
class PassRun:
    """One execution of one pass; `round` counts from 1 inside a fixpoint and is 0 outside."""

    index: int
    pass_: Pass
    round: int
    changed: bool
    seconds: float
    fired: Counter[str]


class Instrument:
    """Something that watches the passes; every method may be overridden."""

    def begin(self, graph: Graph) -> None:
        """Before the first pass."""

    def before(self, pass_: Pass, graph: Graph) -> None:
        """Before each run of a pass."""

    def after(self, run: PassRun, graph: Graph) -> None:
        """After each run of a pass that kept the structure right.

        Raises: PassVerifyError if this instrument finds the program broken.
        """

    def end(self, graph: Graph) -> None:
        """After the last pass."""


@dataclass
class PassManager:
    """Runs pipelines; `disabled` names passes to leave out.

    `holds` is the spec that the graph is known to satisfy; it grows as passes ensure more.
    """

    instruments: Sequence[Instrument] = ()
    disabled: frozenset[str] = frozenset()
    holds: Spec = IMPORTED
    runs: list[PassRun] = field(default_factory=list)

    def run(self, graph: Graph, pipeline: Pipeline) -> None:
        """Apply a pipeline to `graph` in place.

        Raises: PassVerifyError naming the pass that broke the program.
        """
        for instrument in self.instruments:
            instrument.begin(graph)
        for element in pipeline:
            if isinstance(element, Fixpoint):
                self._fixpoint(graph, element)
            else:
                self._run_pass(graph, element, 0)
        for instrument in self.instruments:
            instrument.end(graph)

    def _fixpoint(self, graph: Graph, group: Fixpoint) -> None:
        for number in range(1, group.max_rounds + 1):
            changes = [self._run_pass(graph, pass_, number) for pass_ in group.passes]
            if not any(changes):
                return
        names = ", ".join(p.name for p in group.passes)
        raise PassVerifyError(names, f"no fixpoint after {group.max_rounds} rounds", "", print_graph(graph))

    def _run_pass(self, graph: Graph, pass_: Pass, number: int) -> bool:
        if pass_.name in self.disabled:
            return False
        assert self.holds.implies(pass_.requires), f"{pass_.name} requires {pass_.requires.name}"
        for instrument in self.instruments:
            instrument.before(pass_, graph)
        before = fingerprint(graph)
        fired: Counter[str] = Counter()
        start = time.perf_counter()
        changed = pass_.run(graph, fired)
        run = PassRun(len(self.runs), pass_, number, changed, time.perf_counter() - start, fired)
        self._check(graph, run, before)
        self.runs.append(run)
        for instrument in self.instruments:
            instrument.after(run, graph)
        return changed

    def _check(self, graph: Graph, run: PassRun, before: Fingerprint) -> None:
        pass_ = run.pass_
        if not run.changed:
            if fingerprint(graph) != before:
                raise PassVerifyError(pass_.name, "it changed the graph and claims it did not", "", print_graph(graph))
        else:
            for violation in violations(graph):
                raise PassVerifyError(pass_.name, violation, "", print_graph(graph))
        # A disabled pass may leave what a later one would have needed: then specs are not promised either.
        if pass_.ensures is not None and not self.disabled:
            self.holds = pass_.ensures
        if run.changed or pass_.ensures is not None:
            for violation in self.holds.violations(graph):
                raise PassVerifyError(pass_.name, f"{self.holds.name}: {violation}", "", print_graph(graph))


Fingerprint = tuple[object, ...]


def fingerprint(graph: Graph) -> Fingerprint:
    """Differs whenever nodes, operands, types, results, states or ports differ; objects count by identity."""
    nodes = tuple((id(n), id(n.op), *map(id, n.inputs), *(id(v.type) for v in n.outputs)) for n in graph.nodes)
    results = tuple(id(v) for v in graph.results())
    types = tuple(id(v.type) for v in graph.inputs)
    return nodes, results, types, tuple(graph.input_ports), tuple(graph.output_ports)
