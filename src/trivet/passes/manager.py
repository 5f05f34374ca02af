"""Runs passes in order and trusts none of them.

After every pass, always: the structure is verified, the spec that the pass ensures and the one that held before are
checked, and a pass that claims it changed nothing must have changed nothing. Instruments see every run of every pass,
inside fixpoints too. What fails is named, with the graph before and after.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NoReturn

from trivet.core.late import late
from trivet.core.record import dataclass
from trivet.ir.graph import Graph
from trivet.ir.op import TypeMismatch
from trivet.ir.verify import violations
from trivet.passes.base import Pass
from trivet.passes.lowered import Lowered, StageRun
from trivet.passes.snapshot import Snapshot
from trivet.passes.specs import IMPORTED, Spec

if TYPE_CHECKING:
    from trivet.ir.text import printer
else:
    printer = late("trivet.ir.text.printer")

FAULTS = (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, TypeMismatch, ValueError)
"""What a wrong pass may raise. A CompileError is no fault: it is a pass's verdict on the user's program."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A program as `.tir` text, and the arguments with which `trivet opt` shows a fault on it again."""

    program: str
    arguments: str


class PassVerifyError(Exception):
    """A pass broke the program: its name, what is wrong, and the program before and after as text.

    `replay` None: the pass alone, on the graph before it.
    """

    def __init__(
        self, pass_name: str, reason: str, before: str, after: str, flags: str = "", replay: Replay | None = None
    ) -> None:
        super().__init__(f"pass '{pass_name}' broke the program: {reason}")
        self.pass_name = pass_name
        self.reason = reason
        self.before = before
        self.after = after
        quoted = f"'{pass_name}'" if "(" in pass_name else pass_name
        self.replay = replay or Replay(before, f"--passes {quoted} {flags}")

    def reproducer(self) -> str:
        """A `.tir` file with which `trivet opt` shows the fault again, as its first lines say."""
        reason = self.reason.splitlines()[0] if self.reason else ""
        head = f"// pass '{self.pass_name}' broke this program: {reason}\n// {self.command('THIS_FILE')}\n"
        return head + self.replay.program

    def command(self, file: str) -> str:
        """The command line that shows the fault again on the reproducer in `file`."""
        return f"trivet opt {file} {self.replay.arguments}".rstrip()


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """A group of passes repeated until a whole round changes nothing."""

    passes: tuple[Pass, ...]
    max_rounds: int = 100


Pipeline = tuple[Pass | Fixpoint, ...]


@dataclass(frozen=True, slots=True)
class PassRun:
    """One execution of one pass; `round` counts from 1 inside a fixpoint and is 0 outside.

    `seconds` is what the pass took, `checking` what the manager's own checks took.
    """

    index: int
    pass_: Pass
    round: int
    changed: bool
    seconds: float
    fired: Counter[str]
    checking: float = 0.0

    def __str__(self) -> str:
        return self.pass_.name + (f" (round {self.round})" if self.round else "")


class Instrument:
    """Something that watches the passes; every method may be overridden."""

    @property
    def flags(self) -> str:
        """What the command line needs to have a replayed pass watched in the same way."""
        return ""

    def begin(self, graph: Graph) -> None:
        """Before the first pass."""

    def before(self, pass_: Pass, graph: Graph) -> None:
        """Before each run of a pass."""

    def after(self, run: PassRun, graph: Graph) -> str | None:
        """After each run of a pass that kept the structure right; a sentence if the program is broken nevertheless."""
        return None

    def end(self, graph: Graph) -> None:
        """After the last pass."""

    def before_stage(self, name: str, program: Lowered | None) -> None:
        """Before each stage of a backend; None stands for the graph."""

    def after_stage(self, run: StageRun) -> str | None:
        """After each stage that kept its form's rules; a sentence if the program is broken nevertheless."""
        return None


@dataclass(slots=True)
class PassManager:
    """Runs pipelines; `disabled` names passes to leave out, `limit` stops after so many runs.

    `arguments` are what `trivet opt` needs beside a pass's name to run the very same pass.

    `holds` is the spec that the graph is known to satisfy; it grows as passes ensure more.
    """

    instruments: Sequence[Instrument] = ()
    disabled: frozenset[str] = frozenset()
    holds: Spec = IMPORTED
    limit: int | None = None
    arguments: str = ""
    runs: list[PassRun] = field(default_factory=list)
    started: int = 0
    _known: Snapshot | None = None

    def run(self, graph: Graph, pipeline: Pipeline) -> None:
        """Apply a pipeline to `graph` in place.

        Raises: PassVerifyError naming the pass that broke the program.
        """
        self._known = None
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
            before = Snapshot.take(graph) if number == group.max_rounds else None
            changes = [self._run_pass(graph, pass_, number) for pass_ in group.passes]
            if not any(changes):
                return
        assert before is not None
        names = ",".join(p.name for p in group.passes)
        self._fail(f"fixpoint({names})", f"no fixpoint after {group.max_rounds} rounds", before, graph)

    def _run_pass(self, graph: Graph, pass_: Pass, number: int) -> bool:
        if pass_.name in self.disabled or (self.limit is not None and self.started >= self.limit):
            return False
        self._require(graph, pass_)
        for instrument in self.instruments:
            instrument.before(pass_, graph)
        before = self._known = self._known or Snapshot.take(graph)
        index, self.started = self.started, self.started + 1
        fired: Counter[str] = Counter()
        start = time.perf_counter()
        try:
            changed = pass_.run(graph, fired)
        except FAULTS as fault:
            self._fail(pass_.name, f"it raised {type(fault).__name__}: {fault}", before, graph, fault)
        ran = time.perf_counter()
        reason = self._first_wrong(graph, pass_, changed, before)
        if reason is not None:
            self._fail(pass_.name, reason, before, graph)
        run = PassRun(index, pass_, number, changed, ran - start, fired, time.perf_counter() - ran)
        self.runs.append(run)
        for instrument in self.instruments:
            found = instrument.after(run, graph)
            if found is not None:
                self._fail(pass_.name, found, before, graph)
        return changed

    def _require(self, graph: Graph, pass_: Pass) -> None:
        """Pipelines are composed so that requirements hold by what was ensured; else the graph itself must show it."""
        if self.holds.implies(pass_.requires):
            return
        for violation in pass_.requires.violations(graph):
            reason = f"it requires {pass_.requires.name}: {violation}"
            self._fail(pass_.name, reason, Snapshot.take(graph), graph)
        self.holds = pass_.requires

    def _first_wrong(self, graph: Graph, pass_: Pass, changed: bool, before: Snapshot) -> str | None:
        """A sentence on the first thing that is wrong with what a pass left."""
        if changed:
            self._known = None
            for violation in violations(graph):
                return violation
            self._known = Snapshot.take(graph)
        elif not before.equals(graph):
            return "it changed the graph and claims it did not"
        # A disabled pass may leave what a later one would have needed: then specs are not promised either.
        if pass_.ensures is not None and not self.disabled:
            self.holds = pass_.ensures
        if changed or pass_.ensures is not None:
            for violation in self.holds.violations(graph):
                return f"{self.holds.name}: {violation}"
        return None

    def _fail(
        self, name: str, reason: str, before: Snapshot, graph: Graph, cause: BaseException | None = None
    ) -> NoReturn:
        watched = [instrument.flags for instrument in self.instruments]
        flags = " ".join(flag for flag in (self.arguments, *watched) if flag)
        try:
            after = printer.print_graph(graph)
        except FAULTS as fault:
            after = f"// the graph is too broken to print: {fault}\n"
        raise PassVerifyError(name, reason, printer.print_graph(before.restore()), after, flags) from cause
