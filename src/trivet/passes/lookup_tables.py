"""Functions of one stored 8-bit value, as the table of all 256 results."""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import BOOL, F32, I8
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops import ALL_OPS
from trivet.ops.activation import Clamp, Lookup, Relu
from trivet.ops.bits import Bitwise
from trivet.ops.elementwise import Cast
from trivet.ops.movement import Reinterpret
from trivet.ops.pointwise import Pointwise
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.passes.patterns import scalar
from trivet.passes.qdq_site import Site

_OF_STORED = (Relu, Lookup, Cast, Bitwise, Reinterpret, Quantize, Dequantize, Requantize)
"""Elementwise operators that are no functions of real numbers."""

POINTWISE = tuple(op for op in ALL_OPS if issubclass(op, Pointwise) and op not in _OF_STORED)
"""Operators on real numbers whose result depends on the same element of each operand alone."""

MAX_NODES = 64
"""A longer chain is a network and no function."""


def as_table(site: Site) -> Value | None:
    """%y = quantize(f(dequantize(%x)))  -->  %y = lookup(%x, table), for any float function f of one 8-bit tensor with
    one scale and of numbers. A clamp that keeps the quantization stays a clamp, which is cheaper.
    """
    region = _Region()
    if site.dtype is not I8 or not region.collect(site.node.output) or region.leaf is None:
        return None
    x = region.leaf.inputs[0]
    if x.type.shape != site.quantize.output.type.shape:
        return None
    if region.nodes == [site.node] and isinstance(site.node.op, Clamp) and x.type.quant == site.out:
        return site.clamped(x, site.node.op.bounds)
    table = site.quantize.op.evaluate((region.evaluate(site.node.output),), (TensorType(F32, (256,)),))[0]
    constant = site.rw.constant(table, TensorType(I8, (256,)), f"{site.quantize.output.name}.table")
    return site.emit(Lookup(site.out), x, constant)


class _Region:
    """The float operators between one dequantize and the quantize, in order of execution."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaf: Node | None = None
        self._seen: set[Value] = set()

    def collect(self, value: Value, depth: int = 0) -> bool:
        """Add what computes `value`; False if that is no function of one 8-bit tensor."""
        if value in self._seen or scalar(value) is not None:
            return True
        node = value.producer
        if node is None or depth >= MAX_NODES or len(self.nodes) >= MAX_NODES:
            return False
        if isinstance(node.op, Dequantize):
            return self._reach(node)
        if not isinstance(node.op, POINTWISE) or value.type.dtype not in (F32, BOOL):
            return False
        if not all(self.collect(operand, depth + 1) for operand in node.inputs):
            return False
        self._seen.add(value)
        self.nodes.append(node)
        return True

    def _reach(self, node: Node) -> bool:
        """A dequantize: the one tensor that everything depends on."""
        x = node.inputs[0]
        known = self.leaf is None or self.leaf.inputs[0] is x
        if x.is_constant or x.type.dtype is not I8 or x.type.quant is None or x.type.quant.axis is not None:
            return False
        self.leaf = node if known else self.leaf
        self._seen.add(node.output)
        return known

    def evaluate(self, result: Value) -> Array:
        """f of every stored value from -128 to 127: f32 [256]."""
        assert self.leaf is not None
        every = np.arange(-128, 128).astype(np.int8)
        quant = self.leaf.inputs[0].type.quant
        real = self.leaf.op.evaluate((every,), (TensorType(I8, (256,), quant),))[0]
        arrays: dict[Value, Array] = {value: real for value in self._seen if value.producer is not None}
        for node in self.nodes:
            operands = tuple(_vector(v, arrays) for v in node.inputs)
            types = tuple(TensorType(v.type.dtype, a.shape) for v, a in zip(node.inputs, operands, strict=True))
            arrays[node.output] = node.op.evaluate(operands, types)[0]
        return arrays[result]


def _vector(value: Value, arrays: dict[Value, Array]) -> Array:
    """What a region's value is for the 256 stored values; a number is the same for all."""
    return arrays[value] if value.data is None else np.ascontiguousarray(np.broadcast_to(value.data.flat[0], (256,)))
