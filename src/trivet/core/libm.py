"""Float32 functions of the C library, as the reference runtimes call them.

numpy's own float32 functions differ in the last bit now and then, which flips an entry of an int8 table in about 10^4.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Function = Callable[[Float32s], Float32s]

# The interpreter itself is linked with the mathematics library; looking it up by name would start processes.
_LIBRARY = ctypes.CDLL("ucrtbase") if sys.platform == "win32" else ctypes.CDLL(None)


def _function(name: str) -> Function:
    scalar = getattr(_LIBRARY, name)
    scalar.restype = ctypes.c_float
    scalar.argtypes = [ctypes.c_float]

    def apply(x: Float32s) -> Float32s:
        results = np.fromiter((scalar(v) for v in x.ravel().tolist()), np.float32, x.size)
        return results.reshape(x.shape)

    apply.__name__ = name
    return apply


expf = _function("expf")
tanhf = _function("tanhf")
erfcf = _function("erfcf")
