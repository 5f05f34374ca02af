"""What every TFLite operator becomes: each family is a module of this package, with its converters by kind."""

from __future__ import annotations

import importlib
from functools import cache

from trivet.frontends.options import ADDED_TFLITE
from trivet.frontends.tflite.conversion import Converter

FAMILIES = (
    "conv",
    "pool",
    "matmul",
    "movement",
    "activation",
    "elementwise",
    "shape",
    "reduce",
    "quantize",
    "slicing",
    "resize",
    "blocks",
    "state",
    "custom",
    "recurrent",
    "indexing",
    "control",
    "signal",
)
"""Those that most networks need come first: a family is imported when no earlier one knows an operator."""


@cache
def converter(kind: str) -> Converter | None:
    """What converts a kind of operator, None where nothing does."""
    known = (found for family in FAMILIES if (found := _converters_of(family).get(kind)) is not None)
    return next(known, ADDED_TFLITE.get(kind))


def converters() -> dict[str, Converter]:
    """Every converter by kind."""
    known = {kind: function for family in FAMILIES for kind, function in _converters_of(family).items()}
    return {**ADDED_TFLITE, **known}


@cache
def _converters_of(family: str) -> dict[str, Converter]:
    found: dict[str, Converter] = importlib.import_module(f"{__package__}.{family}").CONVERTERS
    return found
