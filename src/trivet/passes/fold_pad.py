"""Explicit padding into the window operator that reads it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, DepthwiseConv2D, Pads2D
from trivet.ops.movement import Pad, PadMode
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by

WINDOWED = (Conv2D, DepthwiseConv2D, MaxPool2D, AveragePool2D)


@dataclass(frozen=True, slots=True)
class FoldPad(Pass):
    """conv2d(pad{zero}(%x))  -->  conv2d{pads}(%x), where zero is the operand's zero point; depthwise alike;
    max_pool2d(pad{smallest value}(%x))  -->  max_pool2d{pads}(%x);
    average_pool2d(pad{zero}(%x))  -->  average_pool2d{pads, count_include_pad}(%x), in float and under `onnx`.

    Only rows and columns may be padded, and no side by more than the kernel: a longer one stays explicit, because
    the kernels take no such padding.
    """

    name: ClassVar[str] = "fold-pad"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            pad = made_by(node.inputs[0], Pad) if isinstance(node.op, WINDOWED) else None
            if pad is not None:
                _fold(rw, node, pad)


def _fold(rw: Rewriter, node: Node, pad: Node) -> None:
    op, fill = node.op, pad.op
    assert isinstance(op, WINDOWED) and isinstance(fill, Pad)
    spatial_only = fill.before[0] == fill.after[0] == fill.before[3] == fill.after[3] == 0
    if fill.mode is not PadMode.CONSTANT or not spatial_only or not _value_vanishes(op, fill, pad.output.type):
        return
    (top, bottom), (left, right) = op.pads
    pads = ((top + fill.before[1], bottom + fill.after[1]), (left + fill.before[2], right + fill.after[2]))
    if not _kernel_takes(op, pads, node):
        return
    padded = replace(op, pads=pads)
    if isinstance(padded, AveragePool2D):
        padded = replace(padded, count_include_pad=True)
    old = node.inputs[0]
    rw.replace_node(node, padded, [pad.inputs[0], *node.inputs[1:]])
    rw.erase_dead_producers(old)
    rw.count(f"pad into {op.name}")


def _value_vanishes(op: Conv2D | DepthwiseConv2D | MaxPool2D | AveragePool2D, fill: Pad, x: TensorType) -> bool:
    zero = 0 if x.quant is None else x.quant.zero_point
    if isinstance(op, MaxPool2D):
        return fill.value == (-math.inf if x.dtype.is_float else x.dtype.min)
    if isinstance(op, AveragePool2D):
        own = op.pads != ((0, 0), (0, 0)) and not op.count_include_pad
        return not own and fill.value == zero and op.numerics in (None, Numerics.ONNX)
    return fill.value == zero


def _kernel_takes(op: Conv2D | DepthwiseConv2D | MaxPool2D | AveragePool2D, pads: Pads2D, node: Node) -> bool:
    if isinstance(op, MaxPool2D | AveragePool2D):
        return all(max(side) < kernel for side, kernel in zip(pads, op.kernel, strict=True))
    first = 1 if isinstance(op, Conv2D) else 0
    kernel = node.inputs[1].type.shape[first : first + 2]
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, op.dilation, strict=True)]
    return all(max(side) <= extent for side, extent in zip(pads, extents, strict=True))
