"""A constant vector added to a float product becomes its bias."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core.bounds import UNBOUNDED
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.op import Op
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.elementwise import Add
from trivet.ops.matmul import Dense
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass, Preserves, Relative
from trivet.passes.patterns import made_by, read_once

Product = Conv2D | DepthwiseConv2D | ConvTranspose2D | Dense
PRODUCTS: tuple[type[Op], ...] = (Conv2D, DepthwiseConv2D, ConvTranspose2D, Dense)


@dataclass(frozen=True, slots=True)
class FoldBias(Pass):
    """add(dense(%x, w), c)  -->  dense(%x, w, c), for a float product without bias or clamp that nothing else reads,
    and a constant c (or dequantize(c)) along the output channels; convolutions alike.

    A product rounds once with its bias, and twice with an add behind it. An integer product has rounded to its own
    scale by then, so an add after it stays.
    """

    name: ClassVar[str] = "fold-bias"
    preserves: ClassVar[Preserves] = Relative(1e-5)

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if not isinstance(node.op, Add) or node.op.clamp != UNBOUNDED:
                continue
            for product, addend in (node.inputs, node.inputs[::-1]):
                producer = bare_product(rw, product)
                if producer is not None and len(producer.inputs) == 2 and _fold(rw, node, producer, addend):
                    break


def bare_product(rw: Rewriter, value: Value) -> Node | None:
    """The float product without clamp that makes `value`, if nothing else reads it."""
    producer = made_by(value, *PRODUCTS)
    if producer is None or not value.type.dtype.is_float or not read_once(rw.graph, value):
        return None
    assert isinstance(producer.op, Product)
    return producer if producer.op.clamp == UNBOUNDED else None


def _fold(rw: Rewriter, node: Node, producer: Node, addend: Value) -> bool:
    if node.output.type != producer.output.type:
        return False
    bias = channel_vector(rw, node, addend)
    if bias is None:
        return False
    old = producer.output
    rw.replace_node(node, producer.op, [*producer.inputs, bias])
    rw.erase_dead_producers(old)
    rw.erase_dead_producers(addend)
    rw.count(f"add into {producer.op.name}")
    return True


def channel_vector(rw: Rewriter, node: Node, addend: Value) -> Value | None:
    """`addend` as a vector over the last axis of the node's result: [channels]; None unless it is that and constant."""
    channels = node.output.type.shape[-1]
    source = made_by(addend, Dequantize)
    constant = addend if source is None else source.inputs[0]
    if constant.data is None or constant.data.size not in (1, channels):
        return None
    if constant.data.size == channels and constant.data.shape[-1:] != (channels,):
        return None
    quant = constant.type.quant
    if quant is not None and quant.axis is not None:
        if constant.data.size == 1:
            return None
        quant = quant.with_axis(0)
    data = np.ascontiguousarray(np.broadcast_to(constant.data.reshape(-1), (channels,)))
    vector = rw.constant(data, TensorType(constant.type.dtype, (channels,), quant), constant.name)
    return vector if source is None else rw.insert_before(node, Dequantize(), [vector], addend.name)
