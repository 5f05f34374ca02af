"""`.tiny` programs on the machine: right at every level, no dearer at a higher one, the same on the public machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import expected, graph_of, product, program_of, random_inputs, run, run_publicly, same
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strategies.programs import random_program
from trivet import driver
from trivet.errors import CompileError

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "tiny").glob("*.tiny"))
RELU_BIAS = "relu(x @ w + b)"


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_on_the_public_machine(path: Path, level: int, tmp_path: Path) -> None:
    graph = driver.load(path).graph
    settings = driver.Settings(level=level, target="gpu")
    driver.optimize(graph, settings, legalize=driver.legalization(settings))
    program, inputs = program_of(graph, level), random_inputs(graph)
    assert not program.launches.extended
    assert all(c.program.registers <= 8 for c in program.compiled)
    assert same(run_publicly(program, inputs, tmp_path), expected(graph, inputs))


@settings(max_examples=20)
@given(st.data(), st.sampled_from([0, 1, 2]))
def test_random_programs_are_right_on_both_machines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, level: int
) -> None:
    text = random_program(data)
    try:
        graph = graph_of(text, level)
    except CompileError:
        assume(False)
    program, inputs = program_of(graph, level), random_inputs(graph, data.draw(st.integers(0, 3)))
    right = expected(graph, inputs)
    assert same(run(program, inputs, check_races=True)[0], right)
    assert same(run_publicly(program, inputs, tmp_path_factory.mktemp("public")), right)


@settings(max_examples=6)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40), st.sampled_from(["x @ w", "x @ w + b", RELU_BIAS]))
def test_products_of_any_size_are_right_and_get_cheaper_by_level(
    rows: int, inner: int, columns: int, tail: str
) -> None:
    graph = graph_of(product(rows, inner, columns, tail))
    inputs = random_inputs(graph)
    cycles = []
    for level in (0, 1, 2):
        outputs, counts = run(program_of(graph, level), inputs, check_races=True)
        assert same(outputs, expected(graph, inputs)), level
        cycles.append(counts.cycles)
    assert cycles[2] <= cycles[1] <= cycles[0]


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "tail"),
    [
        (4, 8, 16, RELU_BIAS),
        (1, 16, 12, RELU_BIAS),
        (8, 16, 8, "x @ w"),
        (3, 5, 7, "x @ w + b"),
        (8, 9, 64, "x @ w"),
        (16, 3, 4, RELU_BIAS),
        (4, 31, 31, RELU_BIAS),
        (4, 34, 32, "x @ w"),
        (1, 48, 10, "x @ w"),
        (5, 17, 3, "x @ w"),
    ],
)
def test_instructions_fall_by_half_or_to_six_tenths(rows: int, inner: int, columns: int, tail: str) -> None:
    graph = graph_of(product(rows, inner, columns, tail))
    inputs = random_inputs(graph)
    direct, best = (run(program_of(graph, level), inputs)[1] for level in (0, 2))
    assert best.instructions <= (0.5 if inner <= 16 else 0.6) * direct.instructions
    if best.shared_loads:
        assert best.loads * 4 <= direct.loads


def test_tiles_are_shared_where_that_gains() -> None:
    graph = graph_of(product(8, 16, 32))
    program = program_of(graph, 2)
    assert "SYNCB" in program.text()
    outputs, counts = run(program, random_inputs(graph), check_races=True)
    assert counts.shared_loads > 0
    assert same(outputs, expected(graph, random_inputs(graph)))


def test_a_turn_of_the_direct_loop_has_at_most_fourteen_instructions() -> None:
    """Twice as many turns, the same program: what is executed more is the turns."""
    counts = []
    for inner in (10, 20):
        graph = graph_of(product(1, inner, 1))
        counts.append(run(program_of(graph, 0), random_inputs(graph))[1].instructions)
    assert counts[1] - counts[0] <= 10 * 14


@pytest.mark.parametrize(("rows", "columns"), [(70, 40), (2, 1500), (1, 1031), (1200, 1)])
def test_operators_beyond_a_launch_are_split(rows: int, columns: int) -> None:
    text = (
        f"input x: i8[{rows}, {columns}]\nconst b: i32[{columns}] = random(seed=2)\nlet y = relu(x + b) + x\noutput y\n"
    )
    graph = graph_of(text)
    inputs = random_inputs(graph)
    for level in (0, 2):
        program = program_of(graph, level)
        assert len(program.launches.launches) > len(program.compiled)
        assert all(entry.grid * entry.block <= 1024 for entry in program.launches.launches)
        assert same(run(program, inputs, check_races=True)[0], expected(graph, inputs))
