"""Instructions as functions on a group of threads: made once for each program, called once for each execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from trivet.backends.gpu.group import Group
from trivet.backends.gpu.isa import Instruction, Opcode, Operand, Reg
from trivet.backends.gpu.lanes import ARITHMETIC, Array, Fault, Lane, Vec, hull, raw, tight

Step: TypeAlias = Callable[[Group], None]
Get: TypeAlias = Callable[[Group], Lane]


class Observer(Protocol):
    """Who is told of every access before it happens: `where` are addresses (shared memory: block's base added)."""

    def access(self, pc: int, threads: Array, where: Array, writes: bool, shared: bool) -> None:
        """Raises: Fault."""


class Memories:
    """Global memory, and shared memory of all blocks one after the other."""

    def __init__(self, memory: Array, shared_words: int, blocks: int, observer: Observer | None) -> None:
        self.memory = memory
        self.shared_words = shared_words
        self.shared = np.zeros(shared_words * blocks, np.int64)
        self.observer = observer


def reader(operand: Operand) -> Get:
    """What reads an operand."""
    if isinstance(operand, Reg):
        number = operand.number
        return lambda group: group.regs[number]
    value = operand
    return lambda group: value


def straight(pc: int, instruction: Instruction, memories: Memories) -> Step:
    """An instruction that goes on to the next one."""
    operands = instruction.operands
    match instruction.opcode:
        case Opcode.SET:
            return _set(operands)
        case Opcode.CMP:
            return _compare(operands)
        case Opcode.LD:
            return _load(pc, operands, memories)
        case Opcode.ST:
            return _store(pc, operands, memories)
        case Opcode.SHLD:
            return _shared_load(pc, operands, memories)
        case Opcode.SHST:
            return _shared_store(pc, operands, memories)
        case Opcode.CSWAP:
            return _swap(pc, operands, memories)
        case opcode:
            return _arithmetic(opcode, operands)


def _number(operand: Operand) -> int:
    assert isinstance(operand, Reg), "the assembler lets only registers be results"
    return operand.number


def _set(operands: tuple[Operand, ...]) -> Step:
    result, get = _number(operands[0]), reader(operands[1])

    def step(group: Group) -> None:
        group.regs[result] = get(group)

    return step


def _arithmetic(opcode: Opcode, operands: tuple[Operand, ...]) -> Step:
    function = ARITHMETIC[opcode]
    result = _number(operands[0])
    match operands[1:]:
        case (Reg(a), Reg(b)):

            def of_registers(group: Group) -> None:
                regs = group.regs
                regs[result] = function(regs[a], regs[b])

            return of_registers
        case (Reg(a), int(number)):

            def with_immediate(group: Group) -> None:
                regs = group.regs
                regs[result] = function(regs[a], number)

            return with_immediate
    left, right = reader(operands[1]), reader(operands[2])

    def step(group: Group) -> None:
        group.regs[result] = function(left(group), right(group))

    return step


def _compare(operands: tuple[Operand, ...]) -> Step:
    left, right = reader(operands[0]), reader(operands[1])

    def step(group: Group) -> None:
        a, b = raw(left(group)), raw(right(group))
        group.flags = a - b if isinstance(a, int) and isinstance(b, int) else Vec(np.subtract(a, b))

    return step


def _checked(address: Lane, words: int) -> Lane:
    """An address of global memory. Raises: Fault outside it."""
    if isinstance(address, int):
        if not 0 <= address < words:
            raise Fault(f"address {address} is outside memory, which has {words:,} words")
        return address
    if address.lo < 0 or address.hi >= words:
        address = tight(address)
        if address.lo < 0 or address.hi >= words:
            wrong = np.flatnonzero((address.array < 0) | (address.array >= words))
            bad = address.array[wrong[0]]
            raise Fault(f"address {bad} is outside memory, which has {words:,} words", wrong)
    return address


def _all(where: int | Array, group: Group) -> Array:
    """One address for each thread."""
    return np.broadcast_to(np.asarray(where, np.int64), group.threads.shape)


def _load(pc: int, operands: tuple[Operand, ...], memories: Memories) -> Step:
    result, get = _number(operands[0]), reader(operands[1])
    memory, observer = memories.memory, memories.observer
    words = memory.size

    def step(group: Group) -> None:
        address = _checked(get(group), words)
        where = raw(address)
        if observer is not None:
            observer.access(pc, group.threads, _all(where, group), writes=False, shared=False)
        group.regs[result] = int(memory[where]) if isinstance(where, int) else Vec(memory.take(where))

    return step


def _store(pc: int, operands: tuple[Operand, ...], memories: Memories) -> Step:
    get, value = reader(operands[0]), reader(operands[1])
    memory, observer = memories.memory, memories.observer
    words = memory.size

    def step(group: Group) -> None:
        where = raw(_checked(get(group), words))
        if observer is not None:
            observer.access(pc, group.threads, _all(where, group), writes=True, shared=False)
        stored = raw(value(group))
        if isinstance(where, int) and not isinstance(stored, int):
            stored = int(stored[-1])
        memory[where] = stored

    return step


def _inside(address: Lane, words: int) -> Array | None:
    """Which threads' shared addresses exist; None if all do."""
    lo, hi = hull(address)
    if lo >= 0 and hi < words:
        return None
    where = np.asarray(raw(address), np.int64)
    inside: Array = np.atleast_1d((where >= 0) & (where < words))
    return None if inside.all() else inside


def _shared_load(pc: int, operands: tuple[Operand, ...], memories: Memories) -> Step:
    """What lies outside shared memory reads 0, as on the public machine."""
    result, get = _number(operands[0]), reader(operands[1])
    shared, words, observer = memories.shared, memories.shared_words, memories.observer

    def step(group: Group) -> None:
        address = get(group)
        inside = _inside(address, words)
        where = np.add(group.shared_base, raw(address))
        if inside is not None:
            every = np.broadcast_to(inside, group.threads.shape)
            values, places = np.zeros(group.threads.size, np.int64), _all(where, group)[every]
            if observer is not None:
                observer.access(pc, group.threads[every], places, writes=False, shared=True)
            values[every] = shared[places]
            group.regs[result] = Vec(values)
            return
        if observer is not None:
            observer.access(pc, group.threads, _all(where, group), writes=False, shared=True)
        group.regs[result] = Vec(shared.take(where)) if where.ndim else int(shared[int(where)])

    return step


def _shared_store(pc: int, operands: tuple[Operand, ...], memories: Memories) -> Step:
    """What lies outside shared memory is ignored, as on the public machine."""
    get, value = reader(operands[0]), reader(operands[1])
    shared, words, observer = memories.shared, memories.shared_words, memories.observer

    def step(group: Group) -> None:
        address = get(group)
        inside = _inside(address, words)
        where = _all(np.add(group.shared_base, raw(address)), group)
        values, threads = _all(raw(value(group)), group), group.threads
        if inside is not None:
            every = np.broadcast_to(inside, group.threads.shape)
            where, values, threads = where[every], values[every], threads[every]
        if observer is not None:
            observer.access(pc, threads, where, writes=True, shared=True)
        shared[where] = values

    return step


def _swap(pc: int, operands: tuple[Operand, ...], memories: Memories) -> Step:
    """Pairs outside memory are left alone, as on the public machine; pairs that overlap go in the order of threads."""
    first, second = reader(operands[0]), reader(operands[1])
    memory, observer = memories.memory, memories.observer

    def step(group: Group) -> None:
        p, q = _all(raw(first(group)), group), _all(raw(second(group)), group)
        inside = (p >= 0) & (p < memory.size) & (q >= 0) & (q < memory.size)
        p, q = p[inside], q[inside]
        if observer is not None:
            observer.access(pc, group.threads[inside], p, writes=True, shared=False)
            observer.access(pc, group.threads[inside], q, writes=True, shared=False)
        if np.unique(np.concatenate([p, q])).size == p.size + q.size:
            a, b = memory[p], memory[q]
            memory[p], memory[q] = np.minimum(a, b), np.maximum(a, b)
            return
        for one, other in zip(p.tolist(), q.tolist(), strict=True):
            if memory[one] > memory[other]:
                memory[one], memory[other] = memory[other], memory[one]

    return step
