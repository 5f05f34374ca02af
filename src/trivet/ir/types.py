"""The type of a value: shape, element type, quantization."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trivet.core.dtype import DType
from trivet.core.quant import Quant

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

    def __str__(self) -> str:
        from_shape = ", ".join(str(d) for d in self.shape)
        return f"{self.dtype.name}[{from_shape}]"


Types = tuple[TensorType, ...]
