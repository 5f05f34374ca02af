"""What every TFLite operator becomes. `CONVERTERS` is the whole list; nothing registers itself."""

from __future__ import annotations

from trivet.frontends.tflite.conversion import Converter
from trivet.frontends.tflite.ops import (
    activation,
    blocks,
    conv,
    custom,
    elementwise,
    matmul,
    movement,
    pool,
    quantize,
    reduce,
    resize,
    shape,
    slicing,
    state,
)

_FAMILIES = (
    activation,
    blocks,
    conv,
    custom,
    elementwise,
    matmul,
    movement,
    pool,
    quantize,
    reduce,
    resize,
    shape,
    slicing,
    state,
)

CONVERTERS: dict[str, Converter] = {
    kind: converter for family in _FAMILIES for kind, converter in family.CONVERTERS.items()
}
