"""Registers: code means the same after allocation, and no more than must be is spilled."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st

from trivet.backends.gpu.emit import compile_kernel
from trivet.backends.gpu.flatten import flatten
from trivet.backends.gpu.ir import GID, TID, Binary, For, Kernel, Load, Set, Statement, Store, Value, Var
from trivet.backends.gpu.ir_interp import interpret
from trivet.backends.gpu.ir_verify import violations
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.liveness import intervals
from trivet.backends.gpu.regalloc import allocate, fewest_spills
from trivet.backends.gpu.simulate import Launch, simulate
from trivet.backends.gpu.webs import renumbered

SPECIALS = (Var("bid"), TID, GID)


def random_kernel(rng: np.random.Generator, values: int, loop: bool = False) -> Kernel:
    """Loads `values` words and then combines them in random order: up to so many are alive at once."""
    body: list[Statement] = [Binary(Opcode.ADD, Var("base"), GID, 0)]
    alive = []
    for i in range(values):
        address = Var(f"at{i}")
        body += [Binary(Opcode.MUL, address, TID, i % 3 + 1), Load(Var(f"v{i}"), address)]
        alive.append(Var(f"v{i}"))
    inner: list[Statement] = []
    total = Var("total")
    body.append(Set(total, 0))
    while alive:
        pick = int(rng.integers(len(alive)))
        operand = alive[pick]
        if rng.integers(3):
            alive.pop(pick)
        scale: Value = int(rng.integers(-3, 4))
        term = Var(f"s{len(inner)}")
        inner += [Binary(Opcode.MUL, term, operand, scale), Binary(Opcode.ADD, total, total, term)]
    body += [For(Var("k"), 0, 3, 1, 3, tuple(inner))] if loop else inner
    out = Var("out")
    body += [Binary(Opcode.ADD, out, Var("base"), 100), Store(out, total)]
    return Kernel("random", 2, 4, tuple(body))


def check_runs(kernel: Kernel) -> None:
    """What the machine leaves in memory is what the kernel says."""
    assert not list(violations(kernel))
    memory = np.random.default_rng(1).integers(-50, 50, 128)
    expected = memory.copy()
    interpret(kernel, expected)
    made = compile_kernel(kernel, MACHINE)
    assert made.program.registers <= 8
    simulate(Launch(made.program, kernel.grid, kernel.block, (), made.shared_words), memory, MACHINE, check_races=True)
    assert np.array_equal(memory, expected)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.integers(1, 30), st.booleans())
def test_random_kernels_mean_the_same_in_eight_registers(seed: int, values: int, loop: bool) -> None:
    check_runs(random_kernel(np.random.default_rng(seed), values, loop))


def test_spills_are_at_most_one_above_the_bound() -> None:
    """On straight kernels with up to 30 values alive; the bound lets what is taken out need no register at all."""
    above = []
    for seed in range(0, 60, 4):
        kernel = random_kernel(np.random.default_rng(seed), 1 + seed % 30)
        code = flatten(kernel)
        taken = allocate(kernel, code, 8)
        bound = fewest_spills(intervals(renumbered(code), SPECIALS), 8, pinned=frozenset({TID}))
        above.append(len(taken.spilled) + len(taken.recomputed) - bound)
    assert max(above) <= 1


def test_constants_are_put_into_instructions_where_registers_are_short() -> None:
    names = [Var(f"c{i}") for i in range(12)]
    body: list[Statement] = [Set(name, 7 * i) for i, name in enumerate(names)]
    total = Var("total")
    body.append(Set(total, 0))
    body += [Binary(Opcode.ADD, total, total, name) for name in names]
    kernel = Kernel("constants", 1, 2, (*body, Store(TID, total)))
    taken = allocate(kernel, flatten(kernel), 8)
    assert not taken.spilled and taken.recomputed
    check_runs(kernel)


def test_sums_of_ids_are_computed_again_where_registers_are_short() -> None:
    names = [Var(f"a{i}") for i in range(12)]
    body: list[Statement] = [Binary(Opcode.ADD, name, TID, i) for i, name in enumerate(names)]
    total = Var("total")
    body.append(Set(total, 0))
    body += [Binary(Opcode.ADD, total, total, name) for name in names]
    kernel = Kernel("sums", 1, 2, (*body, Store(TID, total)))
    taken = allocate(kernel, flatten(kernel), 8)
    assert not taken.spilled and taken.recomputed
    check_runs(kernel)


@pytest.mark.parametrize("block", [1, 3])
def test_spilled_words_of_threads_lie_apart(block: int) -> None:
    kernel = random_kernel(np.random.default_rng(5), 20)
    wide = Kernel("wide", 2, block, kernel.body)
    assert compile_kernel(wide, MACHINE).shared_words > 0
    check_runs(wide)
