"""Windowed pools over the spatial axes, channels last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, require
from trivet.ir.types import Types
from trivet.ops.conv import NO_PADS, Pads2D, check_window, window_count
from trivet.ops.quantized import check_numerics, result


@dataclass(frozen=True, slots=True)
class MaxPool2D(Op):
    """Maximum over a window; padding never wins, and the quantization stays.

    x: [N, H, W, C] -> y: [N, window_count(H), window_count(W), C]
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    clamp: Bounds = UNBOUNDED
    name: ClassVar[str] = "max_pool2d"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].rank == 4, "max_pool2d takes one operand [N, H, W, C]")
        (x,) = types
        check_window("max_pool2d", self.stride, self.dilation, self.pads)
        extents = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        require(
            all(max(p) < e for p, e in zip(self.pads, extents, strict=True)),
            f"max_pool2d pads {self.pads} reach a window of padding alone",
        )
        rows, columns = (
            window_count(x.shape[i + 1], self.kernel[i], self.stride[i], self.dilation[i], self.pads[i]) for i in (0, 1)
        )
        require(rows > 0 and columns > 0, f"max_pool2d window {self.kernel} does not fit {x}")
        return (x.with_shape((x.shape[0], rows, columns, x.shape[3])),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AveragePool2D(Op):
    """Mean over a window: of the valid elements, or of all with padding as zero (`count_include_pad`).

    x: [N, H, W, C] -> y: [N, window_count(H), window_count(W), C]
    TFLite's integer pools average the stored values and keep the quantization; `out` then equals the operand's.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    count_include_pad: bool = False
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "average_pool2d"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].rank == 4, "average_pool2d takes one operand [N, H, W, C]")
        (x,) = types
        check_numerics("average_pool2d", x, self.out, self.numerics)
        check_window("average_pool2d", self.stride, (1, 1), self.pads)
        require(
            all(max(p) < k for p, k in zip(self.pads, self.kernel, strict=True)),
            f"average_pool2d pads {self.pads} reach a window of padding alone",
        )
        rows, columns = (window_count(x.shape[i + 1], self.kernel[i], self.stride[i], 1, self.pads[i]) for i in (0, 1))
        require(rows > 0 and columns > 0, f"average_pool2d window {self.kernel} does not fit {x}")
        return (result(x, (x.shape[0], rows, columns, x.shape[3]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError
