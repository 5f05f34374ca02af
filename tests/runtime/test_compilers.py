"""Kernels with inner loops for several machines compile without a warning, optimized, whatever the machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from builds import RUNTIME, WARNINGS

CLANGS = [name for name in ("clang", "clang-14") if shutil.which(name)][:1]
X86_ALONE = ("core_s8_avx2.c", "requant_s8_avx512.h", "core_s8_avx512.c", "core_f32_avx2.c", "core_f32_avx512.c")
BUILDS = {"gcc, optimized": ("gcc", ["-O3"]), "gcc, portable": ("gcc", ["-O3", "-DTRIVET_PORTABLE"])}
BUILDS |= {f"{clang}, optimized": (clang, ["-O2"]) for clang in CLANGS}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler: apt-get install gcc")
@pytest.mark.parametrize("name", BUILDS)
def test_strict_build(name: str, tmp_path: Path) -> None:
    compiler, flags = BUILDS[name]
    sources = [str(s) for s in (RUNTIME / "src/kernels").glob("*.c") if s.name.startswith(("core", "conv", "depth"))]
    command = [compiler, *WARNINGS, *flags, f"-I{RUNTIME / 'include'}", "-c", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: apt-get install g++")
def test_portable_kernels_are_cpp_too(tmp_path: Path) -> None:
    """Projects in C++ may compile them as such."""
    sources = [str(s) for s in (RUNTIME / "src/kernels").glob("*.c") if s.name not in X86_ALONE]
    flags = "-std=c++17 -x c++ -fsyntax-only -DTRIVET_PORTABLE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
    command = ["g++", *flags.split(), "-Wno-missing-field-initializers", f"-I{RUNTIME / 'include'}", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_x86_files_are_known() -> None:
    """What is not portable is in these files, and is empty elsewhere."""
    found = [
        path.name for path in (RUNTIME / "src").rglob("*.[ch]") if "immintrin.h" in path.read_text(encoding="utf-8")
    ]
    assert sorted(found) == sorted(X86_ALONE)
