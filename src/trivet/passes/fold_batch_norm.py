"""Per-channel scale and shift after a float product, into its weights and bias."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.bounds import UNBOUNDED
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.conv import DepthwiseConv2D
from trivet.ops.elementwise import Add, Div, Mul, Sub
from trivet.passes.base import Pass, Preserves, Relative
from trivet.passes.fold_bias import bare_product
from trivet.passes.patterns import per_channel, same_constant

Vector: TypeAlias = "npt.NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class FoldBatchNorm(Pass):
    """add(mul(conv2d(%x, w, b), s), t)  -->  conv2d(%x, w * s, b * s + t), for constants s and t along the output
    channels of a float convolution, depthwise convolution, transposed convolution or dense layer; sub and div alike.

    Never into quantized weights, which would be rounded again.
    """

    name: ClassVar[str] = "fold-batch-norm"
    preserves: ClassVar[Preserves] = Relative(1e-5)

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            affine = _affine(node)
            if affine is None:
                continue
            product, scale, shift = affine
            producer = bare_product(rw, product)
            if producer is not None and all(operand.is_constant for operand in producer.inputs[1:]):
                _fold(rw, node, producer, scale, shift)


def _affine(node: Node) -> tuple[Value, Vector, Vector] | None:
    """The operand x, scale and shift of a node that computes x * scale + shift along the last axis: [channels]."""
    op = node.op
    if not isinstance(op, Mul | Add | Sub | Div) or op.clamp != UNBOUNDED or not node.output.type.dtype.is_float:
        return None
    x, constant = node.inputs
    if x.is_constant and not isinstance(op, Sub | Div):
        x, constant = constant, x
    if x.type != node.output.type or x.type.rank == 0:
        return None
    vector = per_channel(constant, x.type.rank, x.type.shape[-1])
    if vector is None:
        return None
    numbers = vector.astype(np.float64)
    match op:
        case Mul():
            return x, numbers, np.zeros_like(numbers)
        case Div():
            return (x, 1.0 / numbers, np.zeros_like(numbers)) if np.all(numbers != 0) else None
        case Sub():
            return x, np.ones_like(numbers), -numbers
    return x, np.ones_like(numbers), numbers


def _fold(rw: Rewriter, node: Node, producer: Node, scale: Vector, shift: Vector) -> None:
    x, weights, *rest = producer.inputs
    assert weights.data is not None
    along = scale if isinstance(producer.op, DepthwiseConv2D) else scale.reshape(-1, *[1] * (weights.data.ndim - 1))
    scaled = same_constant(rw, weights.data.astype(np.float64) * along, weights)
    old_bias = rest[0].data if rest else None
    bias = shift if old_bias is None else old_bias.astype(np.float64) * scale + shift
    type_ = TensorType(weights.type.dtype, (len(scale),))
    name = rest[0].name if rest else f"{node.output.name}.bias"
    operands = [x, scaled, rw.constant(bias.astype(type_.dtype.numpy), type_, name)]
    old = producer.output
    rw.replace_node(node, producer.op, operands)
    rw.erase_dead_producers(old)
    rw.count(f"{node.op.name} into {producer.op.name}")
