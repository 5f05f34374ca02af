"""Converters of ONNX operators, one file a family. `CONVERTERS` is the whole list; nothing registers itself."""

from __future__ import annotations

from trivet.frontends.onnx.context import Converter
from trivet.frontends.onnx.ops import (
    activation,
    attention,
    control,
    conv,
    cropping,
    dynamic,
    dynamic_recurrent,
    einsum,
    elementwise,
    indexing,
    losses,
    matmul,
    movement,
    normalization,
    pool,
    qoperator,
    quantize,
    recurrent,
    reduce,
    resize,
    sampling,
    sequence,
    shapes,
    spectral,
    trees,
)
from trivet.frontends.options import ADDED_ONNX

_FAMILIES = (
    activation,
    attention,
    control,
    conv,
    cropping,
    dynamic,
    dynamic_recurrent,
    einsum,
    elementwise,
    indexing,
    losses,
    matmul,
    movement,
    normalization,
    pool,
    qoperator,
    quantize,
    recurrent,
    reduce,
    resize,
    sampling,
    sequence,
    shapes,
    spectral,
    trees,
)

CONVERTERS: dict[tuple[str, str], Converter] = {}
"""By (domain, kind); ONNX's own domain is ""."""

for _family in _FAMILIES:
    assert not CONVERTERS.keys() & _family.ONNX.by_kind.keys(), "two families convert one operator"
    CONVERTERS.update(_family.ONNX.by_kind)


def converters() -> dict[tuple[str, str], Converter]:
    """Every converter by operator."""
    return {**ADDED_ONNX, **CONVERTERS}
