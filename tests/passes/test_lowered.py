"""Stages below the graph are named when they break the program, and can be watched and switched off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from trivet import interp
from trivet.frontends.tiny.convert import parse
from trivet.ir.graph import Graph
from trivet.ir.op import Array
from trivet.passes.instruments import Dump, Stats, Timings
from trivet.passes.manager import Instrument, PassManager, PassVerifyError
from trivet.passes.stages import StageManager
from trivet.passes.verify_each import VerifyEach


@dataclass(frozen=True)
class Shifted:
    """The graph's outputs plus a number, as a program of its own."""

    graph: Graph
    offset: int = 0
    wrong: str = ""

    def text(self) -> str:
        return f"shifted {self.offset}\n"

    def violations(self) -> list[str]:
        return [self.wrong] if self.wrong else []

    def interpret(self, invocations: Sequence[Sequence[Array]]) -> list[list[Array]]:
        return [[a + self.offset for a in interp.run(self.graph, arrays)[0]] for arrays in invocations]


@pytest.fixture
def graph() -> Graph:
    return parse("input x: i8[2, 3]\nlet y = relu(x)\noutput y\n")


def staged(graph: Graph, *instruments: Instrument, disabled: frozenset[str] = frozenset()) -> StageManager:
    PassManager(instruments).run(graph, ())
    return StageManager(graph, "--target shifted", instruments, disabled)


def unchanged(program: Shifted, fired: Counter[str]) -> Shifted | None:
    return None


def broken(program: Shifted, fired: Counter[str]) -> Shifted:
    return replace(program, offset=1)


def test_a_right_lowering_and_a_rewrite_without_change_pass_verification(graph: Graph) -> None:
    manager = staged(graph, VerifyEach())
    lowered = manager.lower("lower", lambda: Shifted(graph))
    assert manager.rewrite("polish", lowered, unchanged) is lowered
    assert [(run.name, run.changed) for run in manager.runs] == [("lower", True), ("polish", False)]


def test_a_wrong_lowering_is_named_with_its_first_differing_value(graph: Graph) -> None:
    with pytest.raises(PassVerifyError, match="pass 'lower' broke the program: %output 0 at") as caught:
        staged(graph, VerifyEach()).lower("lower", lambda: Shifted(graph, 1))
    assert caught.value.after == "shifted 1\n"
    assert "trivet opt FILE --target shifted --verify-each --seed 0" in caught.value.command("FILE")
    assert "graph" in caught.value.reproducer()


def test_a_wrong_rewrite_is_named_and_can_be_left_out(graph: Graph) -> None:
    with pytest.raises(PassVerifyError, match="pass 'polish' broke"):
        staged(graph, VerifyEach()).rewrite("polish", Shifted(graph), broken)
    manager = staged(graph, VerifyEach(), disabled=frozenset({"polish"}))
    assert manager.rewrite("polish", Shifted(graph), broken) == Shifted(graph)


def test_a_program_that_breaks_the_rules_of_its_form_is_refused_without_instruments(graph: Graph) -> None:
    with pytest.raises(PassVerifyError, match="pass 'lower' broke the program: two writers"):
        staged(graph).lower("lower", lambda: Shifted(graph, wrong="two writers"))


def test_a_stage_that_raises_is_named(graph: Graph) -> None:
    with pytest.raises(PassVerifyError, match="pass 'lower' broke the program: it raised KeyError"):
        staged(graph).lower("lower", lambda: Shifted(graph, {}["absent"]))


def test_instruments_for_people_show_stages(graph: Graph) -> None:
    lines: list[str] = []
    manager = staged(graph, Dump(lines.append, ("polish",), None), Timings(lines.append), Stats(lines.append))

    def polish(program: Shifted, fired: Counter[str]) -> Shifted:
        fired["rubbed"] += 2
        return replace(program, offset=3)

    manager.rewrite("polish", manager.lower("lower", lambda: Shifted(graph)), polish)
    text = "".join(lines)
    assert "// ---- after lower\nshifted 0\n" in text
    assert "// ---- before polish\nshifted 0\n" in text and "// ---- after polish\nshifted 3\n" in text
    assert "stage lower\n" in text and "     2 polish: rubbed\n" in text
