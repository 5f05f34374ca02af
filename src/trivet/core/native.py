"""Finds and opens the C library of this package, which holds the runtime and the planner's search for addresses."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")

LIBRARY = Path(__file__).resolve().parents[1] / "_lib" / f"{'' if sys.platform == 'win32' else 'lib'}trivet{_SUFFIX}"
"""Where the build puts the library."""


def open_library() -> ctypes.CDLL:
    """The library; it may be of another version than this package.

    Raises: OSError where it is not built or cannot be loaded.
    """
    return ctypes.CDLL(str(LIBRARY))
