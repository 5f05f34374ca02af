"""What passes ask of a graph: who makes a value, who alone reads it, what a constant holds."""

from __future__ import annotations

import numpy as np

from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Array, Op
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import Shape, TensorType


def made_by(value: Value, *ops: type[Op]) -> Node | None:
    """The node that makes `value`, if its operator is one of `ops`."""
    node = value.producer
    return node if node is not None and isinstance(node.op, ops) else None


def only_reader(graph: Graph, value: Value) -> Node | None:
    """The one node that reads `value`, if nothing else does and the graph does not return it."""
    if len(value.uses) != 1 or graph.is_result(value):
        return None
    return value.uses[0].node


def read_once(graph: Graph, value: Value) -> bool:
    """True iff exactly one operand of one node is `value` and the graph does not return it."""
    return only_reader(graph, value) is not None


def scalar(value: Value) -> float | None:
    """The number that a constant of one repeated, unquantized element holds."""
    data = value.data
    if data is None or value.type.quant is not None or data.size == 0:
        return None
    first = data.flat[0]
    return float(first) if data.size == 1 or bool(np.all(data == first)) else None


def per_channel(value: Value, rank: int, channels: int) -> Array | None:
    """The vector that an unquantized constant adds along the last axis of a rank-`rank` operand: [channels].

    None where the constant varies over another axis, or would broaden the operand.
    """
    data = value.data
    if data is None or value.type.quant is not None or data.ndim > rank:
        return None
    if data.size == 1:
        return np.broadcast_to(data.reshape(1), (channels,))
    if data.size != channels or data.shape[-1] != channels:
        return None
    return data.reshape(channels)


def aligned(shape: Shape, rank: int) -> Shape:
    """`shape` with leading unit axes up to `rank`, as broadcasting reads it."""
    return (1,) * (rank - len(shape)) + shape


def same_constant(rw: Rewriter, data: Array, like: Value, shape: Shape | None = None) -> Value:
    """A constant of the element type and quantization of `like` with other data."""
    type_ = TensorType(like.type.dtype, shape or data.shape, like.type.quant)
    return rw.constant(np.ascontiguousarray(data).astype(like.type.dtype.numpy), type_, like.name)


def keeps_order(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    """True iff a transpose leaves every byte in place: the axes longer than one keep their order."""
    moving = [p for p in perm if shape[p] != 1]
    return moving == sorted(moving)
