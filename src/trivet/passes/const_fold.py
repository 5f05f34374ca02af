"""Operators on constants, evaluated at compile time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.core.source import excerpt
from trivet.errors import MayOverflow
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import Shape, TensorType
from trivet.ops.movement import Reshape, Slice, Transpose
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by


@dataclass(frozen=True, slots=True)
class ConstFold(Pass):
    """op(constants)  -->  constant, by the operator's own evaluate.

    dequantize(constant) stays, because the integer form of its reader wants the integers; movement goes below it:
    transpose(dequantize(c))  -->  dequantize(transpose(c)), a per-channel axis moving along.
    """

    name: ClassVar[str] = "const-fold"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if isinstance(node.op, Dequantize):
                continue
            if all(value.is_constant for value in node.inputs):
                fold(rw, node)
            elif isinstance(node.op, Reshape | Transpose | Slice):
                self._move_below_dequantize(rw, node)

    def _move_below_dequantize(self, rw: Rewriter, node: Node) -> None:
        source = made_by(node.inputs[0], Dequantize)
        if source is None or not source.inputs[0].is_constant:
            return
        moved = moved_constant(node, source.inputs[0])
        if moved is None:
            return
        data, type_ = moved
        constant = rw.constant(data, type_, source.inputs[0].name)
        rw.replace_node(node, Dequantize(), [constant])
        rw.erase_dead_producers(source.output)
        rw.count("movement below dequantize")


def fold(rw: Rewriter, node: Node) -> None:
    """Replace a node on constants by its results.

    Raises: MayOverflow where exact arithmetic has no room for them.
    """
    operands = tuple(value.data for value in node.inputs if value.data is not None)
    if node.op.overflows(operands, node.input_types):
        message = f"this constant {node.op.name} overflows {node.output.type.dtype.name}"
        raise MayOverflow("\n".join([message, *excerpt(node.loc)]), where=node.loc, hint="use smaller constants")
    results = node.op.evaluate(operands, node.input_types)
    for value, data in zip(node.outputs, results, strict=True):
        rw.replace_value(value, rw.constant(data, value.type, value.name))
    rw.erase(node)
    rw.count("operator on constants")


def moved_constant(node: Node, constant: Value) -> tuple[Array, TensorType] | None:
    """What a reshape, transpose or slice makes of a constant, whose per-channel axis must stay recognizable."""
    assert constant.data is not None
    type_ = constant.type
    data = node.op.evaluate((constant.data,), (type_.with_shape(type_.shape),))[0]
    quant = _moved_quant(node, type_)
    if quant is None and type_.quant is not None:
        return None
    return data, TensorType(type_.dtype, data.shape, quant)


def _moved_quant(node: Node, type_: TensorType) -> Quant | None:
    quant = type_.quant
    if quant is None or quant.axis is None:
        return quant
    match node.op:
        case Transpose(perm):
            return quant.with_axis(perm.index(quant.axis))
        case Reshape(shape):
            axis = reshaped_axis(type_.shape, shape, quant.axis)
            return None if axis is None else quant.with_axis(axis)
        case Slice(starts, sizes, steps) if not quant.is_per_tensor:
            picked = [starts[quant.axis] + i * steps[quant.axis] for i in range(sizes[quant.axis])]
            scales = tuple(quant.scales[i] for i in picked)
            return Quant(scales, tuple(quant.zero_points[i] for i in picked), quant.axis) if picked else None
    return quant


def reshaped_axis(before: Shape, after: Shape, axis: int) -> int | None:
    """The axis of `after` that holds exactly what `axis` of `before` holds, or None."""
    outer = int(np.prod(before[:axis], dtype=np.int64))
    for candidate, size in enumerate(after):
        if size == before[axis] and int(np.prod(after[:candidate], dtype=np.int64)) == outer:
            return candidate
    return None
