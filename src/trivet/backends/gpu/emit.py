"""Kernels to programs of the machine."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.backends.gpu.flatten import Label, Line, Virtual, flatten
from trivet.backends.gpu.ir import Kernel, Value, Var
from trivet.backends.gpu.isa import Instruction, Opcode, Operand, Program, Reg
from trivet.backends.gpu.machine import CycleModel, Machine
from trivet.backends.gpu.regalloc import Allocation, allocate
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's program, and what its launches need."""

    kernel: Kernel
    program: Program
    allocation: Allocation
    shared_words: int


def compile_kernel(kernel: Kernel, machine: Machine, prune: bool = True) -> Compiled:
    """Flatten, allocate, emit; without `prune` as an estimate.

    Raises: DoesNotFit.
    """
    allocation = allocate(kernel, flatten(kernel), machine.registers, prune)
    program = Program(kernel.name, _instructions(allocation))
    return Compiled(kernel, program, allocation, kernel.shared_words + allocation.slots * kernel.block)


def _instructions(allocation: Allocation) -> tuple[Instruction, ...]:
    lines = [line for line in allocation.code if not _is_idle(line, allocation.registers)]
    places: dict[Label, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, Label):
            places[line] = count
        else:
            count += 1

    def operand(value: Value | Label) -> Operand:
        match value:
            case Var():
                return Reg(allocation.registers[value])
            case Label():
                return places[value]
        return value

    code = (line for line in lines if isinstance(line, Virtual))
    return tuple(Instruction(line.opcode, tuple(map(operand, line.operands))) for line in code)


def _is_idle(line: Line, registers: dict[Var, int]) -> bool:
    """True for a copy of a register to itself."""
    if not isinstance(line, Virtual) or line.opcode is not Opcode.SET:
        return False
    result, value = line.operands
    return isinstance(result, Var) and isinstance(value, Var) and registers[result] == registers[value]


def estimated_cycles(compiled: Compiled, model: CycleModel) -> int:
    """Cycles of all launches of a kernel in the cycle model, if every branch were executed."""
    kernel = compiled.kernel
    once = sum(model.cost(line.opcode.kind) * line.weight for line in _lines(compiled))
    blocks = -(-kernel.grid // model.cores)
    return len(kernel.launches) * blocks * model.rows(kernel.block) * once


def estimated_loads(compiled: Compiled) -> int:
    """Global loads of all threads in all launches, if every branch were executed."""
    return _executed(compiled, [line for line in _lines(compiled) if line.opcode is Opcode.LD])


def estimated_instructions(compiled: Compiled) -> int:
    """Instructions of all threads in all launches, if every branch were executed."""
    return _executed(compiled, _lines(compiled))


def _lines(compiled: Compiled) -> list[Virtual]:
    """What is emitted, labels left out."""
    allocation = compiled.allocation
    code = (line for line in allocation.code if not _is_idle(line, allocation.registers))
    return [line for line in code if isinstance(line, Virtual)]


def _executed(compiled: Compiled, lines: Sequence[Virtual]) -> int:
    kernel = compiled.kernel
    return len(kernel.launches) * kernel.threads * sum(line.weight for line in lines)
