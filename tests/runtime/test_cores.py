"""Inner loops that kernels' own tests reach only with the fastest set: every set gives the same bytes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest


class Core(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("level", ctypes.c_uint32),
        ("gemm", ctypes.c_void_p),
        ("depthwise", ctypes.c_void_p),
        ("linear", ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_uint32)),
    ]


class Linear(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("a_factor", "b_factor", "constant", "lo", "hi")),
        ("shift", ctypes.c_uint32),
    ]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 70])
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_linear(core: ctypes.CDLL, count: int, in_place: bool) -> None:
    core.trivet_core_s8_get.restype = ctypes.POINTER(Core)
    rng = np.random.default_rng(count)
    a, b = rng.integers(-128, 128, (2, count)).astype(np.int8)
    out = a if in_place else np.zeros(count, np.int8)
    linear = Linear(3_000_001, -4_100_001, 12_345_678, -100, 90, 22)
    sums = a.astype(np.int64) * linear.a_factor + b.astype(np.int64) * linear.b_factor + linear.constant
    expected = np.clip(sums >> linear.shift, linear.lo, linear.hi)
    core.trivet_core_s8_get().contents.linear(
        ctypes.byref(linear), a.ctypes.data, b.ctypes.data, out.ctypes.data, count
    )
    np.testing.assert_array_equal(out, expected)


def test_choice_is_known(core: ctypes.CDLL) -> None:
    """The sets have levels 0, 1, 2 in the order in which they are offered."""
    core.trivet_core_s8_get.restype = ctypes.POINTER(Core)
    chosen = core.trivet_core_s8_get().contents
    assert chosen.level == ["portable", "avx2", "avx512vnni"].index(chosen.name.decode())
