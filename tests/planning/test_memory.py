"""The address solvers: every placement is legal, none beats the bound, and none is worse than it promises."""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.planning.memory.exact import exact, solve
from trivet.planning.memory.first_fit import FirstFit
from trivet.planning.memory.greedy import greedy
from trivet.planning.memory.greedy_by_size import greedy_by_size
from trivet.planning.memory.hill_climb import hill_climb
from trivet.planning.memory.problem import Block, Placement, Problem, Spot, lower_bound
from trivet.planning.memory.validate import violations
from trivet.planning.plan import Overlap, Region

ARENA = Region("arena", None)
SOLVERS = [greedy, greedy_by_size, hill_climb, exact]


@st.composite
def problems(draw: st.DrawFn, max_blocks: int = 8, min_distance: int = -8) -> Problem:
    blocks = []
    for index in range(draw(st.integers(1, max_blocks))):
        birth = draw(st.integers(0, 5))
        alignment = draw(st.sampled_from([1, 4, 16]))
        blocks.append(Block(f"b{index}", draw(st.integers(0, 50)), birth, birth + draw(st.integers(0, 3)), alignment))
    pairs = st.tuples(st.integers(0, len(blocks) - 1), st.integers(0, len(blocks) - 1)).filter(lambda p: p[0] != p[1])
    overlaps = [Overlap(a, b, draw(st.integers(min_distance, 40))) for a, b in draw(st.lists(pairs, max_size=2))]
    return Problem(tuple(blocks), (ARENA,), tuple(overlaps))


@given(problems())
@pytest.mark.parametrize("solve", SOLVERS)
def test_placements_are_legal_and_not_below_the_bound(solve, problem: Problem) -> None:
    placement = solve(problem)
    assert violations(problem, placement) == []
    assert placement.peak(problem, "arena") >= lower_bound(problem)


@given(problems())
def test_hill_climbing_is_never_worse_than_greedy_and_repeats_itself(problem: Problem) -> None:
    found = hill_climb(problem)
    assert found.cost(problem) <= min(greedy(problem).cost(problem), greedy_by_size(problem).cost(problem))
    assert found == hill_climb(problem)


def test_an_allowed_overlap_is_used() -> None:
    blocks = (Block("input", 100, 0, 1), Block("output", 80, 1, 2))
    overlapping = Problem(blocks, (ARENA,), (Overlap(1, 0, 10),))
    assert greedy_by_size(Problem(blocks, (ARENA,))).peak(overlapping, "arena") == 180
    assert hill_climb(overlapping).peak(overlapping, "arena") == 110


def test_a_block_goes_to_the_next_region_when_the_first_is_full() -> None:
    regions = (Region("dtcm", 64), Region("sram", None))
    blocks = (Block("a", 60, 0, 1), Block("b", 50, 0, 1), Block("c", 4, 0, 1, regions=("sram",)))
    placement = greedy_by_size(Problem(blocks, regions))
    assert [spot.region for spot in placement.spots] == ["dtcm", "sram", "sram"]
    assert violations(Problem(blocks, regions), placement) == []


def test_a_pinned_block_stays_where_it_is() -> None:
    problem = Problem((Block("big", 64, 0, 1), Block("pinned", 8, 0, 1, fixed=Spot("arena", 32))), (ARENA,))
    placement = greedy(problem)
    assert placement.spots == (Spot("arena", 40), Spot("arena", 32))


def test_what_does_not_fit_is_told_in_bytes() -> None:
    problem = Problem((Block("a", 60, 0, 0), Block("b", 50, 0, 0)), (Region("arena", 100),))
    assert greedy(problem).excess(problem) == 10


TWO = Problem((Block("a", 16, 0, 1, 8), Block("b", 16, 1, 2)), (Region("arena", 64),))


@pytest.mark.parametrize(
    ("spots", "complaint"),
    [
        ((Spot("arena", 0), Spot("arena", 8)), "share 8 bytes"),
        ((Spot("arena", 4), Spot("arena", 32)), "not aligned"),
        ((Spot("arena", 0), Spot("arena", 56)), "leaves arena"),
        ((Spot("arena", 0), Spot("flash", 16)), "may not lie in flash"),
        ((Spot("arena", 0),), "1 addresses for 2 blocks"),
    ],
)
def test_the_validator_rejects(spots: tuple[Spot, ...], complaint: str) -> None:
    assert any(complaint in text for text in violations(TWO, Placement(spots)))


def test_the_validator_knows_how_far_an_overlap_goes() -> None:
    problem = replace(TWO, overlaps=(Overlap(0, 1, 8),))
    assert violations(problem, Placement((Spot("arena", 0), Spot("arena", 8)))) == []
    assert violations(problem, Placement((Spot("arena", 0), Spot("arena", 7)))) != []
    assert violations(problem, Placement((Spot("arena", 8), Spot("arena", 0)))) != []


@pytest.mark.parametrize("name", "ABCDEFGH")
def test_public_instances(shared: Path, name: str) -> None:
    with (shared / "data" / "minimalloc" / f"{name}.1048576.csv").open() as file:
        rows = list(csv.DictReader(file))
    blocks = tuple(Block(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in rows)
    problem = Problem(blocks, (ARENA,))
    placement = greedy_by_size(problem)
    assert violations(problem, placement) == []
    assert lower_bound(problem) <= 1 << 20 <= placement.peak(problem, "arena")
    assert violations(replace(problem, regions=(Region("arena", 1 << 20),)), placement) != []


def first_fit_in_all_orders(problem: Problem) -> int:
    fit = FirstFit(problem)
    orders = itertools.permutations(range(len(problem.blocks)))
    return min(fit.place(order).peak(problem, "arena") for order in orders)


@given(problems())
def test_the_exact_solver_is_between_hill_climbing_and_its_bound(problem: Problem) -> None:
    found = solve(problem)
    assert violations(problem, found.placement) == []
    assert lower_bound(problem) <= found.lower_bound <= found.peak_bytes
    assert found.peak_bytes <= hill_climb(problem).peak(problem, "arena")


@given(problems(max_blocks=6, min_distance=0))
def test_the_exact_solver_equals_all_orders(problem: Problem) -> None:
    found = solve(problem, node_limit=100_000)
    assert found.proved
    assert found.peak_bytes == first_fit_in_all_orders(problem)
