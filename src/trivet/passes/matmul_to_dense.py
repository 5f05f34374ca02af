"""Matrix products with a constant become dense layers."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import Transpose
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by


@dataclass(frozen=True, slots=True)
class MatMulToDense(Pass):
    """batch_matmul(%x, w: [K, N])  -->  dense(%x, w: [N, K]), for a constant or dequantized constant w in float or
    under `onnx`; a per-channel axis moves along;
    batch_matmul(%a, transpose{last two}(%b))  -->  batch_matmul{transpose_b}(%a, %b).

    A product of two activations stays. TensorFlow Lite rounds its integer BATCH_MATMUL unlike FULLY_CONNECTED.
    """

    name: ClassVar[str] = "matmul-to-dense"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if isinstance(node.op, BatchMatMul) and not _to_dense(rw, node, node.op):
                _absorb_transpose(rw, node, node.op)


def _to_dense(rw: Rewriter, node: Node, op: BatchMatMul) -> bool:
    x, weights = node.inputs
    if op.numerics not in (None, Numerics.ONNX) or x.is_constant:
        return False
    source = made_by(weights, Dequantize)
    constant = weights if source is None else source.inputs[0]
    dense = _output_major(rw, constant, op.transpose_b)
    if dense is None or node.output.type.shape != (*x.type.shape[:-1], dense.type.shape[0]):
        return False
    operand = dense if source is None else rw.insert_before(node, Dequantize(), [dense])
    rw.replace_node(node, Dense(out=op.out, numerics=op.numerics), [x, operand])
    rw.erase_dead_producers(weights)
    rw.count("constant operand")
    return True


def _output_major(rw: Rewriter, constant: Value, transposed: bool) -> Value | None:
    """A constant [.., K, N] (or [.., N, K]) whose leading axes are 1, as [N, K]."""
    data, type_ = constant.data, constant.type
    if data is None or any(d != 1 for d in type_.shape[:-2]):
        return None
    lead = type_.rank - 2
    quant = type_.quant
    if quant is not None and quant.axis is not None:
        if quant.axis < lead:
            return None
        axis = quant.axis - lead
        quant = quant.with_axis(axis if transposed else 1 - axis)
    matrix = data.reshape(type_.shape[-2:])
    matrix = np.ascontiguousarray(matrix if transposed else matrix.T)
    return rw.constant(matrix, TensorType(type_.dtype, matrix.shape, quant), constant.name)


def _absorb_transpose(rw: Rewriter, node: Node, op: BatchMatMul) -> None:
    b = node.inputs[1]
    transpose = made_by(b, Transpose)
    if transpose is None or not isinstance(transpose.op, Transpose):
        return
    rank = b.type.rank
    if transpose.op.perm == (*range(rank - 2), rank - 1, rank - 2):
        flipped = replace(op, transpose_b=not op.transpose_b)
        rw.replace_node(node, flipped, [node.inputs[0], transpose.inputs[0]])
        rw.erase_dead_producers(b)
        rw.count("transpose into product")
