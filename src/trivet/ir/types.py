"""The type of a value: shape, element type, quantization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from trivet.core.access import Span
from trivet.core.dtype import DType
from trivet.core.quant import Quant
from trivet.core.record import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape, element type and, for quantized integers, how they stand for real numbers."""

    dtype: DType
    shape: Shape
    quant: Quant | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.dtype.size_bytes(self.elements)

    def with_shape(self, shape: Shape) -> TensorType:
        return replace(self, shape=shape)

    def part(self, region: Sequence[Span]) -> TensorType:
        """The type of the elements inside one span per axis; channels outside lose their scales."""
        quant = self.quant
        if quant is not None and quant.axis is not None:
            kept = slice(region[quant.axis].start, region[quant.axis].stop)
            quant = Quant(quant.scales[kept], quant.zero_points[kept], quant.axis)
        return TensorType(self.dtype, tuple(span.size for span in region), quant)

    def __str__(self) -> str:
        from_shape = ", ".join(str(d) for d in self.shape)
        return f"{self.dtype.name}[{from_shape}]"


Types = tuple[TensorType, ...]
