"""A clamp into the operator before it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.op import Op
from trivet.ir.rewriter import Rewriter
from trivet.ops.activation import Clamp
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.elementwise import Add, Div, Mul, SquaredDifference, Sub
from trivet.ops.matmul import Dense
from trivet.ops.movement import Reinterpret
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by, read_once

Clamping = (
    Conv2D
    | DepthwiseConv2D
    | ConvTranspose2D
    | Dense
    | MaxPool2D
    | AveragePool2D
    | Add
    | Sub
    | Mul
    | Div
    | SquaredDifference
)
CLAMPING: tuple[type[Op], ...] = (
    Conv2D,
    DepthwiseConv2D,
    ConvTranspose2D,
    Dense,
    MaxPool2D,
    AveragePool2D,
    Add,
    Sub,
    Mul,
    Div,
    SquaredDifference,
)
"""Operators with a `clamp` field."""


@dataclass(frozen=True, slots=True)
class FuseActivation(Pass):
    """clamp{b}(conv2d(%x))  -->  conv2d{clamp=b}(%x), when nothing else reads the product; depthwise, transposed,
    dense, pools and arithmetic alike. In float, or when the clamp keeps the quantization.

    A clamp that rescales to another scale is a rounding step of its own and stays. One that only compares stored
    values and declares another scale (TFLM's RELU6) becomes the product's clamp and a reinterpret.
    """

    name: ClassVar[str] = "fuse-activation"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            producer = made_by(node.inputs[0], *CLAMPING) if isinstance(node.op, Clamp) else None
            if producer is not None and read_once(rw.graph, producer.output):
                _fuse(rw, node, producer)


def _fuse(rw: Rewriter, node: Node, producer: Node) -> None:
    clamp, op = node.op, producer.op
    assert isinstance(clamp, Clamp) and isinstance(op, Clamping)
    product = producer.output
    if product.type.dtype.is_integer and product.type.quant is None:
        return
    same = node.output.type.quant == product.type.quant
    if clamp.rescale and not same:
        return
    fused = replace(op, clamp=op.clamp.intersect(clamp.bounds))
    if same:
        rw.replace_node(node, fused, producer.inputs)
    else:
        stored = rw.insert_before(node, fused, producer.inputs, f"{node.output.name}.stored")
        rw.replace_node(node, Reinterpret(clamp.out), [stored])
    rw.erase_dead_producers(product)
    rw.count(f"clamp into {op.name}")
