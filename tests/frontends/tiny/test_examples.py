"""Every example: printed and read back, through every level, compiled and run, watched pass by pass, or rejected."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from normal_form import normal_form
from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.errors import CompileError, InvalidModel, Unsupported
from trivet.frontends.tiny.convert import parse
from trivet.frontends.tiny.printer import print_program
from trivet.ir.graph import Graph
from trivet.ir.text.parser import parse_graph
from trivet.ops import OP_BY_NAME
from trivet.passes.catalog import LEVELS
from trivet.passes.traces import model_inputs
from trivet.passes.verify_each import VerifyEach
from trivet.simulated import Simulated

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "tiny").glob("*.tiny"))
REJECTED = sorted((Path(__file__).parents[3] / "examples" / "tiny" / "rejected").glob("*.tiny"))


def name(path: Path) -> str:
    return path.stem


def load(path: Path) -> Graph:
    return driver.load(path).graph


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 12 and len(REJECTED) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_it_prints_as_a_program_that_reads_back_as_the_same_graph(path: Path) -> None:
    text = print_program(load(path))
    again = parse(text, str(path))
    assert normal_form(again) == normal_form(load(path))
    assert print_program(parse(text, str(path))) == text


def built(path: Path, target: str, level: int, directory: Path) -> Artifact | Simulated:
    """The example as an artifact of any backend that the driver knows, ready to run."""
    loaded = driver.load(path)
    if target == "plan":
        return Artifact(driver.build(loaded, driver.Settings(level=level)).data)
    emitted = driver.build_for_machine(loaded, driver.Settings(level=level, target=target))
    for suffix, data in emitted.files.items():
        (directory / f"made{suffix}").write_bytes(data)
    return Simulated(directory / f"made{next(iter(emitted.files))}")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", driver.BACKENDS)
@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_every_target_computes_what_the_oracle_does(path: Path, target: str, level: int, tmp_path: Path) -> None:
    graph = load(path)
    try:
        artifact = built(path, target, level, tmp_path)
    except CompileError as refusal:
        assert target != "plan" and f"{path}:" in str(refusal), "a machine says which operator it does not run"
        pytest.skip(str(refusal))
    for invocations in model_inputs(graph, 1):
        for arrays in invocations:
            expected, _ = interp.run(graph, arrays)
            for wanted, actual in zip(expected, artifact.run(arrays), strict=True):
                np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("target", driver.BACKENDS)
def test_every_target_takes_most_examples(target: str) -> None:
    settings = driver.Settings(target=target)
    refused = 0
    for path in EXAMPLES:
        try:
            driver.optimize(load(path), settings, legalize=driver.legalization(settings))
        except CompileError:
            refused += 1
    assert refused <= len(EXAMPLES) // 2


@pytest.mark.parametrize("target", driver.BACKENDS)
def test_every_target_refuses_an_input_outside_of_the_stated_range(target: str, tmp_path: Path) -> None:
    artifact = built(EXAMPLES[0].parent / "chain.tiny", target, 1, tmp_path)
    x = np.full(16, 1 << 20, np.int32)
    artifact.run([x])
    for value in ((1 << 20) + 1, -(1 << 20) - 1):
        x[5] = value
        with pytest.raises(InvalidModel, match=rf"'x' holds {value} at \[5\]"):
            artifact.run([x])


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_an_optimized_program_prints_as_one_that_computes_the_same(path: Path) -> None:
    graph, optimized = load(path), load(path)
    driver.optimize(optimized, driver.Settings())
    again = parse(print_program(optimized))
    for invocations in model_inputs(graph, 2):
        for arrays in invocations:
            for wanted, actual in zip(interp.run(graph, arrays)[0], interp.run(again, arrays)[0], strict=True):
                np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("target", driver.BACKENDS)
@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_watching_every_pass_takes_less_than_a_second(path: Path, target: str) -> None:
    settings = driver.Settings(target=target)
    start = time.process_time()
    try:
        if target == "plan":
            driver.optimize(load(path), settings, [VerifyEach()], driver.legalization(settings))
        else:
            driver.build_for_machine(driver.load(path), settings, [VerifyEach()])
    except CompileError as refusal:
        assert target != "plan", refusal
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize("path", REJECTED, ids=name)
def test_what_is_rejected_says_where_and_why(path: Path) -> None:
    wanted = path.read_text().splitlines()[0].removeprefix("# Rejected at ")
    with pytest.raises(CompileError) as caught:
        driver.build(driver.load(path), driver.Settings())
    shown = str(caught.value)
    assert shown.startswith(f"{path}:{wanted}") and "^" in shown
    with pytest.raises(CompileError):
        driver.build(driver.load(path), driver.Settings(level=0))


UNPRINTABLE = [
    "graph main(%x: f32[2]) { return %x }",
    "graph main(%x: i8[1, 2, 3]) { return %x }",
    "graph main(%x: i32[2]) { %y = sub(%x, %x) return %y }",
    "graph main(%x: i32[2]) { %y = add(%x, %x) return %y }",
    "graph main(%x: i32[2, 1], %z: i32[2]) { %y = add{overflow=exact}(%x, %z) return %y }",
]


@pytest.mark.parametrize("text", UNPRINTABLE)
def test_what_the_language_lacks_is_not_printed(text: str) -> None:
    with pytest.raises(Unsupported, match=r"a \.tiny program has no"):
        print_program(parse_graph(text, OP_BY_NAME))
