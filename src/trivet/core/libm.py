"""Float32 functions of the C library, as the reference runtimes call them.

numpy's own float32 functions differ in the last bit now and then, which flips an entry of an int8 table in about 10^4.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Float32s: TypeAlias = "npt.NDArray[np.float32]"
Function = Callable[[Float32s], Float32s]


@cache
def _scalar(name: str) -> ctypes._NamedFuncPointer:
    """A function of one float. The interpreter itself is linked with the library; to look that up starts processes."""
    scalar = getattr(ctypes.CDLL("ucrtbase") if sys.platform == "win32" else ctypes.CDLL(None), name)
    scalar.restype = ctypes.c_float
    scalar.argtypes = [ctypes.c_float]
    return scalar  # type: ignore[no-any-return]


def _function(name: str) -> Function:
    def apply(x: Float32s) -> Float32s:
        scalar = _scalar(name)
        results = np.fromiter((scalar(v) for v in x.ravel().tolist()), np.float32, x.size)
        return results.reshape(x.shape)

    apply.__name__ = name
    return apply


expf = _function("expf")
tanhf = _function("tanhf")
erfcf = _function("erfcf")
