"""From a network to a program for a machine, and what the program holds."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from trivet.core.record import dataclass
from trivet.device.elf import Program, read_program
from trivet.device.machines import Machine, Memory
from trivet.device.network import DATA, GUARD_BYTES, Network, memory_section
from trivet.device.tools import Toolchain, call, emulator_version, host_compiler
from trivet.errors import DoesNotFit

PHASES = ("nothing", "load", "init", "reset", "run")
"""As in data/device.h."""

SMALLEST_STACK = 1024
"""Bytes that a program must have left for its stack."""

_FLAGS = ("-O2", "-ffp-contract=off", "-fno-math-errno", "-ffunction-sections", "-fdata-sections")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What the user says: flags for the compiler beside ours, and whether unaligned accesses trap.

    `dump_layers`: a plan's memories are written to a file after every call of a kernel.
    """

    cflags: tuple[str, ...] = ()
    strict_alignment: bool = False
    dump_layers: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """A program in a folder of its own."""

    folder: Path
    program: Program
    marks: int


def build(machine: Machine, network: Network, toolchain: Toolchain, options: BuildOptions, folder: Path) -> Built:
    """Compiles and links a program in an empty folder.

    Raises: ToolMissing, Unsupported where something does not compile, DoesNotFit.
    """
    for name, data in network.files.items():
        (folder / name).write_bytes(data)
    start = "device_arm.c" if machine.core.family == "arm" else "device_riscv.c"
    for name in {start, network.main, "device_semihosting.c", "device.h"} - set(network.files):
        shutil.copyfile(DATA / name, folder / name)
    marks = 2 * (len(PHASES) + len(network.layers))
    flags = [*_FLAGS, *_alignment_flags(machine, options), *options.cflags]
    include = [f"-I{path}" for path in network.include] + _library_headers(toolchain)
    own = [f'-DDEVICE_MARKS="{marks}"', *network.defines, "-I."]
    own += ["-DDEVICE_DUMP_LAYERS"] if options.dump_layers else []
    names = sorted({*network.files, start, network.main, "device_semihosting.c"})
    written = [name for name in names if name.endswith((".c", ".S"))]
    if not toolchain.has_libc or options.strict_alignment:  # copies of newlib's are not aligned
        shutil.copyfile(DATA / "freestanding.c", folder / "freestanding.c")
        written.append("freestanding.c")
    command = [*toolchain.compile, "-std=c99", *flags, *include]
    objects = _compile_all(command, own, written, network.sources, folder)
    script = folder / "link.ld"
    script.write_text(link_script(machine, network, None), encoding="utf-8")
    link = [*toolchain.link, *flags, f"-T{script.name}", "-Wl,--gc-sections", *objects, "-o", "program.elf"]
    call([*link, *(["-lm"] if toolchain.has_libc else [])], folder, "the program")
    program = read_program(folder / "program.elf")
    check_fit(machine, program)
    return Built(folder, program, marks)


def _alignment_flags(machine: Machine, options: BuildOptions) -> list[str]:
    if not options.strict_alignment:
        return []
    flag = ["-mno-unaligned-access"] if machine.core.family == "arm" else ["-mstrict-align"]
    return [*flag, "-DDEVICE_STRICT_ALIGNMENT"]


def _library_headers(toolchain: Toolchain) -> list[str]:
    return [] if toolchain.has_libc else [f"-I{DATA / 'freestanding'}"]


def _compile_all(
    command: Sequence[str], own: Sequence[str], written: Sequence[str], sources: Sequence[Path], folder: Path
) -> list[str]:
    """Objects of the files in the folder, and of the sources elsewhere, which are compiled once in a process."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = [pool.submit(_compile, [*command, *own], name, folder) for name in written]
        others = [pool.submit(_compile_once, tuple(command), source) for source in sources]
        return [job.result() for job in (*jobs, *others)]


def _compile(command: Sequence[str], source: str, folder: Path) -> str:
    made = f"{source.partition('.')[0]}.o"
    call([*command, "-c", source, "-o", made], folder, source)
    return made


def _compile_once(command: tuple[str, ...], source: Path) -> str:
    key = hashlib.sha256("\0".join([*command, str(source), str(source.stat().st_mtime_ns)]).encode()).hexdigest()[:16]
    made = _objects() / f"{source.stem}-{key}.o"
    if not made.is_file():
        partial = made.with_suffix(f".{os.getpid()}.partial")
        call([*command, "-c", str(source), "-o", str(partial)], made.parent, source.name)
        partial.replace(made)
    return str(made)


@cache
def _keeper() -> tempfile.TemporaryDirectory[str]:
    """Objects of this process."""
    return tempfile.TemporaryDirectory(prefix="trivet-objects-")


def _objects() -> Path:
    return Path(_keeper().name)


def link_script(machine: Machine, network: Network, weights: str | None) -> str:
    """Where everything goes; `weights` names another memory for the constants than the flash."""
    storage = machine.storage or machine.flash
    values = {
        "FLASH": hex(machine.flash.origin),
        "RAM": hex(machine.ram.origin),
        "STORAGE": hex(storage.origin),
        "WEIGHTS": weights or "FLASH",
        "MEMORIES": "\n".join(_memory(index) for index in range(len(network.memories))),
        "STACK_TOP": hex(machine.ram.origin + machine.ram.size_bytes),
    }
    text = (DATA / "link.ld").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _memory(index: int) -> str:
    name = f"device_memory_{index}"
    return f"""\
    .memory.{index} (NOLOAD) : ALIGN(16)
    {{
        {name}_start = .;
        KEEP(*({memory_section(index)}))
        . = . + {GUARD_BYTES};
        {name}_end = .;
    }} > RAM"""


def check_fit(machine: Machine, program: Program) -> None:
    """Raises: DoesNotFit with the bytes that are missing."""
    flash, ram = flash_bytes(program), ram_bytes(program)
    flash_need, ram_need = sum(flash.values()), sum(ram.values()) + SMALLEST_STACK
    reasons = []
    if flash_need > machine.flash.size_bytes:
        reasons.append(_too_large("flash", flash_need, machine.flash, flash))
    if ram_need > machine.ram.size_bytes:
        reasons.append(_too_large("RAM", ram_need, machine.ram, {**ram, "stack, at least": SMALLEST_STACK}))
    if reasons:
        raise DoesNotFit("; ".join(reasons), where=machine.name, hint="`trivet targets` lists machines with more")


def _too_large(kind: str, need: int, memory: Memory, parts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
    over = need - memory.size_bytes
    return f"needs {need:,} bytes of {kind}, {over:,} more than the {memory.size_bytes:,} that there are ({listed})"


def flash_bytes(program: Program) -> dict[str, int]:
    """Bytes of flash by what is in them."""
    parts = {
        "code": ".text", "constants of code": ".rodata", "weights": ".weights", "initial data": ".data",
        "test program": ".device",
    }  # fmt: skip
    found = {name: program.bytes_of(section) for name, section in parts.items()}
    found["test program"] += program.bytes_of(".vectors") + program.bytes_of(".ARM")
    return found


def ram_bytes(program: Program) -> dict[str, int]:
    """Bytes of RAM by what is in them, without the stack and the guards of memories."""
    memories = [s for s in program.sections if s.name.startswith(".memory.")]
    working = sum(s.size_bytes - GUARD_BYTES for s in memories)
    return {"working memory": working, "data": program.bytes_of(".data"), "other": program.bytes_of(".bss")}


@cache
def counter(emulator: str) -> Path:
    """The plugin that counts instructions, built once in a process.

    Raises: ToolMissing, Unsupported.
    """
    made = _objects() / f"counter-{emulator}.so"
    version = 1 if emulator_version(emulator) < 9 else 2
    command = [host_compiler(), "-O2", "-shared", "-fPIC", f"-DPLUGIN_VERSION={version}", str(DATA / "counter.c")]
    call([*command, "-o", str(made)], made.parent, "the counter of instructions")
    return made


__all__ = ["PHASES", "BuildOptions", "Built", "build", "counter"]
