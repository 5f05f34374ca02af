"""Text to programs and back.

One instruction a line, commas or blanks between operands, `;` starts a comment, a label stands alone on its line. The
public assembler skips what it does not know and takes every word that begins with R for a register; here both are
errors, so that a program that assembles means the same on either machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trivet.backends.gpu.isa import BY_MNEMONIC, REGISTERS, WORD, Instruction, Opcode, Operand, Program, Reg, Role
from trivet.core.source import TextSpan
from trivet.errors import CompileError, InvalidModel, Problems

_INTEGER = re.compile(r"-?[0-9]+")
_REGISTER = re.compile(r"[Rr][0-9]+")
_LABEL = re.compile(r"[A-QS-Za-qs-z_.$][\w.$]*")


def assemble(text: str, name: str = "<text>", registers: int = REGISTERS, extended: bool = False) -> Program:
    """The program of a text. `registers` is how many a thread has; `extended` allows the extended instructions.

    Raises: InvalidModel (Problems for several) with file, line, the line itself and the reason.
    """
    reader = _Reader(name, registers, extended)
    statements = reader.statements(text)
    code = [reader.instruction(number, words, len(statements)) for number, words in statements]
    if len(reader.problems) == 1:
        raise reader.problems[0]
    if reader.problems:
        raise Problems(name, reader.problems)
    done = tuple(instruction for instruction in code if instruction is not None)
    return Program(name, done, tuple(number for number, _ in statements))


def disassemble(program: Program) -> str:
    """A text that assembles to the same instructions."""
    labels = {target: f"L{index}" for index, target in enumerate(sorted(_targets(program)))}
    lines = []
    for pc, instruction in enumerate(program.code):
        if pc in labels:
            lines.append(f"{labels[pc]}:")
        lines.append(f"    {_line(instruction, labels)}")
    if len(program.code) in labels:
        lines.append(f"{labels[len(program.code)]}:")
    return "".join(f"{line}\n" for line in lines)


def _line(instruction: Instruction, labels: Mapping[int, str]) -> str:
    words = [
        labels[operand] if role is Role.TARGET and isinstance(operand, int) else str(operand)
        for role, operand in zip(instruction.opcode.roles, instruction.operands, strict=True)
    ]
    return f"{instruction.opcode.mnemonic} {', '.join(words)}".rstrip()


def _targets(program: Program) -> set[int]:
    return {target for instruction in program.code if isinstance(target := target_of(instruction), int)}


def target_of(instruction: Instruction) -> Operand | None:
    """Where an instruction may jump to, None if it does not."""
    roles = instruction.opcode.roles
    return instruction.operands[-1] if roles and roles[-1] is Role.TARGET else None


class _Reader:
    """Labels and problems of one text."""

    def __init__(self, name: str, registers: int, extended: bool) -> None:
        self.name = name
        self.registers = registers
        self.extended = extended
        self.labels: dict[str, int] = {}
        self.lines: list[str] = []
        self.problems: list[CompileError] = []

    def refuse(self, number: int, word: str, reason: str, hint: str | None = None) -> None:
        line = self.lines[number - 1]
        column = max(line.find(word), 0)
        shown = (line.rstrip(), " " * column + "^" * max(1, len(word)))
        span = TextSpan(self.name, number, column + 1, number, column + len(word) + 1, shown)
        message = "\n    ".join([f"'{line.strip()}': {reason}", *shown])
        self.problems.append(InvalidModel(message, where=span, hint=hint))

    def statements(self, text: str) -> list[tuple[int, list[str]]]:
        """Line number and words of every instruction; labels are noted."""
        self.lines = text.splitlines()
        statements: list[tuple[int, list[str]]] = []
        for number, line in enumerate(self.lines, 1):
            bare = line.split(";", 1)[0].strip()
            if bare.endswith(":"):
                self._label(number, bare[:-1].strip(), len(statements))
            elif bare:
                statements.append((number, bare.replace(",", " ").split()))
        return statements

    def _label(self, number: int, label: str, pc: int) -> None:
        if label in self.labels:
            self.refuse(number, label, f"the label {label} stands in two places")
        elif label[:1] in ("R", "r"):
            self.refuse(number, label, f"a label may not begin with R: {label} would be read as a register")
        elif not _LABEL.fullmatch(label):
            self.refuse(number, label, "a label is a word of letters, digits, '_', '.' and '$', alone on its line")
        else:
            self.labels[label] = pc

    def instruction(self, number: int, words: list[str], length: int) -> Instruction | None:
        opcode = BY_MNEMONIC.get(words[0].upper())
        if opcode is None:
            known = " ".join(o.mnemonic for o in Opcode if self.extended or not o.extended)
            self.refuse(number, words[0], f"{words[0]} is no instruction", hint=f"the machine has {known}")
            return None
        if opcode.extended and not self.extended:
            hint = "the extended machine has it: --isa extended"
            self.refuse(number, words[0], f"{words[0]} is no instruction of the public machine", hint)
            return None
        if len(words) - 1 != len(opcode.roles):
            self.refuse(number, words[0], f"{words[0]} takes {len(opcode.roles)} operands, got {len(words) - 1}")
            return None
        operands = [
            self._operand(number, word, role, length) for word, role in zip(words[1:], opcode.roles, strict=True)
        ]
        return Instruction(opcode, tuple(operands)) if None not in operands else None  # type: ignore[arg-type]

    def _operand(self, number: int, word: str, role: Role, length: int) -> Operand | None:
        if word[0] in "Rr":
            return self._register(number, word)
        if role is Role.RESULT:
            self.refuse(number, word, f"the result must be a register, got {word}")
            return None
        value = self._integer(number, word) if _INTEGER.fullmatch(word) else self._target(number, word, role)
        if value is not None and role is Role.TARGET and not 0 <= value <= length:
            self.refuse(number, word, f"jumps to instruction {value}, the program has {length}")
            return None
        return value

    def _register(self, number: int, word: str) -> Reg | None:
        if not _REGISTER.fullmatch(word):
            self.refuse(number, word, f"{word} begins with R and is no register")
            return None
        index = int(word[1:])
        if index >= self.registers:
            self.refuse(number, word, f"register {word} is out of range: a thread has R0 to R{self.registers - 1}")
            return None
        return Reg(index)

    def _integer(self, number: int, word: str) -> int | None:
        value = int(word)
        if not WORD.lo <= value <= WORD.hi:
            self.refuse(number, word, f"{word} does not fit 32 bits")
            return None
        return value

    def _target(self, number: int, word: str, role: Role) -> int | None:
        if role is not Role.TARGET:
            self.refuse(number, word, f"expected a register or an integer, found {word}")
        elif word not in self.labels:
            known = ", ".join(sorted(self.labels)) or "none"
            self.refuse(number, word, f"there is no label {word}", hint=f"labels of the program: {known}")
        else:
            return self.labels[word]
        return None
