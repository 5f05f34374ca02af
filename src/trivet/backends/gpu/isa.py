"""The machine's instructions: what each reads and writes, of what kind it is, and which belong to the extended set.

The public machine is the base set. The extended set is a superset for requantized networks: every base program means
the same on it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias

from trivet.core.interval import Interval
from trivet.core.record import dataclass

REGISTERS = 8
"""What a thread has unless a launch asks for more."""

BLOCK_ID, THREAD_ID, GLOBAL_ID = 5, 6, 7
"""Registers that hold block, thread in block and global thread when a program starts; ordinary ones afterwards."""

WORD = Interval(-(1 << 31), (1 << 31) - 1)


class Role(Enum):
    """What an operand is: a register that is written, a value that is read (register or immediate), a jump target."""

    RESULT = auto()
    VALUE = auto()
    TARGET = auto()


class Kind(Enum):
    """Classes of instructions that cost the same."""

    ALU = "alu"
    MULTIPLY = "multiply"
    LOAD = "load"
    STORE = "store"
    SHARED_LOAD = "shared_load"
    SHARED_STORE = "shared_store"
    BRANCH = "branch"
    BARRIER = "barrier"
    SWAP = "swap"


_D, _V, _T = Role.RESULT, Role.VALUE, Role.TARGET


class Opcode(Enum):
    """Mnemonic, operand roles, kind, and whether only the extended machine has it."""

    SET = ("SET", (_D, _V), Kind.ALU, False)
    ADD = ("ADD", (_D, _V, _V), Kind.ALU, False)
    MUL = ("MUL", (_D, _V, _V), Kind.MULTIPLY, False)
    LD = ("LD", (_D, _V), Kind.LOAD, False)
    ST = ("ST", (_V, _V), Kind.STORE, False)
    SHLD = ("SHLD", (_D, _V), Kind.SHARED_LOAD, False)
    SHST = ("SHST", (_V, _V), Kind.SHARED_STORE, False)
    JMP = ("JMP", (_T,), Kind.BRANCH, False)
    BEQ = ("BEQ", (_V, _V, _T), Kind.BRANCH, False)
    BNE = ("BNE", (_V, _V, _T), Kind.BRANCH, False)
    CMP = ("CMP", (_V, _V), Kind.ALU, False)
    BRGT = ("BRGT", (_T,), Kind.BRANCH, False)
    BRLT = ("BRLT", (_T,), Kind.BRANCH, False)
    BRZ = ("BRZ", (_T,), Kind.BRANCH, False)
    SYNC = ("SYNC", (), Kind.BARRIER, False)
    SYNCB = ("SYNCB", (), Kind.BARRIER, False)
    CSWAP = ("CSWAP", (_V, _V), Kind.SWAP, False)
    SUB = ("SUB", (_D, _V, _V), Kind.ALU, True)
    MIN = ("MIN", (_D, _V, _V), Kind.ALU, True)
    MAX = ("MAX", (_D, _V, _V), Kind.ALU, True)
    SHL = ("SHL", (_D, _V, _V), Kind.ALU, True)
    SHR = ("SHR", (_D, _V, _V), Kind.ALU, True)
    SHRN = ("SHRN", (_D, _V, _V), Kind.ALU, True)
    MULH = ("MULH", (_D, _V, _V), Kind.MULTIPLY, True)

    def __init__(self, mnemonic: str, roles: tuple[Role, ...], kind: Kind, extended: bool) -> None:
        self.mnemonic = mnemonic
        self.roles = roles
        self.kind = kind
        self.extended = extended
        self.has_result = Role.RESULT in roles[:1]


BY_MNEMONIC = {opcode.mnemonic: opcode for opcode in Opcode}


@dataclass(frozen=True, slots=True)
class Reg:
    """A register of the thread."""

    number: int

    def __str__(self) -> str:
        return f"R{self.number}"


Operand: TypeAlias = Reg | int
"""A register, or an immediate; where a target is expected, an immediate counts instructions from 0."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; operands stand in the order of the opcode's roles."""

    opcode: Opcode
    operands: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        operands = ", ".join(map(str, self.operands))
        return f"{self.opcode.mnemonic} {operands}" if operands else self.opcode.mnemonic


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions in order. `lines` says where each stands in the text of `file` (1-based; empty: nowhere)."""

    name: str
    code: tuple[Instruction, ...]
    lines: tuple[int, ...] = ()
    file: str = ""

    @property
    def registers(self) -> int:
        """How many registers the program names, counted from R0."""
        used = (o.number for i in self.code for o in i.operands if isinstance(o, Reg))
        return max(used, default=-1) + 1

    @property
    def is_extended(self) -> bool:
        """True iff the public machine does not run it."""
        return any(instruction.opcode.extended for instruction in self.code)

    def place(self, pc: int) -> str:
        """Where an instruction stands, for messages: `pc 3 (x.tgpu:12: LD R1, R2)`."""
        if pc >= len(self.code):
            return f"pc {pc} (the end of {self.name})"
        at = f"{self.file or self.name}:{self.lines[pc]}" if self.lines else self.name
        return f"pc {pc} ({at}: {self.code[pc]})"
