"""Builds of the C runtime for the tests, with every warning an error. Objects are kept in build/tests by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import trivet

CHECKOUT = Path(__file__).resolve().parents[2]
RUNTIME = Path(trivet.__file__).parent / "runtime"
FUZZ = CHECKOUT / "tests/fuzz"
CACHE = CHECKOUT / "build/tests"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wcast-align", "-Werror"]
INCLUDES = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}", f"-I{FUZZ}"]
UNDEFINED = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def runtime_sources() -> list[Path]:
    return sorted((RUNTIME / "src").rglob("*.c"))


def compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return name
    pytest.skip("no C compiler: apt-get install gcc")


def built(name: str, sources: Sequence[Path], flags: Sequence[str], link: Sequence[str] = ()) -> Path:
    """The program or library of these sources; nothing is compiled twice."""
    cc = compiler()
    headers = _digest([*RUNTIME.rglob("*.h"), *FUZZ.glob("*.h")], [])
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: _object(cc, source, [*WARNINGS, *flags, *INCLUDES], headers), sources))
    key = hashlib.sha256("".join(sorted(o.name for o in objects)).encode()).hexdigest()[:16]
    target = CACHE / f"{key}-{name}"
    if not target.exists():
        _compiled([cc, *flags, *link, *map(str, objects), "-lm"], target)
    return target


def _object(cc: str, source: Path, flags: Sequence[str], headers: str) -> Path:
    target = CACHE / f"{_digest([source], [cc, headers, *flags])}-{source.stem}.o"
    if not target.exists():
        _compiled([cc, *flags, "-c", str(source)], target)
    return target


def _compiled(command: Sequence[str], target: Path) -> None:
    """Several processes may build the same at once: the last one wins, whole."""
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    done = subprocess.run([*command, "-o", str(partial)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    partial.replace(target)


def _digest(files: Iterable[Path], texts: Iterable[str]) -> str:
    digest = hashlib.sha256("\0".join(texts).encode())
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
