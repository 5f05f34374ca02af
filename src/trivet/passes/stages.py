"""Programs below the graph - tiles, kernels, schedules - watched and checked stage by stage, as passes are.

A backend lowers a legal graph in stages. Each stage gives a new program and leaves the one before it alone; the manager
checks it, times it, and shows it to the same instruments that watch the passes. What fails is named, with the program
before and after.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from trivet.errors import CompileError
from trivet.ir.graph import Graph
from trivet.ir.text.printer import print_graph
from trivet.passes.lowered import Lowered, StageRun
from trivet.passes.manager import FAULTS, Instrument, PassVerifyError, Replay

P = TypeVar("P", bound=Lowered)


class StageManager:
    """Runs the stages of a backend on one legal graph.

    `disabled` names rewrites to leave out. A fault's reproducer is the graph, with `arguments` for `trivet opt`.
    """

    def __init__(
        self,
        graph: Graph,
        arguments: str,
        instruments: Sequence[Instrument] = (),
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        self._graph = graph
        self._arguments = arguments
        self._instruments = instruments
        self._disabled = disabled
        self.runs: list[StageRun] = []

    def is_disabled(self, name: str) -> bool:
        """True iff the user wants to do without the rewrite."""
        return name in self._disabled

    def lower(self, name: str, make: Callable[[], P], before: Lowered | None = None) -> P:
        """From one form to the next: from `before` (None: the graph) to what `make` gives.

        Raises: PassVerifyError naming the stage that broke the program.
        """
        return self._run(name, lambda fired: make(), before)

    def rewrite(self, name: str, program: P, apply: Callable[[P, Counter[str]], P | None]) -> P:
        """From one program to a better one of the same form; `apply` counts its rewrites and gives None for no change.

        Raises: PassVerifyError naming the stage that broke the program.
        """
        if name in self._disabled:
            return program
        return self._run(name, lambda fired: apply(program, fired) or program, program)

    def _run(self, name: str, make: Callable[[Counter[str]], P], before: Lowered | None) -> P:
        for instrument in self._instruments:
            instrument.before_stage(name, before)
        fired: Counter[str] = Counter()
        start = time.perf_counter()
        try:
            made = make(fired)
        except FAULTS as fault:
            self._fail(name, f"it raised {type(fault).__name__}: {fault}", before, None, fault)
        run = StageRun(name, made, made is not before, time.perf_counter() - start, fired)
        for violation in made.violations():
            self._fail(name, violation, before, made)
        self.runs.append(run)
        for instrument in self._instruments:
            try:
                found = instrument.after_stage(run)
            except (*FAULTS, CompileError) as fault:  # interpreting it is part of checking it
                self._fail(name, f"it cannot be interpreted: {fault}", before, made, fault)
            if found is not None:
                self._fail(name, found, before, made)
        return made

    def _fail(
        self,
        name: str,
        reason: str,
        before: Lowered | None,
        after: Lowered | None,
        cause: BaseException | None = None,
    ) -> NoReturn:
        source = print_graph(self._graph)
        flags = " ".join(instrument.flags for instrument in self._instruments if instrument.flags)
        was = source if before is None else before.text()
        now = "" if after is None else after.text()
        replay = Replay(source, f"{self._arguments} {flags}".rstrip())
        raise PassVerifyError(name, reason, was, now, replay=replay) from cause
