"""Resampling of the spatial axes, channels last."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from trivet.core.numerics import Numerics
from trivet.ir.op import Arrays, Op, require
from trivet.ir.types import TensorType, Types
from trivet.ops.quantized import QUANTIZED


class Coordinates(Enum):
    """How an output index becomes an operand position (the names of ONNX's Resize)."""

    HALF_PIXEL = "half_pixel"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    TF_HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"


class NearestRounding(Enum):
    """Which neighbour a fractional position takes."""

    FLOOR = "floor"
    CEIL = "ceil"
    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"


def resized(name: str, types: Types, size: tuple[int, int]) -> TensorType:
    """Raises: TypeMismatch."""
    require(len(types) == 1 and types[0].rank == 4, f"{name} takes one operand [N, H, W, C]")
    require(min(size) > 0, f"{name} to {size}")
    n, _, _, c = types[0].shape
    return types[0].with_shape((n, *size, c))


@dataclass(frozen=True, slots=True)
class ResizeNearest(Op):
    """The nearest element.

    x: [N, H, W, C] -> y: [N, *size, C]
    `scales` are output per input; None means size / input size.
    """

    size: tuple[int, int]
    coordinates: Coordinates = Coordinates.ASYMMETRIC
    rounding: NearestRounding = NearestRounding.FLOOR
    scales: tuple[float, float] | None = None
    name: ClassVar[str] = "resize_nearest"

    def infer(self, types: Types) -> Types:
        return (resized("resize_nearest", types, self.size),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ResizeBilinear(Op):
    """Weighted mean of the four neighbours; the quantization stays.

    x: [N, H, W, C] -> y: [N, *size, C]
    `scales` are output per input; None means size / input size.
    """

    size: tuple[int, int]
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    scales: tuple[float, float] | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "resize_bilinear"

    def infer(self, types: Types) -> Types:
        y = resized("resize_bilinear", types, self.size)
        require((self.numerics is not None) == (y.dtype in QUANTIZED), "resize_bilinear takes `numerics` iff quantized")
        return (y,)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError
