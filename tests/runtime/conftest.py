"""The runtime as a library built for the tests, with every warning an error."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import trivet

RUNTIME = Path(trivet.__file__).parent / "runtime"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wcast-align", "-Werror"]


def runtime_sources() -> list[str]:
    return [str(path) for path in sorted((RUNTIME / "src").rglob("*.c"))]


def compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return name
    pytest.skip("no C compiler: apt-get install gcc")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The runtime with the checks of the undefined-behaviour sanitizer; a fault ends the process."""
    path = tmp_path_factory.mktemp("runtime") / "libtrivet-test.so"
    flags = ["-O1", "-g", "-fPIC", "-shared", "-ffp-contract=off", f"-I{RUNTIME / 'include'}"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    subprocess.run([compiler(), *WARNINGS, *flags, *runtime_sources(), "-o", str(path), "-lm"], check=True)
    return ctypes.CDLL(str(path))


CORES = ("portable", "avx2", "avx512vnni")


@pytest.fixture(params=range(len(CORES)), ids=CORES)
def core(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Iterator[ctypes.CDLL]:
    """The library with one set of inner loops chosen."""
    library.trivet_core_s8_at.restype = ctypes.c_void_p
    if not library.trivet_core_s8_at(ctypes.c_uint32(request.param)):
        pytest.skip(f"this processor has no {CORES[request.param]}")
    library.trivet_core_s8_choose(ctypes.c_uint32(request.param))
    yield library
    library.trivet_core_s8_choose(ctypes.c_uint32(0xFFFFFFFF))
