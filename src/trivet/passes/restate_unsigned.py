"""Unsigned quantized tensors on signed integers."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from trivet.core.bounds import Bounds
from trivet.core.dtype import I8, I16, U8, U16, DType
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Op
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.elementwise import Where
from trivet.ops.movement import (
    Concat,
    DepthToSpace,
    Expand,
    Gather,
    Pad,
    Reinterpret,
    Reshape,
    Slice,
    SpaceToDepth,
    Tile,
    Transpose,
)
from trivet.ops.pool import MaxPool2D
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.ops.reduce import ArgMax, ArgMin, ReduceMax, ReduceMin
from trivet.ops.resize import ResizeNearest
from trivet.passes.base import Pass

SIGNED: dict[DType, DType] = {U8: I8, U16: I16}

_AS_THEY_ARE = (
    Dequantize,
    Reshape,
    Transpose,
    Concat,
    Slice,
    Expand,
    Tile,
    Gather,
    SpaceToDepth,
    DepthToSpace,
    ResizeNearest,
    ReduceMax,
    ReduceMin,
    ArgMax,
    ArgMin,
    Where,
)
"""Operators that mean the same when every stored value and the zero point move by one offset."""


@dataclass(frozen=True, slots=True)
class RestateUnsigned(Pass):
    """quantize{u8, zero=z}(%x)  -->  quantize{i8, zero=z-128}(%x), with everything that moves or dequantizes the
    result, constants included: stored values and zero points move together, the real numbers stay. u16 alike.

    A u8 model input is followed by a requantize to i8, a u8 output preceded by one from it: the interface stays.
    """

    name: ClassVar[str] = "restate-unsigned"

    def rewrite(self, rw: Rewriter) -> None:
        signed = _Signed(rw)
        for node in list(rw.graph.nodes):
            op = signed_operator(node)
            if is_border(rw.graph, node):
                signed.accept(node)
            elif op is not None and any(_is_unsigned(v.type) for v in (*node.inputs, *node.outputs)):
                signed.restate(node, op)
            elif op is None:
                signed.give_back(node)
        signed.outputs()


def _is_unsigned(type_: TensorType) -> bool:
    return type_.dtype in SIGNED and type_.quant is not None


def is_border(graph: Graph, node: Node) -> bool:
    """True iff the node only restates a model input as signed, or a result as the unsigned output that it is."""
    if not isinstance(node.op, Requantize):
        return False
    x, y = node.inputs[0], node.output
    if _is_unsigned(x.type):
        dtype = SIGNED[x.type.dtype]
        assert x.type.quant is not None
        return x.producer is None and not x.is_constant and node.op.out == x.type.quant.shifted(dtype.min)
    return _is_unsigned(y.type) and not y.uses and graph.is_result(y)


def signed_operator(node: Node) -> Op | None:
    """The operator on signed values that stands for `node`, or None where there is none."""
    match node.op:
        case Quantize(out, dtype) | Requantize(out, dtype) if dtype in SIGNED:
            return replace(node.op, out=out.shifted(SIGNED[dtype].min), dtype=SIGNED[dtype])
        case Quantize() | Requantize():
            return node.op
        case Reinterpret(out) if out is not None and _is_unsigned(node.inputs[0].type):
            return Reinterpret(out.shifted(SIGNED[node.inputs[0].type.dtype].min))
        case Pad(value=value) if _is_unsigned(node.inputs[0].type):
            return replace(node.op, value=value + SIGNED[node.inputs[0].type.dtype].min)
        case MaxPool2D(clamp=clamp) if _is_unsigned(node.inputs[0].type):
            offset = SIGNED[node.inputs[0].type.dtype].min
            return replace(node.op, clamp=Bounds(clamp.lo + offset, clamp.hi + offset))
    return node.op if isinstance(node.op, _AS_THEY_ARE) else None


class _Signed:
    """The signed value for every unsigned one seen so far."""

    def __init__(self, rw: Rewriter) -> None:
        self.rw = rw
        self.twins: dict[Value, Value] = {}

    def accept(self, node: Node) -> None:
        """Remember a border that is there already."""
        if _is_unsigned(node.inputs[0].type):
            self.twins.setdefault(node.inputs[0], node.output)

    def restate(self, node: Node, op: Op) -> None:
        """Put `op` on signed operands in the place of `node`."""
        operands = [self.twin(value, node) if _is_unsigned(value.type) else value for value in node.inputs]
        old = node.output
        if not _is_unsigned(old.type):
            self.rw.replace_node(node, op, operands)
        else:
            self.twins[old] = self.rw.insert_before(node, op, operands, old.name)
        self.rw.count(op.name)

    def twin(self, value: Value, anchor: Node) -> Value:
        """The signed value that stands for `value`, made just before `anchor` where there is none yet."""
        if value not in self.twins:
            dtype = SIGNED[value.type.dtype]
            assert value.type.quant is not None
            type_ = TensorType(dtype, value.type.shape, value.type.quant.shifted(dtype.min))
            if value.data is not None:
                data = (value.data.astype(np.int32) + dtype.min).astype(dtype.numpy)
                self.twins[value] = self.rw.constant(data, type_, value.name)
            else:
                assert type_.quant is not None
                to_signed = Requantize(type_.quant, dtype, Numerics.ONNX)
                self.twins[value] = self.rw.insert_before(anchor, to_signed, [value], f"{value.name}.signed")
        return self.twins[value]

    def give_back(self, node: Node) -> None:
        """Unsigned operands for an operator that has no signed form."""
        if any(value in self.twins for value in node.inputs):
            self.rw.set_operands(node, [self._unsigned(value, node) for value in node.inputs])

    def outputs(self) -> None:
        """Unsigned model outputs and states keep their type; what nobody reads any more goes."""
        graph = self.rw.graph
        for old, twin in self.twins.items():
            if old.producer is None:
                continue
            if graph.is_result(old):
                assert twin.producer is not None
                self.rw.replace_value(old, self._back(old, twin.producer))
            self.rw.erase_dead_producers(old)

    def _unsigned(self, value: Value, anchor: Node) -> Value:
        twin = self.twins.get(value)
        if twin is None or value.is_constant or value.producer is None:
            return value
        return self._back(value, anchor, before=True)

    def _back(self, old: Value, anchor: Node, before: bool = False) -> Value:
        assert old.type.quant is not None
        op = Requantize(old.type.quant, old.type.dtype, Numerics.ONNX)
        insert = self.rw.insert_before if before else self.rw.insert_after
        return insert(anchor, op, [self.twins[old]], old.name)
