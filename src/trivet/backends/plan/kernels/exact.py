"""Exact integer programs: the operators of `.tiny` beside sums, which `arithmetic` has."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.lookup import LOOKUP_S8
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.ir.graph import Node
from trivet.ops.activation import Relu
from trivet.ops.matmul import MatMul

MATMUL_I32 = CKernel(
    90,
    "matmul_i32",
    Record(
        "matmul_i32",
        (
            Field("rows", U32, "of the result"),
            Field("inner", U32, "terms of a sum"),
            Field("columns", U32, "of the result"),
            Field("narrow", U32, "bit 0: a is int8, bit 1: b is, bit 2: the bias is"),
            Field("bias_steps", U32, "elements from column to column of the bias: 1; 0 where there is none"),
            Field("relu", U32, "1: negative sums become 0"),
            Field("a", BLOB, "operand a, if it is constant"),
            Field("b", BLOB, "operand b, if it is constant"),
            Field("bias", BLOB, "the bias, if it is constant"),
        ),
    ),
    by_rows=False,
)
RELU_I32 = CKernel(91, "relu_i32", Record("relu_i32", (Field("lo", U32, "least result: 0"),)))
FAMILY = (MATMUL_I32, RELU_I32)

_ALL_VALUES = np.arange(-128, 128).astype(np.int8)


@KERNELS.kernel(MatMul)
def matmul_i32(node: Node) -> Call | None:
    """A product of matrices or of a vector and a matrix; a vector counts as one row (a) or one column (b)."""
    op = node.op
    assert isinstance(op, MatMul)
    a, b = (v.type for v in node.inputs[:2])
    params: dict[str, FieldValue | Blob | None] = {
        "rows": a.shape[0] if a.rank == 2 else 1,
        "inner": a.shape[-1],
        "columns": b.shape[1] if b.rank == 2 else 1,
        "narrow": sum(1 << i for i, v in enumerate(node.inputs) if v.type.dtype is d.I8),
        "bias_steps": int(op.bias),
        "relu": int(op.relu),
        "bias": None,
    }
    if op.bias and b.rank == 1:
        return None
    for name, value in zip(("a", "b", "bias"), node.inputs, strict=False):
        params[name] = value.data
    operands = tuple(value for value in node.inputs if not value.is_constant)
    return Call(MATMUL_I32, operands, params) if node.output.type.elements and operands else None


@KERNELS.kernel(Relu)
def relu(node: Node) -> Call | None:
    (x,) = node.inputs
    if x.type.dtype is d.I8:
        (table,) = node.op.evaluate((_ALL_VALUES,), (x.type.with_shape((256,)),))
        return Call(LOOKUP_S8, (x,), {"table": table})
    return Call(RELU_I32, (x,), {"lo": 0})
