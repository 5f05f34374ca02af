"""Convolutions under the name that their shape deserves."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by


@dataclass(frozen=True, slots=True)
class Relabel(Pass):
    """conv2d{groups=C}(%x: [.., C], w: [C*m, KH, KW, 1])  -->  depthwise_conv2d(%x, w: [KH, KW, C*m]), C > 1;
    depthwise_conv2d(%x: [.., 1], w: [KH, KW, m])  -->  conv2d(%x, w: [m, KH, KW, 1]).

    Weights are constants, or constants behind a dequantize; a per-channel axis moves along.
    """

    name: ClassVar[str] = "relabel"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            channels = node.inputs[0].type.shape[-1] if node.inputs and node.inputs[0].type.rank else 0
            match node.op:
                case Conv2D(groups=groups) if 1 < groups == channels:
                    _to_depthwise(rw, node)
                case DepthwiseConv2D() if channels == 1:
                    _to_convolution(rw, node)


def _to_depthwise(rw: Rewriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, Conv2D)
    weights = rearranged(rw, node, lambda w: w[..., 0].transpose(1, 2, 0), axis=2)
    if weights is not None:
        depthwise = DepthwiseConv2D(op.stride, op.dilation, op.pads, op.clamp, op.out, op.numerics)
        old = node.inputs[1]
        rw.replace_node(node, depthwise, [node.inputs[0], weights, *node.inputs[2:]])
        rw.erase_dead_producers(old)
        rw.count("groups as depthwise")


def _to_convolution(rw: Rewriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, DepthwiseConv2D)
    if op.numerics is Numerics.LITERT_U8:
        return  # the two uint8 kernels may round apart
    weights = rearranged(rw, node, lambda w: w.transpose(2, 0, 1)[..., None], axis=0)
    if weights is not None:
        conv = Conv2D(op.stride, op.dilation, op.pads, 1, op.clamp, op.out, op.numerics)
        old = node.inputs[1]
        rw.replace_node(node, conv, [node.inputs[0], weights, *node.inputs[2:]])
        rw.erase_dead_producers(old)
        rw.count("depthwise of one channel")


def rearranged(rw: Rewriter, node: Node, move: Callable[[Array], Array], axis: int) -> Value | None:
    """Operand 1 of `node` with its elements moved and its output channels along `axis`; None if it is no constant."""
    weights = node.inputs[1]
    source = made_by(weights, Dequantize)
    constant = weights if source is None else source.inputs[0]
    if constant.data is None:
        return None
    data = np.ascontiguousarray(move(constant.data))
    quant = constant.type.quant
    if quant is not None and quant.axis is not None:
        if len(quant.scales) > 1 and len(quant.scales) != data.shape[axis]:
            return None
        quant = Quant(quant.scales, quant.zero_points, axis)
    moved = rw.constant(data, TensorType(constant.type.dtype, data.shape, quant), constant.name)
    return moved if source is None else rw.insert_before(node, Dequantize(), [moved])
