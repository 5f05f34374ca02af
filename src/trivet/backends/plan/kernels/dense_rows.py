"""Dense layers on int8 whose features come or go row by row."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.conv import constant_weights, is_s8, no_such_types, requantization, weight_zero
from trivet.backends.plan.kernels.requant import REQUANT_BLOBS, REQUANT_FIELDS, folded_bias, no_scratch
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, Record
from trivet.backends.table import NoKernel
from trivet.ir.graph import Node
from trivet.ops.dense_rows import DenseOfRows, DenseToRows

_RECORD = Record(
    "dense_rows_s8",
    (
        Field("weights", BLOB, "i8 [outputs][inputs]"),
        *REQUANT_BLOBS,
        Field("inputs", U32, "features of the operand"),
        Field("outputs", U32, "features of the result"),
        Field("weight_zero", I32, "zero point of the weights"),
        *REQUANT_FIELDS,
    ),
)
DENSE_TO_ROWS_S8 = CKernel(170, "dense_to_rows_s8", _RECORD)
DENSE_OF_ROWS_S8 = CKernel(171, "dense_of_rows_s8", _RECORD, over_sums=True)
FAMILY = (DENSE_TO_ROWS_S8, DENSE_OF_ROWS_S8)

MAX_INPUTS = 65_536
"""So many products of int8 with a weight less its zero point add up inside int32."""


@KERNELS.kernel(DenseToRows, DenseOfRows)
def dense_rows(node: Node) -> Call | None:
    op, x, w = node.op, node.inputs[0].type, node.inputs[1]
    assert isinstance(op, DenseToRows | DenseOfRows)
    weights = constant_weights(node)
    if not is_s8(node):
        raise no_such_types(node)
    if x.elements > MAX_INPUTS:
        raise NoKernel(f"its sums of {x.elements} products may leave int32")
    zero = weight_zero(node)
    assert x.quant is not None and op.out is not None and op.numerics is not None
    outputs, inputs = w.type.shape
    bias = node.inputs[2].data if len(node.inputs) > 2 else None
    params = requantization(node).params()
    params |= {
        "weights": weights,
        "bias": folded_bias(bias, weights.astype(np.int64), x.quant.zero_point, zero),
        "inputs": inputs,
        "outputs": outputs,
        "weight_zero": zero,
    }
    if isinstance(op, DenseToRows):
        return Call(DENSE_TO_ROWS_S8, node.inputs[:1], params, no_scratch)
    height = x.shape[1]

    def sums(rows: int) -> int:
        """A sum for each output has to wait for the next rows, if there are any."""
        return 4 * outputs if rows < height else 0

    return Call(DENSE_OF_ROWS_S8, node.inputs[:1], params, sums, images=1, accumulates=True)
