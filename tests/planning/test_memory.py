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
from trivet.planning.memory.native import NativeSearch
from trivet.planning.memory.portfolio import search
from trivet.planning.memory.problem import Block, Placement, Problem, Spot, lower_bound, sections
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


def public_instance(shared: Path, name: str) -> Problem:
    with (shared / "data" / "minimalloc" / f"{name}.1048576.csv").open() as file:
        rows = list(csv.DictReader(file))
    return Problem(tuple(Block(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in rows), (ARENA,))


@pytest.mark.parametrize("name", "ABCDEFGH")
def test_first_fit_by_size_does_not_solve_public_instances(shared: Path, name: str) -> None:
    problem = public_instance(shared, name)
    placement = greedy_by_size(problem)
    assert violations(problem, placement) == []
    assert lower_bound(problem) <= 1 << 20 <= placement.peak(problem, "arena")
    assert violations(replace(problem, regions=(Region("arena", 1 << 20),)), placement) != []


def first_fit_in_all_orders(problem: Problem) -> int:
    fit = FirstFit(problem)
    orders = itertools.permutations(range(len(problem.blocks)))
    return min(fit.place(order).peak(problem, "arena") for order in orders)


@given(problems())
@pytest.mark.parametrize("in_c", [True, False])
def test_the_exact_solver_is_between_hill_climbing_and_its_bound(in_c: bool, problem: Problem) -> None:
    found = solve(problem, in_c=in_c)
    assert violations(problem, found.placement) == []
    assert lower_bound(problem) <= found.lower_bound <= found.peak_bytes
    assert found.peak_bytes <= hill_climb(problem).peak(problem, "arena")


@given(problems(max_blocks=6, min_distance=0))
@pytest.mark.parametrize("in_c", [True, False])
def test_the_exact_solver_equals_all_orders(in_c: bool, problem: Problem) -> None:
    found = solve(problem, 100_000, in_c)
    assert found.proved
    assert found.peak_bytes == first_fit_in_all_orders(problem)


def best_in_all_orders_below(problem: Problem, capacity: int) -> Placement | None:
    """First fit in every order of the blocks, which finds a placement that fits iff there is one."""
    fit = FirstFit(problem)
    placements = (fit.place(order) for order in itertools.permutations(range(len(problem.blocks))))
    return next((p for p in placements if p.peak(problem, "arena") <= capacity), None)


@given(problems(max_blocks=6, min_distance=0), st.integers(0, 160))
def test_the_search_in_c_finds_what_there_is_and_proves_what_there_is_not(problem: Problem, capacity: int) -> None:
    found = search(NativeSearch(problem), capacity, 100_000)
    fits = best_in_all_orders_below(problem, capacity) is not None
    assert (found.placement is not None, found.is_impossible) == (fits, not fits)
    if found.placement is not None:
        assert violations(problem, found.placement) == []
        assert found.placement.peak(problem, "arena") <= capacity


@given(problems(max_blocks=6, min_distance=0), st.data())
def test_pinned_blocks_stay_and_the_rest_is_placed_around_them(problem: Problem, data: st.DataObject) -> None:
    """Blocks are pinned to where a placement has them: the optimum with pins cannot be above that placement's peak."""
    seen = FirstFit(problem).place(data.draw(st.permutations(range(len(problem.blocks)))))
    pinned = data.draw(st.sets(st.integers(0, len(problem.blocks) - 1), max_size=2))
    blocks = tuple(replace(b, fixed=seen.spots[i]) if i in pinned else b for i, b in enumerate(problem.blocks))
    held = replace(problem, blocks=blocks)
    capacity = seen.peak(problem, "arena")
    found = search(NativeSearch(held), capacity, 100_000)
    assert found.placement is not None and violations(held, found.placement) == []
    assert found.placement.peak(held, "arena") <= capacity


def test_the_search_in_c_repeats_itself_and_counts_its_nodes(shared: Path) -> None:
    native = NativeSearch(public_instance(shared, "F"))
    first, second = (search(native, 1 << 20, 100_000) for _ in range(2))
    assert first == second and first.placement is not None
    assert search(native, 1 << 20, first.nodes // 2).placement is None


@pytest.mark.parametrize("name", "BCFG")
def test_public_instances_are_solved(shared: Path, name: str) -> None:
    problem = public_instance(shared, name)
    found = search(NativeSearch(problem), 1 << 20, 200_000)
    assert found.placement is not None
    assert violations(replace(problem, regions=(Region("arena", 1 << 20),)), found.placement) == []


def test_sections_are_the_moments_at_which_most_is_in_use() -> None:
    lives = {"a": (0, 9), "b": (0, 2), "c": (2, 4), "d": (5, 6), "e": (6, 9)}
    blocks = [Block(name, 1, *life) for name, life in lives.items()]
    assert [(s.start, s.stop) for s in sections(blocks)] == [(0, 2), (0, 1), (0, 1), (1, 2), (1, 2)]
