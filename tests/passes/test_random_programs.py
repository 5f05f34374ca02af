"""Random `.tiny` programs: the pipeline keeps their meaning and ends, and what range-check accepts never overflows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from normal_form import normal_form
from strategies.programs import random_program
from trivet import driver, interp
from trivet.analysis.ranges import analyze_ranges
from trivet.artifact import Artifact
from trivet.errors import MayOverflow, Problems
from trivet.frontends.options import Loaded
from trivet.frontends.tiny.convert import parse
from trivet.frontends.tiny.printer import print_program
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Array
from trivet.passes.catalog import graph_pipeline
from trivet.passes.manager import PassManager
from trivet.passes.traces import model_inputs
from trivet.passes.verify_each import VerifyEach


def accepted(graph: Graph) -> bool:
    """True iff range-check proves the program as it was written."""
    return not analyze_ranges(graph).overflowing


def all_arrays(graph: Graph, inputs: list[Array]) -> dict[int, Array]:
    """What every value holds for some inputs, by id(value)."""
    arrays: dict[int, Array] = {id(v): a for v, a in zip(graph.inputs, inputs, strict=True)}
    arrays.update({id(v): v.data for v in graph.constants() if v.data is not None})

    def observe(value: Value, array: Array) -> None:
        arrays[id(value)] = array

    interp.run(graph, inputs, observe=observe)
    return arrays


@given(st.data())
def test_the_pipeline_keeps_the_meaning_and_finds_nothing_the_second_time(data: st.DataObject) -> None:
    text = random_program(data)
    graph = parse(text)
    assume(accepted(graph))
    PassManager([VerifyEach()]).run(graph, graph_pipeline(1))
    again = PassManager()
    again.run(graph, graph_pipeline(1))
    assert not [str(run) for run in again.runs if run.changed], text


@given(st.data())
def test_what_is_accepted_as_written_is_accepted_when_optimized(data: st.DataObject) -> None:
    graph = parse(random_program(data))
    assume(accepted(graph))
    PassManager().run(graph, graph_pipeline(1))
    assert accepted(graph)


@given(st.data())
def test_what_is_accepted_never_overflows_and_stays_in_its_intervals(data: st.DataObject) -> None:
    graph = parse(random_program(data))
    if data.draw(st.booleans()):
        try:
            PassManager().run(graph, graph_pipeline(1))
        except (MayOverflow, Problems):
            return
    ranges = analyze_ranges(graph)
    assume(not ranges.overflowing)

    for invocations in model_inputs(graph, data.draw(st.integers(0, 1 << 16))):
        arrays = all_arrays(graph, invocations[0])
        for node in graph.nodes:
            assert not node.op.overflows(tuple(arrays[id(v)] for v in node.inputs), node.input_types), node
            low, high = int(arrays[id(node.output)].min()), int(arrays[id(node.output)].max())
            assert ranges.interval(node.output).lo <= low and high <= ranges.interval(node.output).hi, node


@given(st.data())
def test_programs_print_and_read_back(data: st.DataObject) -> None:
    graph = parse(random_program(data))
    text = print_program(graph)
    assert normal_form(parse(text)) == normal_form(graph)
    assert print_program(parse(text)) == text


@settings(max_examples=15)
@given(st.data())
def test_plans_compute_what_the_oracle_does(data: st.DataObject) -> None:
    text = random_program(data)
    graph = parse(text)
    assume(accepted(graph))
    artifact = Artifact(driver.build(Loaded(parse(text)), driver.Settings(level=data.draw(st.integers(0, 1)))).data)
    for invocations in model_inputs(graph, 0):
        for wanted, actual in zip(interp.run(graph, invocations[0])[0], artifact.run(invocations[0]), strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_every_rewrite_of_the_pipeline_fires() -> None:
    fired: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        graph = parse(random_program(data))
        manager = PassManager()
        try:
            manager.run(graph, graph_pipeline(1))
        except (MayOverflow, Problems):
            fired["rejected"] += 1
        for done in manager.runs:
            fired.update(f"{done.pass_.name}: {label}" for label in done.fired)

    run()
    missing = REWRITES - set(fired)
    assert not missing, fired


REWRITES = {
    "canonicalize: operand order",
    "canonicalize: relu of relu",
    "const-fold: operator on constants",
    "cse: equal constant",
    "cse: equal node",
    "dce: dead node",
    "fuse: bias",
    "fuse: relu",
    "rejected",
}


FOUND = {
    "i32 inputs are narrow without any sum": "input x: i32[1]\nlet y = relu(relu(x))\noutput y",
}
"""Shrunk counter-examples, kept as cases."""


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
def test_what_once_failed(text: str) -> None:
    graph = parse(text)
    ranges = analyze_ranges(graph)
    for (inputs,) in model_inputs(graph, 0):
        arrays = all_arrays(graph, inputs)
        for node in graph.nodes:
            low, high = int(arrays[id(node.output)].min()), int(arrays[id(node.output)].max())
            assert ranges.interval(node.output).lo <= low and high <= ranges.interval(node.output).hi
    PassManager([VerifyEach()]).run(graph, graph_pipeline(1))
    again = PassManager()
    again.run(graph, graph_pipeline(1))
    assert not any(run.changed for run in again.runs)
