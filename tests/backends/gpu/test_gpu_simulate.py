"""The machine: what instructions do, how threads part and join, and where it stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from public_machine import run_on_public_machine

from trivet.backends.gpu.asm import assemble
from trivet.backends.gpu.counts import Counts
from trivet.backends.gpu.machine import read_machine
from trivet.backends.gpu.simulate import Launch, Trap, simulate
from trivet.core import fixedpoint
from trivet.errors import InvalidModel

COUNT_DOWN = """
    SET R0, R7          ; every thread loops as often as its number says
loop:
    BEQ R0, 0, done
    ADD R0, R0, -1
    ADD R1, R1, 2
    JMP loop
done:
    ST R7, R1
"""

BLOCK_SUM = """
    LD R0, R7
    SHST R6, R0
    SYNCB
    BNE R6, 0, end
    SET R1, 0
    SET R2, 0
next:
    SHLD R3, R2
    ADD R1, R1, R3
    ADD R2, R2, 1
    BNE R2, 4, next
    ADD R4, R5, 32
    ST R4, R1
end:
"""

SORT = """
    MUL R0, R7, 2
    SET R4, 0
phase:
    ADD R1, R0, 1
    CSWAP R0, R1
    SYNC
    ADD R2, R0, 1
    ADD R3, R0, 2
    BEQ R7, 7, last
    CSWAP R2, R3
last:
    SYNC
    ADD R4, R4, 1
    BNE R4, 8, phase
"""

COMPARE = """
    CMP R7, 3
    BRLT less
    BRZ same
    ST R7, 100
    JMP end
less:
    ST R7, -1
    JMP end
same:
    ST R7, 0
end:
"""


MACHINE = replace(read_machine(), cycle_limit=10_000)


def words(*values: int, size: int = 64) -> NDArray[np.int64]:
    memory = np.zeros(size, np.int64)
    memory[: len(values)] = values
    return memory


def run(
    text: str, memory: NDArray[np.int64], grid: int = 1, block: int = 8, shared: int = 8, **options: bool
) -> Counts:
    program = assemble(text, "kernel.tgpu", extended=True)
    return simulate(Launch(program, grid, block, (), shared), memory, MACHINE, **options)


def test_threads_leave_a_loop_one_after_the_other() -> None:
    memory = words()
    counts = run(COUNT_DOWN, memory)
    assert memory[:8].tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert counts.divergences == 7
    assert counts.instructions == 8 * 3 + sum(4 * n for n in range(8))


def test_a_block_sums_what_its_threads_share() -> None:
    memory = words(*range(8))
    counts = run(BLOCK_SUM, memory, grid=2, block=4, shared=4, check_races=True)
    assert memory[32:34].tolist() == [6, 22]
    assert (counts.barriers, counts.shared_stores, counts.shared_loads) == (8, 8, 8)


def test_swaps_between_barriers_sort() -> None:
    values = [5, 3, 9, -1, 7, 7, 0, 2, 11, -4, 6, 1, 8, 4, 10, -9]
    memory = words(*values)
    run(SORT, memory, check_races=True)
    assert memory[:16].tolist() == sorted(values)


@pytest.mark.parametrize(
    ("text", "grid", "block"), [(COUNT_DOWN, 2, 4), (BLOCK_SUM, 2, 4), (SORT, 1, 8), (SORT, 2, 4), (COMPARE, 1, 8)]
)
def test_memory_is_that_of_the_public_machine(text: str, grid: int, block: int, tmp_path: Path) -> None:
    memory = np.random.default_rng(1).integers(-100, 100, 64)
    launch = Launch(assemble(text), grid, block, (), 8)
    expected = run_on_public_machine(launch, memory, tmp_path)
    simulate(launch, memory)
    assert np.array_equal(memory, expected)


def test_a_jump_to_itself_falls_through() -> None:
    memory = words()
    run("stop:\nJMP stop\nST R7, 1", memory)
    assert memory[:8].tolist() == [1] * 8


def test_jumps_through_registers_go_where_each_thread_says() -> None:
    memory = words()
    run("ADD R0, R6, 2\nJMP R0\nST R7, 10\nADD R7, R7, 8\nST R7, 20", memory, block=3)
    assert memory[:12].tolist() == [10, 0, 20, 0, 0, 0, 0, 0, 20, 20, 0, 0]


@pytest.mark.parametrize(
    ("text", "reason", "pc"),
    [
        ("SET R0, 2000000000\nADD R0, R0, R0", "the sum 4000000000 does not fit 32 bits", 1),
        ("MUL R0, R7, 1000000000", "the product 3000000000 does not fit 32 bits", 0),
        ("MUL R0, R7, 200000000\nADD R0, R0, R0", "the sum 2400000000 does not fit 32 bits", 1),
        ("ADD R1, R7, 57\nLD R0, R1", "address 64 is outside memory", 1),
        ("ADD R1, R7, 57\nST R1, R0", "address 64 is outside memory", 1),
        ("LD R0, 64", "address 64 is outside memory, which has 64 words", 0),
        ("SET R1, -1\nST R1, 0", "address -1 is outside memory", 1),
        ("ADD R1, R7, 60\nLD R0, R1", "address 64 is outside memory", 1),
        ("BEQ R7, 0, other\nSYNCB\nJMP end\nother:\nSYNCB\nend:", "barrier divergence", 3),
        ("BEQ R7, 0, other\nSYNC\nJMP end\nother:\nSYNCB\nend:", "barrier divergence", 3),
        ("loop:\nADD R0, R0, 0\nJMP loop", "the program does not end", 1),
        ("SHL R0, 1, 32", "a shift by 32", 0),
    ],
)
def test_traps_name_the_instruction(text: str, reason: str, pc: int) -> None:
    with pytest.raises(Trap) as caught:
        run(text, words())
    assert reason in str(caught.value)
    assert f"pc {pc} (kernel.tgpu:" in str(caught.value)
    assert caught.value.pc == pc


def test_shared_addresses_outside_read_zero_and_store_nothing() -> None:
    memory = words()
    run("SHST R6, 5\nSYNCB\nADD R0, R6, 1\nSHLD R1, R0\nST R7, R1", memory, block=4, shared=2)
    assert memory[:4].tolist() == [5, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ST 3, R7", "race on address 3"),
        ("LD R0, 5\nBNE R7, 2, end\nST 5, 1\nend:", "reads at pc 0 (kernel.tgpu:1: LD R0, 5)"),
        ("SHST R6, 1\nADD R0, R6, -1\nSHLD R1, R0", "race on shared address 0"),
        ("ST R7, 1\nSYNCB\nBNE R7, 0, end\nLD R0, 7\nend:", "thread 7 writes at pc 0"),
        ("LD R0, 9\nSYNCB\nBNE R7, 0, end\nST 9, 1\nend:", "reads at pc 0 (kernel.tgpu:1: LD R0, 9)"),
    ],
)
def test_races_are_named_with_both_instructions(text: str, shown: str) -> None:
    with pytest.raises(Trap) as caught:
        run(text, words(), grid=2, block=4, check_races=True)
    assert shown in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ST R7, 1\nSYNC\nLD R0, 0",
        "SHST R6, 1\nSYNCB\nSHLD R0, 0\nSYNCB\nSHST R6, 2",
        "LD R0, 9\nSYNC\nBNE R7, 0, end\nST 9, 1\nend:",
        "LD R0, R7\nADD R0, R0, 1\nST R7, R0",
    ],
)
def test_ordered_accesses_are_no_races(text: str) -> None:
    run(text, words(), grid=2, block=4, check_races=True)


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        (Launch(assemble("ST R7, 1"), 2, 1000), "a launch has 1 to 1024 threads"),
        (Launch(assemble("ST R7, 1"), 0, 8), "a launch has 1 to 1024 threads"),
        (Launch(assemble("ST R7, 1"), 1, 8, (), 1 << 20), "a block has at most"),
        (Launch(assemble("ST R9, 1", registers=16), 1, 8), "the program needs 10 registers"),
        (Launch(assemble("ST R7, 1"), 1, 8, (1 << 40,)), "an argument does not fit 32 bits"),
    ],
)
def test_launches_that_do_not_fit_the_machine_are_refused(launch: Launch, reason: str) -> None:
    with pytest.raises(InvalidModel, match=reason):
        simulate(launch, words())


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 31))
def test_extended_arithmetic_is_that_of_the_contracts(a: int, b: int, shift: int) -> None:
    memory = words(a, b)
    run(
        f"LD R0, 0\nLD R1, 1\nMULH R2, R0, R1\nST 2, R2\nSHRN R2, R0, {shift}\nST 3, R2\n"
        f"SHR R2, R0, {shift}\nST 4, R2\nMIN R2, R0, R1\nST 5, R2\nMAX R2, R0, R1\nST 6, R2",
        memory,
        block=1,
    )
    expected = [fixedpoint.srdhm(a, b), fixedpoint.rdbp(a, shift), a >> shift, min(a, b), max(a, b)]
    assert memory[2:7].tolist() == [int(value) for value in expected]


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=4, max_size=4), st.integers(0, 31))
def test_extended_arithmetic_is_the_same_for_many_threads(values: list[int], shift: int) -> None:
    memory = words(*values)
    run(f"LD R0, R7\nSHRN R1, R0, {shift}\nMULH R2, R0, R1\nADD R3, R7, 8\nST R3, R2", memory, block=4)
    expected = fixedpoint.srdhm(values, fixedpoint.rdbp(values, shift))
    assert memory[8:12].tolist() == expected.tolist()


def test_halves_go_away_from_zero_in_a_rounding_shift() -> None:
    memory = words(-3, -1, 1, 3)
    run("LD R0, R7\nSHRN R1, R0, 1\nADD R3, R7, 8\nST R3, R1\nSHRN R2, -5, 1\nST 20, R2", memory, block=4)
    assert memory[8:12].tolist() == [-2, -1, 1, 2]
    assert memory[20] == -3


def test_threads_that_meet_again_stand_in_their_order() -> None:
    """Of several threads that store to one word the last one wins, whoever came last."""
    memory = words()
    run("BEQ R7, 7, last\nADD R0, R0, 1\nADD R0, R0, 1\nlast:\nST 5, R7", memory)
    assert memory[5] == 7
    memory = words()
    run("BNE R7, 0, others\nADD R0, R0, 1\nothers:\nST 5, R7", memory)
    assert memory[5] == 7


OPS = st.sampled_from(["ADD R{d}, R{a}, R{b}", "ADD R{d}, R{a}, {i}", "MUL R{d}, R{a}, {s}", "SET R{d}, {i}"])
FORWARD = st.sampled_from(
    ["BEQ R{a}, R{b}, {t}", "BNE R{a}, {s}, {t}", "CMP R{a}, R{b}\nBRGT {t}", "CMP R{a}, 0\nBRLT {t}"]
)


@given(st.data())
def test_random_programs_end_as_on_the_public_machine(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Arithmetic and forward branches on values of threads; each thread stores its registers in words of its own."""
    size = data.draw(st.integers(3, 14))
    lines = []
    for index in range(size):
        lines.append(f"l{index}:")
        template = data.draw(FORWARD if index < size - 1 and data.draw(st.booleans()) else OPS)
        target = f"l{data.draw(st.integers(index + 1, size))}"
        d, a, b = (data.draw(st.integers(0, 7)) for _ in range(3))
        i, s = data.draw(st.integers(-9, 9)), data.draw(st.integers(-2, 2))
        lines.append(template.format(d=d % 5, a=a, b=b, i=i, s=s, t=target))
    lines.append(f"l{size}:")
    lines += ["ST R7, R0", "ADD R7, R7, 16", "ST R7, R1", "ADD R7, R7, 16", "ST R7, R4"]
    text = "\n".join(lines)
    launch = Launch(assemble(text), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)), (3, -2), 0)
    memory = words(size=64)
    expected = run_on_public_machine(launch, memory, tmp_path_factory.mktemp("public"))
    simulate(launch, memory)
    assert np.array_equal(memory, expected)


@given(st.data())
def test_random_phases_end_as_on_the_public_machine(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Between barriers each thread writes a word of its own, global or of its block, and reads another's of before."""
    grid, block = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    threads, lines = grid * block, ["SET R0, R7"]
    for phase in range(data.draw(st.integers(1, 4))):
        far, near = data.draw(st.integers(0, threads - 1)), data.draw(st.integers(0, block - 1))
        shared = data.draw(st.booleans())
        store, load = ("SHST R6, R0", f"SHLD R1, {near}") if shared else ("ST R7, R0", f"LD R1, {far}")
        wait = "SYNCB" if shared else "SYNC"
        skip = data.draw(st.integers(0, 3))
        lines += [store, wait, load, wait, f"BEQ R6, {skip}, end{phase}", "ADD R0, R0, R1", f"end{phase}:"]
    launch = Launch(assemble("\n".join([*lines, "ST R7, R0"])), grid, block, (), block)
    memory = words(*range(20, 20 + threads))
    expected = run_on_public_machine(launch, memory, tmp_path_factory.mktemp("public"))
    simulate(launch, memory, MACHINE, check_races=True)
    assert np.array_equal(memory, expected)
