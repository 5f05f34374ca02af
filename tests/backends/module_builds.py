"""Modules in temporary folders, compiled with warnings as errors and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from trivet.driver import Settings
from trivet.exporting import ModuleRequest, compile_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
STRICT = ["-std=c99", *_WARNINGS, "-Wmissing-prototypes", "-ffp-contract=off"]
CPP = ["-x", "c++", "-std=c++17", *_WARNINGS, "-Wno-missing-field-initializers"]
# Padding of structs says nothing; C99 declares where it is used; exact zeros and infinities are compared on purpose;
# and a cast of a call's result says what it says.
_JUSTIFIED = ["-Wno-padded", "-Wno-declaration-after-statement", "-Wno-float-equal", "-Wno-bad-function-cast"]
EVERYTHING = ["-std=c99", "-Weverything", *_JUSTIFIED, "-Werror"]


def needed(*programs: str, package: str) -> str:
    """The first of some programs that is installed; else the test skips."""
    for program in programs:
        if shutil.which(program):
            return program
    pytest.skip(f"{programs[0]} is not installed: apt-get install {package}")


def module(model: Path, output: Path, request: ModuleRequest, settings: Settings | None = None) -> list[str]:
    """Writes a module; its sources as arguments for a compiler."""
    compile_module(model, output, settings or Settings(), request)
    return [f"-I{output / 'include'}", f"-I{output / 'src'}", *map(str, sorted((output / "src").glob("*.[cS]")))]


def build(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def run(program: Path) -> str:
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
