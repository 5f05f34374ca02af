"""The programs that building for a device and emulating it take: where they are, and how to install one that is not."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from trivet.core.record import dataclass
from trivet.device.machines import Core, Machine
from trivet.errors import CompileError, Unsupported

APT = "apt-get install -y --no-install-recommends"
_INSTALL = {
    "qemu-system-arm": f"{APT} qemu-system-arm",
    "qemu-system-riscv32": f"{APT} qemu-system-misc",
    "arm-none-eabi-gcc": f"{APT} gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "riscv64-unknown-elf-gcc": f"{APT} gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    "clang": f"{APT} clang lld",
    "ld.lld": f"{APT} lld",
    "zig": "pip install ziglang",
    "cc": f"{APT} gcc",
}
_GCC = {"arm": "arm-none-eabi-gcc", "riscv": "riscv64-unknown-elf-gcc"}

COMPILERS = ("gcc", "clang", "zig")


class ToolMissing(CompileError):
    """A program that is not installed; the hint is the command that installs it. Exits 2."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A cross compiler: how it compiles and how it links. `has_libc` False: it brings no C library of its own."""

    name: str
    compile: tuple[str, ...]
    link: tuple[str, ...]
    has_libc: bool

    @property
    def version(self) -> str:
        """The compiler's first line about itself."""
        return _version(self.compile[:-1] if self.name == "zig" else self.compile[:1], self.name)


@cache
def _version(command: tuple[str, ...], name: str) -> str:
    program = command if name != "zig" else command[: command.index("cc")]
    done = subprocess.run(
        [*program, *(["version"] if name == "zig" else ["--version"])], capture_output=True, text=True
    )
    first = (done.stdout.splitlines() or ["?"])[0]
    return f"zig {first}" if name == "zig" else first


def toolchain(machine: Machine, chosen: str | None = None) -> Toolchain:
    """The compiler `chosen`, or the first of gcc, clang and zig that there is.

    Raises: ToolMissing.
    """
    if chosen is not None:
        return _MAKERS[chosen](machine.core)
    missing = None
    for name in COMPILERS:
        try:
            return _MAKERS[name](machine.core)
        except ToolMissing as error:
            missing = missing or error
    assert missing is not None
    raise ToolMissing(
        f"{machine.core.name} needs a cross compiler: none of gcc, clang and zig is here",
        hint=f"{missing.hint}, or {_INSTALL['zig']}",
    )


def _gcc(core: Core) -> Toolchain:
    program = find(_GCC[core.family])
    libraries = ("--specs=picolibc.specs",) if core.family == "riscv" else ("--specs=nosys.specs",)
    compile_ = (program, *core.gcc, *(libraries if core.family == "riscv" else ()))
    return Toolchain("gcc", compile_, (program, *core.gcc, *libraries, "-nostartfiles"), True)


def _clang(core: Core) -> Toolchain:
    """Links with gcc where it is installed, as its libraries hold what the compiler calls."""
    names = ["clang", *(f"clang-{version}" for version in range(25, 13, -1))]
    program = next((name for name in names if shutil.which(name)), None) or find("clang")
    linker = _gcc(core).link
    return Toolchain("clang", (find(program), *core.clang, "-ffreestanding"), linker, False)


def _zig(core: Core) -> Toolchain:
    if importlib.util.find_spec("ziglang") is not None:
        program: tuple[str, ...] = (sys.executable, "-m", "ziglang")
    else:
        program = (find("zig"),)
    command = (*program, "cc", *core.zig, "-ffreestanding", "-fno-sanitize=all")
    return Toolchain("zig", command, (*command, "-nostdlib", "-lcompiler_rt"), False)


_MAKERS = {"gcc": _gcc, "clang": _clang, "zig": _zig}


def find(program: str) -> str:
    """Where a program is.

    Raises: ToolMissing.
    """
    path = shutil.which(program)
    if path is None:
        raise ToolMissing(f"{program} is not installed", hint=_INSTALL.get(program, f"install {program}"))
    return path


def host_compiler() -> str:
    """The C compiler of this machine.

    Raises: ToolMissing.
    """
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None) or find("cc")


@cache
def emulator_version(program: str) -> int:
    """The major version of an emulator."""
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"version (\d+)", text)
    return int(match[1]) if match else 0


def call(command: Sequence[str], folder: Path, what: str) -> str:
    """Runs a compiler in a folder; what it wrote on its error stream.

    Raises: Unsupported with its first complaints.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        complaints = [line for line in done.stderr.splitlines() if re.search("error|undefined|cannot|unknown", line)]
        raise Unsupported(f"{what} does not build:\n  " + "\n  ".join(complaints[:8]))
    return done.stderr
