"""The arithmetic contracts: which reference an integer operator equals."""

from __future__ import annotations

from enum import Enum


class Numerics(Enum):
    """The reference whose integer results an operator reproduces.

    `TFLM` and `LITERT` are bit exact. `LITERT_U8` is LiteRT's arithmetic of uint8 tensors, restated on int8 values with
    zero points moved by 128: some of its multipliers and roundings differ from the int8 kernels. `ONNX` is ONNX Runtime
    without optimizations: float32 requantization, round half to even.
    """

    TFLM = "tflm"
    LITERT = "litert"
    LITERT_U8 = "litert_u8"
    ONNX = "onnx"

    @property
    def is_litert(self) -> bool:
        return self in (Numerics.LITERT, Numerics.LITERT_U8)


class Overflow(Enum):
    """What plain integer arithmetic does beyond its type: never happens (proved) or wraps modulo 2^bits."""

    EXACT = "exact"
    WRAPS = "wraps"
