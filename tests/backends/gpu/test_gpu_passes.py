"""Kernel passes: IR in, IR out; both compute the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.ir_interp import interpret
from trivet.backends.gpu.ir_text import parse_kernels, print_kernel
from trivet.backends.gpu.ir_verify import violations
from trivet.backends.gpu.machine import read_machine
from trivet.backends.gpu.passes.fold import Fold
from trivet.backends.gpu.passes.kernel_dce import KernelDce
from trivet.backends.gpu.passes.kernel_pass import KernelPass
from trivet.backends.gpu.passes.licm import Licm
from trivet.backends.gpu.passes.several_rows import of_several_blocks
from trivet.backends.gpu.passes.shared_tile import _Tiler
from trivet.backends.gpu.passes.sink import Sink
from trivet.backends.gpu.passes.strength_reduce import StrengthReduce
from trivet.backends.gpu.passes.unroll import Unroll

MACHINE = read_machine()


def parsed(body: str, head: str = "kernel k grid 2 block 4") -> Kernel:
    (kernel,) = parse_kernels(f"{head} {{\n{body}\n}}\n")
    assert not list(violations(kernel))
    return kernel


def after(kernel: Kernel) -> np.ndarray:
    memory = np.arange(100, 164, dtype=np.int64) % 23
    interpret(kernel, memory)
    return memory


def body_of(kernel: Kernel) -> str:
    return "\n".join(line.strip() for line in print_kernel(kernel).splitlines()[1:-1])


CASES: list[tuple[str, KernelPass, str, str]] = [
    (
        "what a loop does not change stands before it",
        Licm(),
        "for k = 0 to 3 step 1 times 3 {\nt = mul bid, 8\nu = add t, k\nstore [u] k\n}",
        "t = mul bid, 8\nfor k = 0 to 3 step 1 times 3 inverted {\nu = add t, k\nstore [u] k\n}",
    ),
    (
        "loads stay in the loop, and so does what is assigned twice",
        Licm(),
        "a = 0\nfor k = 0 to 3 step 1 times 3 inverted {\nb = load [0]\na = 2\nstore [gid] b\n}\nstore [gid] a",
        "a = 0\nfor k = 0 to 3 step 1 times 3 inverted {\nb = load [0]\na = 2\nstore [gid] b\n}\nstore [gid] a",
    ),
    (
        "a chain on the counter becomes a pointer, which counts",
        StrengthReduce(),
        "for k = 0 to 3 step 1 times 3 {\nt = mul k, 8\nu = add t, gid\nstore [u] 7\n}",
        "p = gid\nend = add p, 24\nfor p = p to end step 8 times 3 {\nstore [p] 7\n}",
    ),
    (
        "the counter stays where something else reads it",
        StrengthReduce(),
        "for k = 0 to 3 step 1 times 3 {\nt = mul k, 8\nu = add t, gid\nstore [u] k\n}",
        "p = gid\nfor k = 0 to 3 step 1 times 3 {\nstore [p] k\np = add p, 8\n}",
    ),
    (
        "one statement is no chain",
        StrengthReduce(),
        "for k = 0 to 3 step 1 times 3 {\nu = add k, gid\nstore [u] 7\n}",
        "for k = 0 to 3 step 1 times 3 {\nu = add k, gid\nstore [u] 7\n}",
    ),
    (
        "a chain that is read after the loop stays",
        StrengthReduce(),
        "for k = 0 to 3 step 1 times 3 {\nt = mul k, 8\nu = add t, gid\nstore [u] 7\n}\nstore [gid] u",
        "for k = 0 to 3 step 1 times 3 {\nt = mul k, 8\nu = add t, gid\nstore [u] 7\n}\nstore [gid] u",
    ),
    (
        "short loops are unrolled in full, values of a turn apart",
        Unroll(),
        "a = 0\nfor k = 4 to 6 step 1 times 2 {\nb = load [k]\na = add a, b\n}\nstore [gid] a",
        "a = 0\nk = 4\nb = load [k]\na = add a, b\nk.1 = add k, 1\nb.1 = load [k.1]\na = add a, b.1\nstore [gid] a",
    ),
    (
        "long loops are unrolled by their largest divisor up to 16",
        Unroll(),
        "for k = 0 to 34 step 1 times 34 {\nstore [k] gid\n}",
        "for k = 0 to 34 step 2 times 17 {\nstore [k] gid\nk.1 = add k, 1\nstore [k.1] gid\n}",
    ),
    (
        "constants, sums and copies are known",
        Fold(),
        "a = mul 2, 8\nb = add a, gid\nc = add b, 4\nd = c\nstore [d] a",
        "a = 16\nb = add 16, gid\nc = add gid, 20\nd = c\nstore [c] 16",
    ),
    (
        "a row's number times its length and the column is the thread's number",
        Fold(),
        "a = mul bid, 4\nb = add a, tid\nc = add b, 8\nstore [c] 1",
        "a = mul bid, 4\nb = gid\nc = add gid, 8\nstore [c] 1",
    ),
    (
        "what an instruction cannot hold stays in two",
        Fold(),
        "a = sub -9, gid\nb = add a, 2147483647\nc = add b, 4\nstore [gid] c\n"
        "d = min gid, 0\ne = mul d, 65536\nf = mul e, 65536\nstore [gid] f",
        "a = sub -9, gid\nb = add a, 2147483647\nc = add b, 4\nstore [gid] c\n"
        "d = min gid, 0\ne = mul d, 65536\nf = mul e, 65536\nstore [gid] f",
    ),
    (
        "what a loop changes is not known in it",
        Fold(),
        "a = 1\nfor k = 0 to 2 step 1 times 2 {\na = add a, 1\n}\nstore [gid] a",
        "a = 1\nfor k = 0 to 2 step 1 times 2 {\na = add a, 1\n}\nstore [gid] a",
    ),
    (
        "what a branch changes is not known after it",
        Fold(),
        "a = 1\nif gid < 2 {\na = 2\n}\nstore [gid] a",
        "a = 1\nif gid < 2 {\na = 2\n}\nstore [gid] a",
    ),
    (
        "what came of a value that has changed since is not put in terms of it",
        Fold(),
        "p = load [gid]\nb = add p, 1\np = load [3]\nc = add b, 2\nstore [gid] c\nd = add gid, 8\nstore [d] p",
        "p = load [gid]\nb = add p, 1\np = load [3]\nc = add b, 2\nstore [gid] c\nd = add gid, 8\nstore [d] p",
    ),
    (
        "what only updates itself goes",
        KernelDce(),
        "a = 0\nb = 0\nfor k = 0 to 2 step 1 times 2 {\na = add a, 1\nb = add b, 1\n}\nstore [gid] b",
        "b = 0\nfor k = 0 to 2 step 1 times 2 {\nb = add b, 1\n}\nstore [gid] b",
    ),
    (
        "loops and branches without effect go",
        KernelDce(),
        "for k = 0 to 2 step 1 times 2 {\na = add k, 1\n}\nif gid < 2 {\nb = 1\n}\nstore [gid] 1",
        "store [gid] 1",
    ),
    (
        "what the next turn reads stays",
        KernelDce(),
        "a = 5\nfor k = 0 to 2 step 1 times 2 {\nstore [gid] a\na = load [k]\n}",
        "a = 5\nfor k = 0 to 2 step 1 times 2 {\nstore [gid] a\na = load [k]\n}",
    ),
    (
        "arithmetic on one variable stands where it is needed",
        Sink(),
        "a = add gid, 8\nb = load [gid]\nc = load [a]\nd = add b, c\nstore [gid] d",
        "b = load [gid]\na = add gid, 8\nc = load [a]\nd = add b, c\nstore [gid] d",
    ),
    (
        "nothing sinks past a new value of its operand",
        Sink(),
        "a = load [gid]\nb = add a, 1\na = load [3]\nstore [gid] b\nc = add gid, 8\nstore [c] a",
        "a = load [gid]\nb = add a, 1\na = load [3]\nstore [gid] b\nc = add gid, 8\nstore [c] a",
    ),
]


@pytest.mark.parametrize(("kernel_pass", "before", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_pass_makes_this_of_that(kernel_pass: KernelPass, before: str, expected: str) -> None:
    kernel = parsed(before)
    made = kernel_pass.run(kernel, MACHINE, Counter())
    assert not list(violations(made))
    assert body_of(made) == body_of(parsed(expected))
    assert np.array_equal(after(made), after(kernel))


PRODUCT = """acc = 0
t = mul bid, 3
p = add t, 2
q = tid
end = add p, 3
for p = p to end step 1 times 3 inverted {
a = load [p]
b = load [q]
m = mul a, b
acc = add acc, m
q = add q, 4
}
t.1 = mul bid, 4
t.2 = add t.1, tid
t.3 = add t.2, 40
store [t.3] acc"""


@pytest.mark.parametrize("rows", [2, 4])
def test_several_blocks_in_one_compute_the_same(rows: int) -> None:
    kernel = parsed(PRODUCT, "kernel k grid 4 block 4")
    merged = of_several_blocks(kernel, rows)
    assert merged is not None and merged.grid == 4 // rows
    assert not list(violations(merged))
    assert print_kernel(merged).count("b = load [q]") == 1
    assert np.array_equal(after(merged), after(kernel))


def test_blocks_that_do_not_divide_or_ask_for_their_number_are_left_alone() -> None:
    assert of_several_blocks(parsed(PRODUCT, "kernel k grid 3 block 4"), 2) is None
    assert of_several_blocks(parsed("store [gid] 1"), 2) is None


@pytest.mark.parametrize("block", [2, 4])
def test_tiles_are_copied_by_all_threads_and_read_by_all(block: int) -> None:
    kernel = parsed(PRODUCT, f"kernel k grid 4 block {block}")
    tiled = _Tiler(kernel, MACHINE).run()
    assert tiled is not None and tiled.shared_words == 3
    assert not list(violations(tiled))
    text = print_kernel(tiled)
    assert "barrier" in text and "a = load shared" in text and "b = load [q]" in text
    assert np.array_equal(after(tiled), after(kernel))
