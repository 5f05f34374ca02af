"""Runs a program on the machine: all threads that stand at the same instruction together.

Threads part at branches and join again where they meet: the group at the lowest instruction runs first, so those that
left a loop wait behind it. Between barriers the public machine runs one thread after another; where no two threads
touch the same word between the same barriers, one of them writing, the order makes no difference and memory ends up
the same. `check_races` proves that there is no such pair, or names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trivet.backends.gpu.counts import Counts, Tally
from trivet.backends.gpu.group import Grid, Group, join, split, start
from trivet.backends.gpu.isa import WORD, Instruction, Kind, Opcode, Program, Reg
from trivet.backends.gpu.lanes import Array, Fault, Mask, raw
from trivet.backends.gpu.machine import Machine, read_machine
from trivet.backends.gpu.races import Races
from trivet.backends.gpu.steps import Memories, Step, reader, straight
from trivet.core.record import dataclass
from trivet.errors import CompileError, InvalidModel


class Trap(CompileError):
    """The machine cannot go on: `pc` is the instruction, `thread` one of those that stood there."""

    def __init__(self, reason: str, where: str, pc: int, thread: int, hint: str | None = None) -> None:
        super().__init__(f"thread {thread}: {reason}", where=where, hint=hint)
        self.reason = reason
        self.pc = pc
        self.thread = thread


@dataclass(frozen=True, slots=True)
class Launch:
    """A program on `grid` blocks of `block` threads; arguments go to R0, R1, ... of every thread."""

    program: Program
    grid: int
    block: int
    arguments: tuple[int, ...] = ()
    shared_words: int = 0
    registers: int = 8


Watch = Callable[[int, int, Group], None]
"""Told of every stretch of instructions [start, stop) that a group is about to execute."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A stretch that is entered at its start only. `ends` is its last instruction if that may go elsewhere."""

    start: int
    stop: int
    steps: tuple[Step, ...]
    ends: Instruction | None


@dataclass(slots=True)
class _Waiting:
    """A group at a barrier."""

    group: Group
    pc: int
    opcode: Opcode


def simulate(
    launch: Launch,
    memory: Array,
    machine: Machine | None = None,
    check_races: bool = False,
    watch: Watch | None = None,
) -> Counts:
    """Execute a launch on `memory` (int64 words), in place.

    Raises: Trap naming the instruction and a thread; InvalidModel if the launch does not fit the machine.
    """
    machine = machine or read_machine()
    _check(launch, machine)
    run = _Run(launch, memory, machine, Races(launch.program, launch.block) if check_races else None, watch)
    run.execute()
    return run.tally.counts(launch.program)


def _check(launch: Launch, machine: Machine) -> None:
    threads = launch.grid * launch.block
    where = launch.program.name
    if launch.grid < 1 or launch.block < 1 or threads > machine.max_threads:
        size = f"{launch.grid} blocks of {launch.block} threads"
        raise InvalidModel(f"a launch has 1 to {machine.max_threads} threads, got {size}", where=where)
    if not 0 <= launch.shared_words <= machine.shared_words:
        words = f"{launch.shared_words} shared words"
        raise InvalidModel(f"a block has at most {machine.shared_words}, the launch asks for {words}", where=where)
    needed = max(launch.program.registers, len(launch.arguments))
    if launch.registers < max(needed, 8):
        raise InvalidModel(f"the program needs {max(needed, 8)} registers, got {launch.registers}", where=where)
    if not all(WORD.lo <= argument <= WORD.hi for argument in launch.arguments):
        raise InvalidModel(f"an argument does not fit 32 bits: {launch.arguments}", where=where)


class _Run:
    """One execution of one launch."""

    def __init__(
        self, launch: Launch, memory: Array, machine: Machine, races: Races | None, watch: Watch | None
    ) -> None:
        self.launch = launch
        self.machine = machine
        self.races = races
        self.watch = watch
        self.tally = Tally(machine.model)
        memories = Memories(memory, launch.shared_words, launch.grid, races)
        if races is not None:
            races.attach(memory.size, memories.shared.size, launch.grid)
        self.blocks = _blocks(launch.program, memories)
        grid = Grid(launch.grid, launch.block, machine.model)
        self.ready: list[Group] = [start(grid, launch.registers, launch.arguments, launch.shared_words)]
        self.waiting: list[_Waiting] = []

    def execute(self) -> None:
        while self.ready or self.waiting:
            if not self.ready:
                self._release()
            group = self._next()
            limit = min((other.pc for other in self.ready), default=len(self.launch.program.code) + 1)
            self._advance(group, limit)

    def _next(self) -> Group:
        """All threads at the lowest instruction where some are ready."""
        pc = min(group.pc for group in self.ready)
        here = [group for group in self.ready if group.pc == pc]
        if len(here) == 1:
            self.ready.remove(here[0])
            return here[0]
        self.ready = [group for group in self.ready if group.pc != pc]
        return join(here, self.launch.shared_words)

    def _advance(self, group: Group, limit: int) -> None:
        """Run a group until it parts, waits, ends, or reaches an instruction where others are."""
        blocks, end = self.blocks, len(self.launch.program.code)
        visits, watch = self.tally.visits, self.watch
        while 0 <= group.pc < min(limit, end):
            block = blocks[group.pc]
            if watch is not None:
                watch(block.start, block.stop, group)
            visits[block.start, block.stop, group.shape] += 1
            self._run_block(block, group)
            if block.ends is None:
                group.pc = block.stop
            elif not self._finish(block, block.ends, group):
                return
        if 0 <= group.pc < end:
            self.ready.append(group)

    def _run_block(self, block: _Block, group: Group) -> None:
        index = 0
        try:
            for index, step in enumerate(block.steps):  # noqa: B007  # the index says which one failed
                step(group)
        except Fault as fault:
            raise self._trap(fault.reason, block.start + index, int(group.threads[fault.position])) from None
        group.steps += block.stop - block.start
        if group.steps > self.machine.cycle_limit:
            reason = f"more than {self.machine.cycle_limit:,} instructions of one thread: the program does not end"
            raise self._trap(reason, block.stop - 1, int(group.threads[0]))

    def _trap(self, reason: str, pc: int, thread: int) -> Trap:
        return Trap(reason, self.launch.program.place(pc), pc, thread)

    def _finish(self, block: _Block, last: Instruction, group: Group) -> bool:
        """Execute the jump or barrier at the end of a stretch; True iff the whole group goes on, at its new pc."""
        pc = block.stop - 1
        if last.opcode.kind is Kind.BARRIER:
            self.waiting.append(_Waiting(group, pc, last.opcode))
            return False
        taken = _condition(last, group)
        if isinstance(taken, np.ndarray):
            if not taken.any():
                taken = False
            elif taken.all():
                taken = True
        if isinstance(taken, bool):
            group.pc = pc + 1
            return not taken or self._jump(pc, last, group)
        jumping, staying = split(group, taken, self.launch.shared_words)
        self.tally.part(group.shape, jumping.shape, staying.shape)
        staying.pc = pc + 1
        if self._jump(pc, last, jumping):
            self.ready.append(jumping)
        self.ready.append(staying)
        return False

    def _jump(self, pc: int, last: Instruction, group: Group) -> bool:
        """Set the pc of a group that jumps; False if its threads go different ways and are ready there."""
        target = reader(last.operands[-1])(group)
        if isinstance(target, int):
            group.pc = _landing(target, pc)
            return True
        for goal in np.unique(target.array).tolist():
            part, _ = split(group, target.array == goal, self.launch.shared_words)
            part.pc = _landing(goal, pc)
            self.ready.append(part)
        return False

    def _release(self) -> None:
        """All active threads wait: let those go on whose barrier is complete."""
        by_block = [w for w in self.waiting if w.opcode is Opcode.SYNCB]
        self._agree(by_block)
        released = by_block or self.waiting
        self.waiting = [w for w in self.waiting if by_block and w.opcode is not Opcode.SYNCB]
        if self.races is not None:
            for waiting in released:
                self.races.barrier(waiting.group.threads, everywhere=not by_block)
        for waiting in released:
            waiting.group.pc = waiting.pc + 1
            self.ready.append(waiting.group)
        self.ready = [group for group in self.ready if group.pc < len(self.launch.program.code)]

    def _agree(self, by_block: Sequence[_Waiting]) -> None:
        """All threads that wait for each other must stand at the same barrier. Raises: Trap."""
        stands: dict[int, _Waiting] = {}
        for waiting in self.waiting:
            blocks = np.unique(waiting.group.threads // self.launch.block) if by_block else np.zeros(1, np.int64)
            for block in blocks.tolist():
                other = stands.setdefault(block, waiting)
                if (other.pc, other.opcode) != (waiting.pc, waiting.opcode):
                    place = self.launch.program.place(other.pc)
                    reason = f"barrier divergence: thread {int(other.group.threads[0])} waits at {place}"
                    raise self._trap(reason, waiting.pc, int(waiting.group.threads[0]))


def _landing(target: int, pc: int) -> int:
    """Where a jump leads: a jump to itself falls through, as on the public machine, whose programs end that way."""
    return pc + 1 if target == pc else target


def _condition(last: Instruction, group: Group) -> bool | Mask:
    """Whether a branch is taken: by all or none, or by which threads."""
    match last.opcode:
        case Opcode.JMP:
            return True
        case Opcode.BEQ | Opcode.BNE:
            a, b = (raw(reader(operand)(group)) for operand in last.operands[:2])
            if isinstance(a, int) and isinstance(b, int):
                return (a == b) is (last.opcode is Opcode.BEQ)
            return np.equal(a, b) if last.opcode is Opcode.BEQ else np.not_equal(a, b)
    difference = raw(group.flags)
    if last.opcode is Opcode.BRZ:
        return difference == 0
    return difference > 0 if last.opcode is Opcode.BRGT else difference < 0


def _blocks(program: Program, memories: Memories) -> dict[int, _Block]:
    """Every stretch by its first instruction."""
    code = program.code
    leaders = _leaders(code)
    blocks = {}
    for start_pc in sorted(leaders):
        stop = start_pc + 1
        while stop < len(code) and stop not in leaders:
            stop += 1
        last = code[stop - 1]
        ends = last if last.opcode.kind in (Kind.BRANCH, Kind.BARRIER) else None
        inner = range(start_pc, stop - 1 if ends else stop)
        blocks[start_pc] = _Block(start_pc, stop, tuple(straight(pc, code[pc], memories) for pc in inner), ends)
    return blocks


def _leaders(code: Sequence[Instruction]) -> set[int]:
    """Where a stretch begins: the start, targets, after jumps and barriers; anywhere if a jump reads a register."""
    leaders = {0} if code else set()
    for pc, instruction in enumerate(code):
        kind = instruction.opcode.kind
        if kind in (Kind.BRANCH, Kind.BARRIER):
            leaders.add(pc + 1)
        if kind is Kind.BRANCH:
            target = instruction.operands[-1]
            leaders |= set(range(len(code))) if isinstance(target, Reg) else {target}
    return {pc for pc in leaders if pc < len(code)}
