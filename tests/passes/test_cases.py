"""IR in, IR out: every `cases/*.tir` holds titled rewrites and graphs that a pass leaves alone.

    // passes: canonicalize
    // === relu of relu is relu
    graph ...
    // ---- becomes
    graph ...

`// ---- is left alone` instead of a second graph means that nothing changes. Every case is also executed before and
after by the oracle, so that a wrong expectation cannot stay green.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from normal_form import normal_form
from trivet.ir.graph import Graph
from trivet.ir.text.parser import parse_graph
from trivet.ops import OP_BY_NAME
from trivet.passes.base import Pass
from trivet.passes.catalog import parse_pipeline
from trivet.passes.manager import Fixpoint, PassManager
from trivet.passes.pipelines import normalize
from trivet.passes.verify_each import VerifyEach

DIRECTORY = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """One titled rewrite; `after` is None where the graph must stay as it is."""

    passes: str
    title: str
    before: str
    after: str | None

    def __str__(self) -> str:
        return f"{self.passes}: {self.title}"


def read_cases(file: Path) -> list[Case]:
    """The cases of one file."""
    head, *parts = re.split(r"^// === ", file.read_text(), flags=re.MULTILINE)
    passes = head.removeprefix("// passes: ").splitlines()[0].strip()
    cases = []
    for part in parts:
        title, _, body = part.partition("\n")
        before, rule, after = re.split(r"^// ---- (becomes|is left alone)$", body, flags=re.MULTILINE)
        cases.append(Case(passes, title, before, after if rule == "becomes" else None))
    return cases


CASES = [case for file in sorted(DIRECTORY.glob("*.tir")) for case in read_cases(file)]


def parsed(text: str) -> Graph:
    return parse_graph(text, OP_BY_NAME)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    graph = parsed(case.before)
    manager = PassManager([VerifyEach()])
    manager.run(graph, parse_pipeline(case.passes))
    assert normal_form(graph) == normal_form(parsed(case.after if case.after is not None else case.before))
    assert any(run.changed for run in manager.runs) == (case.after is not None)


@pytest.mark.parametrize("case", [case for case in CASES if case.after is not None], ids=str)
def test_a_second_run_changes_nothing(case: Case) -> None:
    assert case.after is not None
    graph = parsed(case.after)
    manager = PassManager()
    manager.run(graph, parse_pipeline(case.passes))
    assert not any(run.changed for run in manager.runs)


def normalizing_passes() -> list[Pass]:
    flat = [p for element in normalize() for p in (element.passes if isinstance(element, Fixpoint) else (element,))]
    return list({pass_.name: pass_ for pass_ in flat}.values())


@pytest.mark.parametrize("name", [pass_.name for pass_ in normalizing_passes()])
def test_every_pass_has_a_rewrite_and_something_it_leaves_alone(name: str) -> None:
    if name == "check-canonical":
        return  # changes nothing by definition; test_specs has its cases
    kinds = Counter(case.after is None for case in CASES if case.passes == name)
    assert kinds[False] and kinds[True], f"{name}: {kinds[False]} rewrites, {kinds[True]} left alone"
