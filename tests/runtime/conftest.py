"""The runtime as a library built for the tests, with every warning an error."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest
from builds import SANITIZERS, UNDEFINED, built, runtime_sources


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The runtime with the checks of the undefined-behaviour sanitizer; a fault ends the process.

    Where the address sanitizer is loaded before everything else (test_sanitized.py), with its checks too.
    """
    checks = SANITIZERS if "libasan" in os.environ.get("LD_PRELOAD", "") else UNDEFINED
    flags = ["-O1", "-g", "-fPIC", "-ffp-contract=off", *checks]
    return ctypes.CDLL(str(built("libtrivet.so", runtime_sources(), flags, ["-shared"])))


@pytest.fixture(scope="session")
def device_library() -> ctypes.CDLL:
    """The runtime as a 32-bit machine without vectors has it: portable loops, little stack."""
    flags = ["-O1", "-g", "-fPIC", "-ffp-contract=off", "-DTRIVET_PORTABLE", "-DTRIVET_CHUNK_STEPS=4", *UNDEFINED]
    return ctypes.CDLL(str(built("libtrivet-device.so", runtime_sources(), flags, ["-shared"])))


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
