"""Texts to programs and back, and what is refused."""

from __future__ import annotations

import pytest

from trivet.backends.gpu.asm import assemble, disassemble
from trivet.backends.gpu.isa import Instruction, Opcode, Reg
from trivet.errors import InvalidModel, Problems

LOOP = """
; sums R1 from 0
SET R0, 0
loop:
    add r0 r0 1     ; commas are optional, and so is case
    CMP R0, -5
    BRGT done
    BNE R0, 10, loop
done:
"""


def test_a_program_is_read() -> None:
    program = assemble(LOOP)
    assert program.code == (
        Instruction(Opcode.SET, (Reg(0), 0)),
        Instruction(Opcode.ADD, (Reg(0), Reg(0), 1)),
        Instruction(Opcode.CMP, (Reg(0), -5)),
        Instruction(Opcode.BRGT, (5,)),
        Instruction(Opcode.BNE, (Reg(0), 10, 1)),
    )
    assert program.lines == (3, 5, 6, 7, 8)


def test_disassembly_round_trips() -> None:
    program = assemble(LOOP)
    text = disassemble(program)
    assert assemble(text).code == program.code
    assert disassemble(assemble(text)) == text


def test_every_instruction_round_trips() -> None:
    lines = []
    for opcode in Opcode:
        operands = [{"RESULT": "R3", "VALUE": "-7", "TARGET": "end"}[role.name] for role in opcode.roles]
        lines.append(f"{opcode.mnemonic} {', '.join(operands)}")
    program = assemble("\n".join([*lines, "end:"]), extended=True)
    assert [i.opcode for i in program.code] == list(Opcode)
    assert assemble(disassemble(program), extended=True).code == program.code


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("SET R0, 1\nFOO R1, 2", 2, "FOO is no instruction"),
        ("ADD R8, R0, 1", 1, "register R8 is out of range: a thread has R0 to R7"),
        ("ADD Rx, R0, 1", 1, "Rx begins with R and is no register"),
        ("ADD R1, R0", 1, "ADD takes 3 operands, got 2"),
        ("SET 3, R1", 1, "the result must be a register, got 3"),
        ("SET R1, 2147483648", 1, "2147483648 does not fit 32 bits"),
        ("SET R1, word", 1, "expected a register or an integer, found word"),
        ("\n\nJMP nowhere", 3, "there is no label nowhere"),
        ("JMP 7", 1, "jumps to instruction 7, the program has 1"),
        ("JMP -1", 1, "jumps to instruction -1, the program has 1"),
        ("a:\nSET R0, 1\na:", 3, "the label a stands in two places"),
        ("restart:\nJMP restart", 1, "a label may not begin with R"),
        ("two words:", 1, "a label is a word"),
        ("MULH R0, R1, R2", 1, "MULH is no instruction of the public machine"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises((InvalidModel, Problems)) as caught:
        assemble(text, "kernel.tgpu")
    assert f"kernel.tgpu:{line}:" in str(caught.value)
    assert reason in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(Problems) as caught:
        assemble("FOO\nADD R9, R0, 1\nJMP x")
    assert len(caught.value.problems) == 3
