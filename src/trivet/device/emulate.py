"""Runs a program under QEMU and reads what it left: outputs, measures, and instructions."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trivet.core.record import dataclass
from trivet.device.build import PHASES, Built, counter, ram_bytes
from trivet.device.elf import Program
from trivet.device.machines import Machine
from trivet.device.tools import find
from trivet.errors import CompileError

TIMEOUT_S = 1800
_CAUSES = {24: "an unaligned access", 25: "a division by zero", 16: "an undefined instruction", 17: "an invalid state",
           8: "an instruction fetch", 9: "a precise data access", 1: "a data access", 0: "an instruction access",
           19: "no coprocessor"}  # fmt: skip
"""Bits of the Configurable Fault Status Register, Armv7-M Architecture Reference Manual, B3.2.15."""


class DeviceFault(CompileError):
    """The program trapped."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """What a program left. `phases` has the instructions of every time that a phase ran, `layers` those of each layer
    and how often its kernel was called, `functions` those of one run by function."""

    outputs: bytes
    measures: tuple[int, ...]
    phases: Mapping[str, Sequence[int]]
    layers: Sequence[tuple[int, int]]
    functions: Mapping[str, int]


def emulate(machine: Machine, built: Built, inputs: bytes) -> Emulation:
    """One start of the emulator; `inputs` are those of all runs, one after the other.

    Raises: ToolMissing, CompileError where the network refuses, DeviceFault.
    """
    folder = built.folder
    (folder / "inputs.bin").write_bytes(inputs)
    command = [find(machine.emulator), "-M", machine.machine, "-display", "none", "-monitor", "none", "-serial", "none"]
    command += ["-bios", "none"] if machine.core.family == "riscv" else []
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", "program.elf"]
    marks = built.program.symbols["device_marks"] & ~1
    arguments = f"out=marks.txt,profile=profile.txt,marks={marks},count={built.marks},phase={2 * PHASES.index('run')}"
    command += ["-plugin", f"{counter(machine.emulator)},{arguments}"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CompileError(f"does not end within {TIMEOUT_S} seconds", where=machine.name) from None
    _check(machine, built.program, done)
    phases, layers = _read_marks(folder / "marks.txt")
    measures = tuple(int(word) for word in np.fromfile(folder / "measures.bin", "<u4"))
    functions = _read_profile(folder / "profile.txt", built.program)
    return Emulation((folder / "outputs.bin").read_bytes(), measures, phases, layers, functions)


def _check(machine: Machine, program: Program, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode == 0:
        return
    for line in done.stderr.splitlines():
        kind, _, text = line.partition(" ")
        if kind == "REFUSED":
            raise CompileError(f"the network says while {text}", where=machine.name)
        if kind == "FAULT":
            number, status, address = (int(word, 16) for word in text.split())
            left = machine.ram.size_bytes - sum(ram_bytes(program).values())
            raise DeviceFault(
                _fault(machine, program, number, status, address),
                where=machine.name,
                hint=f"{left:,} bytes of RAM are left for the stack",
            )
    first = next(iter(done.stderr.splitlines()), "")
    left = machine.ram.size_bytes - sum(ram_bytes(program).values())
    raise CompileError(
        f"the emulator ends with {done.returncode}: {first}",
        where=machine.name,
        hint=f"{left:,} bytes of RAM are left for the stack",
    )


def _fault(machine: Machine, program: Program, number: int, status: int, address: int) -> str:
    causes = [text for bit, text in _CAUSES.items() if status >> bit & 1] if machine.core.family == "arm" else []
    cause = " and ".join(causes) or f"exception {number}, status {status:#x}"
    return f"the program trapped at {address:#010x} in {program.function_at(address)}: {cause}"


def _read_marks(path: Path) -> tuple[dict[str, list[int]], list[tuple[int, int]]]:
    """Instructions between the marks of each phase, and of each layer with the number of its calls."""
    starts: dict[int, int] = {}
    phases: dict[str, list[int]] = {name: [] for name in PHASES}
    instructions: Counter[int] = Counter()
    calls: Counter[int] = Counter()
    for line in path.read_text(encoding="ascii").splitlines():
        mark, total = (int(word) for word in line.split())
        number, is_end = divmod(mark, 2)
        if not is_end:
            starts[number] = total
        elif number < len(PHASES):
            phases[PHASES[number]].append(total - starts[number])
        else:
            instructions[number - len(PHASES)] += total - starts[number]
            calls[number - len(PHASES)] += 1
    (marking,) = phases.pop("nothing")
    without = {name: [max(0, count - marking) for count in counts] for name, counts in phases.items()}
    return without, [(instructions[i], calls[i]) for i in range(max(calls, default=-1) + 1)]


def _read_profile(path: Path, program: Program) -> dict[str, int]:
    """Instructions by function, the most first."""
    found: Counter[str] = Counter()
    for line in path.read_text(encoding="ascii").splitlines():
        address, count = (int(word) for word in line.split())
        found[program.function_at(address)] += count
    return dict(found.most_common())
