"""Trivet: an ahead-of-time compiler that fits neural networks into machines with kilobytes.

    artifact = trivet.compile("kws.tflite", trivet.Settings(fast_bytes=16 * 1024))
    outputs = artifact.run([x])

What the names below stand for is imported when one of them is first used: `import trivet` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from trivet.core.version import __version__

if TYPE_CHECKING:
    from trivet.api import Analysis, Artifact, Settings, analyze, compile, load

__all__ = ["Analysis", "Artifact", "Settings", "__version__", "analyze", "compile", "load"]


def __getattr__(name: str) -> object:
    if name in __all__:
        value: object = getattr(importlib.import_module("trivet.api"), name)
        return value
    raise AttributeError(f"module 'trivet' has no attribute {name!r}")
