"""Convolutions: channels last, weights as stored by the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, require
from trivet.ir.types import TensorType, Types
from trivet.ops.quantized import check_bias, check_numerics, result

Pads2D = tuple[tuple[int, int], tuple[int, int]]
"""((top, bottom), (left, right))."""

NO_PADS: Pads2D = ((0, 0), (0, 0))


def window_count(size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> int:
    """How many windows fit: floor((size + before + after - extent) / stride) + 1, extent = (kernel-1)*dilation + 1."""
    return (size + pads[0] + pads[1] - (kernel - 1) * dilation - 1) // stride + 1


def check_window(name: str, stride: tuple[int, int], dilation: tuple[int, int], pads: Pads2D) -> None:
    """Raises: TypeMismatch."""
    require(min(stride) > 0 and min(dilation) > 0, f"{name} needs positive stride and dilation")
    require(all(p >= 0 for side in pads for p in side), f"{name} needs non-negative pads, got {pads}")


@dataclass(frozen=True, slots=True)
class Conv2D(Op):
    """Sum of products over a window and the channels of a group; padding counts as the zero point.

    x: [N, H, W, C], w: [O, KH, KW, C/groups], bias: [O] (optional)
    -> y: [N, window_count(H), window_count(W), O]
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    groups: int = 1
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "conv2d"

    def infer(self, types: Types) -> Types:
        require(len(types) in (2, 3), f"conv2d takes 2 or 3 operands, got {len(types)}")
        x, w = types[:2]
        check_numerics("conv2d", x, self.out, self.numerics)
        check_window("conv2d", self.stride, self.dilation, self.pads)
        require(x.rank == 4 and w.rank == 4, f"conv2d takes [N, H, W, C] and [O, KH, KW, C/groups], got {x} and {w}")
        require(
            w.shape[3] * self.groups == x.shape[3] and w.shape[0] % self.groups == 0,
            f"conv2d with {self.groups} groups does not take {x.shape[3]} channels with weights {w}",
        )
        if len(types) == 3:
            check_bias("conv2d", x, types[2], w.shape[0])
        return (result(x, self._shape(x, w), self.out),)

    def _shape(self, x: TensorType, w: TensorType) -> tuple[int, int, int, int]:
        rows, columns = (
            window_count(x.shape[axis], w.shape[axis], self.stride[i], self.dilation[i], self.pads[i])
            for i, axis in ((0, 1), (1, 2))
        )
        require(rows > 0 and columns > 0, f"conv2d window {w.shape[1:3]} does not fit {x} with pads {self.pads}")
        return x.shape[0], rows, columns, w.shape[0]

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError

    def macs(self, types: Types) -> int:
        w = types[1]
        return self.infer(types)[0].elements * w.elements // w.shape[0]


@dataclass(frozen=True, slots=True)
class DepthwiseConv2D(Op):
    """One filter per channel, `multiplier` outputs each; output channel o reads input channel o // multiplier.

    x: [N, H, W, C], w: [KH, KW, C*multiplier], bias: [C*multiplier] (optional)
    -> y: [N, window_count(H), window_count(W), C*multiplier]
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "depthwise_conv2d"

    def infer(self, types: Types) -> Types:
        require(len(types) in (2, 3), f"depthwise_conv2d takes 2 or 3 operands, got {len(types)}")
        x, w = types[:2]
        check_numerics("depthwise_conv2d", x, self.out, self.numerics)
        check_window("depthwise_conv2d", self.stride, self.dilation, self.pads)
        require(x.rank == 4 and w.rank == 3, f"depthwise_conv2d takes [N, H, W, C] and [KH, KW, C*m], got {x} and {w}")
        require(w.shape[2] % x.shape[3] == 0, f"depthwise_conv2d weights {w} do not divide over {x.shape[3]} channels")
        if len(types) == 3:
            check_bias("depthwise_conv2d", x, types[2], w.shape[2])
        rows, columns = (
            window_count(x.shape[i + 1], w.shape[i], self.stride[i], self.dilation[i], self.pads[i]) for i in (0, 1)
        )
        require(rows > 0 and columns > 0, f"depthwise_conv2d window {w.shape[:2]} does not fit {x}")
        return (result(x, (x.shape[0], rows, columns, w.shape[2]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError

    def macs(self, types: Types) -> int:
        w = types[1]
        return self.infer(types)[0].elements * w.shape[0] * w.shape[1]


@dataclass(frozen=True, slots=True)
class ConvTranspose2D(Op):
    """The transpose of a convolution: every input pixel adds its filter into the output, then `pads` are cut off.

    x: [N, H, W, C], w: [O, KH, KW, C/groups], bias: [O] (optional)
    -> y: [N, (H-1)*sh + (KH-1)*dh + 1 - top - bottom + output_pads[0], ..., O]
    Output channel o belongs to group o // (O/groups).
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads2D = NO_PADS
    output_pads: tuple[int, int] = (0, 0)
    groups: int = 1
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "conv_transpose2d"

    def infer(self, types: Types) -> Types:
        require(len(types) in (2, 3), f"conv_transpose2d takes 2 or 3 operands, got {len(types)}")
        x, w = types[:2]
        check_numerics("conv_transpose2d", x, self.out, self.numerics)
        check_window("conv_transpose2d", self.stride, self.dilation, ((0, 0), (0, 0)))
        require(x.rank == 4 and w.rank == 4, f"conv_transpose2d takes [N, H, W, C] and [O, KH, KW, C], got {x} and {w}")
        require(
            w.shape[3] * self.groups == x.shape[3] and w.shape[0] % self.groups == 0,
            f"conv_transpose2d with {self.groups} groups does not take {x.shape[3]} channels with weights {w}",
        )
        if len(types) == 3:
            check_bias("conv_transpose2d", x, types[2], w.shape[0])
        rows, columns = (
            (x.shape[i + 1] - 1) * self.stride[i]
            + (w.shape[i + 1] - 1) * self.dilation[i]
            + 1
            - sum(self.pads[i])
            + self.output_pads[i]
            for i in (0, 1)
        )
        require(rows > 0 and columns > 0, f"conv_transpose2d pads {self.pads} leave nothing of {x}")
        return (result(x, (x.shape[0], rows, columns, w.shape[0]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError

    def macs(self, types: Types) -> int:
        x, w = types[:2]
        return x.elements * w.elements // w.shape[3]
