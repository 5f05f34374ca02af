"""A fault in any stage is found, and the stage named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from compiled import product

from trivet import driver
from trivet.backends.gpu import pipeline, regalloc
from trivet.backends.gpu.ir import Body, Kernel, Set, Statement, Var
from trivet.backends.gpu.kernels import matmul
from trivet.backends.gpu.liveness import Interval
from trivet.backends.gpu.passes import (
    coarsen,
    fold,
    kernel_dce,
    licm,
    outlook,
    shared_tile,
    sink,
    strength_reduce,
    unroll,
)
from trivet.frontends.options import Loaded
from trivet.frontends.tiny.convert import parse
from trivet.passes.manager import PassVerifyError
from trivet.passes.verify_each import VerifyEach

Patch = pytest.MonkeyPatch


def compile_verified(text: str, level: int = 2) -> None:
    settings = driver.Settings(level=level, target="gpu")
    driver.build_for_machine(Loaded(parse(text)), settings, [VerifyEach()])


def no_relu(patch: Patch) -> None:
    patch.setattr(matmul, "relu", lambda out, value: None)


def hoists_what_the_loop_changes(patch: Patch) -> None:
    patch.setattr(licm, "assigned", lambda body: set())


def pointers_move_too_far(patch: Patch) -> None:
    def bump(pointer: tuple[Var, int]) -> Statement:
        return right((pointer[0], pointer[1] + 1))

    right = strength_reduce._bump
    patch.setattr(strength_reduce, "_bump", bump)


def no_barrier(patch: Patch) -> None:
    patch.setattr(shared_tile, "Barrier", lambda: Set(Var("nothing"), 0))


def copies_a_word_less(patch: Patch) -> None:
    right = shared_tile._Tiler._copy
    patch.setattr(shared_tile._Tiler, "_copy", lambda self, words, tiles: right(self, words - 1, tiles))


def rows_are_forgotten(patch: Patch) -> None:
    def half(kernel: Kernel, count: int) -> Kernel | None:
        return replace(kernel, grid=kernel.grid // count) if kernel.grid % count == 0 else None

    patch.setattr(coarsen, "of_several_blocks", half)


def copies_share_a_counter(patch: Patch) -> None:
    def only_locals(body: Body, names: dict[Var, Var]) -> Body:
        return right(body, {old: new for old, new in names.items() if old.name[0] not in "kp"})

    right = unroll.renamed
    patch.setattr(unroll, "renamed", only_locals)


def facts_outlive_assignments(patch: Patch) -> None:
    patch.setattr(fold, "_forget", lambda changed, facts: None)


def turns_forget_the_next_turn(patch: Patch) -> None:
    right = kernel_dce._alive
    patch.setattr(kernel_dce, "_loop", lambda loop, live: replace(loop, body=right(loop.body, live)))


def everything_sinks_to_the_end(patch: Patch) -> None:
    patch.setattr(sink, "_touched", lambda statement: (set(), set()))


def intervals_end_early(patch: Patch) -> None:
    def shorter(*arguments: object) -> dict[Var, Interval]:
        found = right(*arguments)  # type: ignore[arg-type]
        return {var: Interval(i.start, max(i.start, i.end - 3)) for var, i in found.items()}

    right = regalloc.intervals
    patch.setattr(regalloc, "intervals", shorter)


def an_empty_kernel_is_cheapest(patch: Patch) -> None:
    right = pipeline._run

    def run(*arguments: object) -> object:
        program = right(*arguments)  # type: ignore[arg-type]
        shown = arguments[-1] is True
        return program if shown else replace(program, kernels=tuple(replace(k, body=()) for k in program.kernels))

    patch.setattr(pipeline, "_run", run)


def unrolling_fails(patch: Patch) -> None:
    def fail(*arguments: object) -> None:
        raise IndexError("planted")

    outlook.outlook.cache_clear()
    patch.setattr(unroll, "renamed", fail)


def hoisting_fails(patch: Patch) -> None:
    patch.setattr(licm, "assigned", None)


SHORT, EVEN = product(6, 3, 5, "relu(x @ w + b)"), product(6, 3, 4, "relu(x @ w + b)")
TILED, LONG = product(8, 5, 32), product(4, 34, 3)

FAULTS: list[tuple[str, Callable[[Patch], None], str, int]] = [
    ("lower-to-kernel", no_relu, SHORT, 1),
    ("licm", hoists_what_the_loop_changes, SHORT, 1),
    ("strength-reduce", pointers_move_too_far, SHORT, 1),
    ("shared-tile", no_barrier, TILED, 2),
    ("shared-tile", copies_a_word_less, TILED, 2),
    ("coarsen", rows_are_forgotten, EVEN, 2),
    ("unroll", copies_share_a_counter, LONG, 2),
    ("unroll", unrolling_fails, SHORT, 2),
    ("licm", hoisting_fails, SHORT, 2),
    ("fold", facts_outlive_assignments, SHORT, 2),
    ("kernel-dce", turns_forget_the_next_turn, SHORT, 1),
    ("sink", everything_sinks_to_the_end, SHORT, 2),
    ("keep-cheapest", an_empty_kernel_is_cheapest, SHORT, 2),
    ("regalloc-emit", intervals_end_early, SHORT, 0),
]


@pytest.mark.parametrize(
    ("stage", "plant", "text", "level"), FAULTS, ids=[f"{s}-{p.__name__}" for s, p, _, _ in FAULTS]
)
def test_a_fault_is_named(
    stage: str, plant: Callable[[Patch], None], text: str, level: int, monkeypatch: Patch
) -> None:
    compile_verified(text, level)
    plant(monkeypatch)
    with pytest.raises(PassVerifyError) as caught:
        compile_verified(text, level)
    assert caught.value.pass_name == stage


def test_every_stage_has_a_fault() -> None:
    assert {stage for stage, *_ in FAULTS} == set(pipeline.STAGES)
