"""Kernel IR: its text, its rules, its meaning, and how it is flattened."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.backends.gpu.asm import disassemble
from trivet.backends.gpu.emit import compile_kernel
from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.ir_interp import interpret
from trivet.backends.gpu.ir_text import parse_kernels, print_kernel
from trivet.backends.gpu.ir_verify import violations
from trivet.backends.gpu.machine import read_machine
from trivet.errors import InvalidModel

EVERYTHING = """kernel every grid 2 block 4 shared 8 launch (first, second) with (0, 1) (64, -3) {
  a = 5
  b = add tid, first
  for k = 0 to 6 step 2 times 3 {
    c = load [b]
    store shared [tid] c
    barrier
    d = load shared [0]
    if c <= d {
      a = mul a, -1
    } else {
      if gid != 3 {
        a = shrn c, 2
      }
    }
  }
  for p = p.0 to end step 1 times 4 inverted {
    store [p] a
  }
}
"""


def kernel_of(body: str, grid: int = 1, block: int = 4, shared: int = 4) -> Kernel:
    (kernel,) = parse_kernels(f"kernel k grid {grid} block {block} shared {shared} {{\n{body}\n}}\n")
    return kernel


def test_text_round_trips() -> None:
    (kernel,) = parse_kernels(EVERYTHING)
    assert print_kernel(kernel) == EVERYTHING
    assert parse_kernels(print_kernel(kernel)) == [kernel]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kernel k grid 1 block 1 {\n  a = frob 1, 2\n}", "frob is no operation"),
        ("kernel k grid 1 block 1 {\n  what\n}", "is no statement"),
        ("kernel k grid 1 block 1 {\n", "ends inside a kernel"),
        ("kernel k {\n}", "expected `kernel NAME grid N block N"),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidModel, match=reason) as caught:
        parse_kernels(text, "k.kir")
    assert "k.kir:" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("a = b", "b may not be assigned yet"),
        ("if tid < 2 {\na = 1\n}\nb = a", "a may not be assigned yet"),
        ("tid = 1", "tid is assigned"),
        ("a = 3000000000", "does not fit 32 bits"),
        ("for k = 0 to 3 step 2 times 2 {\n}", "it does not end after 2 turns"),
        ("for k = 0 to 0 step 1 times 0 {\n}", "a loop runs at least once"),
        ("for k = 0 to 2 step 1 times 2 {\nk = 7\n}", "its counter or its end is assigned inside it"),
        ("if tid < 2 {\nbarrier\n}", "a barrier where threads of a block may part"),
        ("a = load [tid]\nif a < 2 {\nbarrier\n}", "a barrier where threads of a block may part"),
    ],
)
def test_rules_are_checked(body: str, rule: str) -> None:
    assert any(rule in sentence for sentence in violations(kernel_of(body)))


@pytest.mark.parametrize("body", ["if bid < 2 {\nbarrier\n}", "if tid < 2 {\na = 1\n} else {\na = 2\n}\nb = a"])
def test_what_keeps_the_rules_is_accepted(body: str) -> None:
    assert not list(violations(kernel_of(body)))


def test_threads_of_a_block_share_words_after_a_barrier() -> None:
    memory = np.arange(16, dtype=np.int64)
    body = "a = load [gid]\nstore shared [tid] a\nbarrier\nb = load shared [0]\nat = add gid, 8\nstore [at] b"
    interpret(kernel_of(body, grid=2), memory)
    assert memory[8:].tolist() == [0, 0, 0, 0, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("store shared [tid] 1\na = load shared [0]", "no barrier since another thread wrote it"),
        ("a = load shared [0]\nstore shared [tid] 1", "no barrier since another was there"),
        ("store shared [0] tid", "two threads write one word"),
        ("a = mul 2000000000, 2", "leaves 32 bits"),
        ("a = load [99]", "an address outside 16 words"),
        ("a = load shared [4]", "an address outside 4 words"),
    ],
)
def test_faults_are_found_by_interpretation(body: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        interpret(kernel_of(body), np.zeros(16, np.int64))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("if tid < 3 {\nstore [tid] 1\n}", ["CMP R6, 2", "BRGT L0", "ST R6, 1", "L0:"]),
        ("if tid > 3 {\nstore [tid] 1\n}", ["CMP R6, 4", "BRLT L0", "ST R6, 1", "L0:"]),
        ("if tid < bid {\nstore [tid] 1\n}", ["CMP R6, R5", "BRGT L0", "BRZ L0", "ST R6, 1", "L0:"]),
        ("if tid <= 3 {\nstore [tid] 1\n}", ["CMP R6, 3", "BRGT L0", "ST R6, 1", "L0:"]),
        ("if tid == 3 {\nstore [tid] 1\n}", ["BNE R6, 3, L0", "ST R6, 1", "L0:"]),
        (
            "if tid != 3 {\nstore [tid] 1\n} else {\nstore [tid] 2\n}",
            ["BEQ R6, 3, L0", "ST R6, 1", "JMP L1", "L0:", "ST R6, 2", "L1:"],
        ),
        (
            "for k = 0 to 3 step 1 times 3 {\nstore [k] tid\n}",
            ["SET R0, 0", "L0:", "BEQ R0, 3, L1", "ST R0, R6", "ADD R0, R0, 1", "JMP L0", "L1:"],
        ),
        (
            "for k = 0 to 3 step 1 times 3 inverted {\nstore [k] tid\n}",
            ["SET R0, 0", "L0:", "ST R0, R6", "ADD R0, R0, 1", "BNE R0, 3, L0"],
        ),
    ],
)
def test_statements_become_this_code(body: str, code: list[str]) -> None:
    program = compile_kernel(kernel_of(body, grid=2), read_machine()).program
    assert [line.strip() for line in disassemble(program).splitlines()] == code
