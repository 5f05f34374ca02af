"""Random int8 and float32 layers for the tests of convolutions, dense layers and pools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Array
from trivet.ir.types import TensorType

Constant = tuple[Array, TensorType]

CONTRACTS = (Numerics.TFLM, Numerics.LITERT, Numerics.LITERT_U8, Numerics.ONNX)


class Layers:
    """Operands with full ranges and scales that spread the results over the whole output range."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def activation(self, shape: Sequence[int], zero: int | None = None) -> tuple[Array, TensorType]:
        zero = int(self.rng.integers(-128, 128)) if zero is None else zero
        x = self.rng.integers(-128, 128, shape).astype(np.int8)
        return x, TensorType(I8, tuple(shape), Quant.per_tensor(self.rng.uniform(0.01, 0.1), zero))

    def weights(self, shape: Sequence[int], axis: int | None = 0, zero: int = 0) -> Constant:
        w = self.rng.integers(-128, 128, shape).astype(np.int8)
        if axis is None:
            return w, TensorType(I8, tuple(shape), Quant.per_tensor(self.rng.uniform(0.001, 0.02), zero))
        scales = self.rng.uniform(0.001, 0.02, shape[axis])
        return w, TensorType(I8, tuple(shape), Quant.per_axis(scales, np.zeros(shape[axis]), axis))

    def bias(self, channels: int, size: int = 20000) -> Constant:
        return self.rng.integers(-size, size, channels).astype(np.int32), TensorType(I32, (channels,))

    def out(self, products: int, zero: int | None = None) -> Quant:
        """An output scale under which sums of so many products fill the range."""
        spread = 0.05 * 0.01 * 74 * 74 * np.sqrt(products) / 60
        zero = int(self.rng.integers(-128, 128)) if zero is None else zero
        return Quant.per_tensor(spread * self.rng.uniform(0.7, 1.5), zero)

    def clamp(self, out: Quant) -> Bounds:
        return UNBOUNDED if self.rng.random() < 0.5 else Bounds(out.zero_point, 127)

    def floats(self, shape: Sequence[int]) -> tuple[Array, TensorType]:
        return self.rng.normal(size=shape).astype(np.float32), TensorType(F32, tuple(shape))
