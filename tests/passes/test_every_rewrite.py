"""Every rewrite of every pass fires on generated programs: none is dead, and none goes unwatched.

The labels are read from the source, so a new rewrite fails here until a strategy produces what it looks for.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trivet.passes
from strategies.idioms import IDIOMS
from strategies.networks import Step, random_network
from strategies.programs import random_program
from trivet.core.dtype import I8, I32
from trivet.errors import MayOverflow, Problems
from trivet.frontends.tiny.convert import parse
from trivet.ir.types import TensorType
from trivet.passes.border_rows import BorderRows, has_rows
from trivet.passes.catalog import graph_pipeline
from trivet.passes.manager import PassManager
from trivet.passes.pipelines import normalize
from trivet.passes.verify_each import VerifyEach

SOURCES = Path(trivet.passes.__file__).parent


def labels() -> Iterator[str]:
    """Every label that a pass counts, as a pattern."""
    for file in sorted(SOURCES.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "count":
                yield from patterns(call.args[0]) if len(call.args) == 1 else ()


def patterns(argument: ast.expr) -> Iterator[str]:
    match argument:
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case ast.JoinedStr(values=parts):
            yield "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in parts)
        case ast.IfExp(body=body, orelse=orelse):
            yield from patterns(body)
            yield from patterns(orelse)
        case _:
            yield ".+"


def border(counts: Counter[str]) -> None:
    """What fires where networks of their own take and give rows."""

    @settings(max_examples=30)
    @given(st.data())
    def network(data: st.DataObject) -> None:
        graph = random_network(data, True, IDIOMS)
        manager = PassManager([VerifyEach()])
        manager.run(graph, normalize())
        if any(map(has_rows, graph.inputs)):
            manager.run(graph, (BorderRows(inputs=True),))
        if any(has_rows(v) and v.producer is not None for v in graph.outputs):
            manager.run(graph, (BorderRows(outputs=True),))
        for run in manager.runs:
            counts.update(run.fired)

    network()


@pytest.fixture(scope="module")
def fired() -> Counter[str]:
    """How often each label fired on random networks and programs, all of them verified pass by pass."""
    counts: Counter[str] = Counter()

    def networks(examples: int, steps: Sequence[Step]) -> None:
        @settings(max_examples=examples)
        @given(st.data(), st.booleans())
        def network(data: st.DataObject, quantized: bool) -> None:
            manager = PassManager([VerifyEach()])
            manager.run(random_network(data, quantized, steps), normalize())
            for run in manager.runs:
                counts.update(run.fired)

        network()

    @settings(max_examples=60)
    @given(st.data())
    def programs(data: st.DataObject) -> None:
        graph = parse(random_program(data))
        for value in graph.inputs:
            if value.type.dtype is I8 and data.draw(st.booleans()):
                value.type = TensorType(I32, value.type.shape)
        manager = PassManager()
        try:
            manager.run(graph, graph_pipeline(1))
        except (MayOverflow, Problems):
            counts["rejected"] += 1
        for run in manager.runs:
            counts.update(run.fired)

    networks(100, IDIOMS)
    for idiom in IDIOMS:
        networks(12, [idiom])
    programs()
    border(counts)
    return counts


@pytest.mark.parametrize("pattern", sorted(set(labels())))
def test_it_fires(pattern: str, fired: Counter[str]) -> None:
    assert any(re.fullmatch(pattern, label) for label in fired), fired


def test_there_are_many() -> None:
    assert len(set(labels())) > 30
