"""Trivet: an ahead-of-time compiler that fits neural networks into machines with kilobytes.

    model = trivet.load("kws.tflite")
    artifact = trivet.compile("kws.tflite", fast="16K")
    outputs = artifact.run([x])

The names below live in `trivet.driver`, which is imported when one of them is first used: `import trivet` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trivet.driver import Settings, load

__version__ = "0.1.0"

__all__ = ["Settings", "__version__", "load"]


def __getattr__(name: str) -> object:
    if name in __all__:
        value: object = getattr(importlib.import_module("trivet.driver"), name)
        return value
    raise AttributeError(f"module 'trivet' has no attribute {name!r}")
