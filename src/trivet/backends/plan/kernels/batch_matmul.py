"""Products of two activations, matrix by matrix."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.limits import SCALES, SHIFTS
from trivet.backends.plan.kernels.requant import fixed_scratch
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.backends.table import NoKernel
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.core.quant import quantize_multiplier
from trivet.ir.graph import Node
from trivet.ir.types import Shape
from trivet.ops.matmul import BatchMatMul

MAX_INNER = 32768
"""So many products of two centered int8 values add up inside int32, and of int16 inside int64."""

_MATRICES = (
    Field("matrices", BLOB, "u32 [count][2]: which matrix of a and which of b make each matrix of the result"),
    Field("a", BLOB, "operand a, if it is constant"),
    Field("b", BLOB, "operand b, if it is constant"),
    Field("rows", U32, "of a result"),
    Field("inner", U32, "terms of a sum"),
    Field("columns", U32, "of a result"),
    Field("transposed", U32, "1: matrices of b are [columns, inner]"),
)

_STORED = Record(
    "batch_matmul_stored",
    (
        *_MATRICES,
        Field(
            "scale",
            BLOB,
            "f64 [1]: factor of the sums, rounded half to even; absent: mantissa and shift",
            limits=SCALES,
        ),
        Field("mantissa", I32, "Q0.31; for int16 its upper 16 bits count"),
        Field("shift", I32, "left if positive", limits=SHIFTS),
        Field("a_zero", I32),
        Field("b_zero", I32),
        Field("out_zero", I32),
    ),
)
BATCH_MATMUL_S8 = CKernel(142, "batch_matmul_s8", _STORED, by_rows=False)
BATCH_MATMUL_I16 = CKernel(144, "batch_matmul_i16", _STORED, by_rows=False)
BATCH_MATMUL_F32 = CKernel(143, "batch_matmul_f32", Record("batch_matmul_f32", _MATRICES), by_rows=False)
FAMILY = (BATCH_MATMUL_S8, BATCH_MATMUL_F32, BATCH_MATMUL_I16)

MAX_SHIFT_I16 = 7
"""Left shifts of 64-bit sums (kernels/batch_matmul.c)."""

_Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


@KERNELS.kernel(BatchMatMul)
def batch_matmul_stored(node: Node) -> Call | None:
    """int8 with 32-bit sums, int16 with 64-bit ones."""
    op = node.op
    assert isinstance(op, BatchMatMul)
    a, b = (v.type for v in node.inputs)
    if op.out is None or node.output.type.elements == 0 or not 1 <= a.shape[-1] <= MAX_INNER:
        return None
    if a.quant is None or b.quant is None or not (a.quant.is_per_tensor and b.quant.is_per_tensor):
        return None
    real, onnx = op.scale(node.input_types), op.numerics is Numerics.ONNX
    multiplier = quantize_multiplier(real)
    params: _Params = {
        "scale": np.array([real], "<f8") if onnx else None,
        "mantissa": 0 if onnx else multiplier.mantissa,
        "shift": 0 if onnx else multiplier.shift,
        "a_zero": a.quant.zero_point,
        "b_zero": b.quant.zero_point,
        "out_zero": op.out.zero_point,
    }
    if a.dtype is d.I16:
        if multiplier.shift > MAX_SHIFT_I16:
            raise NoKernel(f"its scales are too far apart: results are {real:g} times its sums, 128 is possible")
        return _call(BATCH_MATMUL_I16, node, params, fixed_row=8)
    return _call(BATCH_MATMUL_S8, node, params, fixed_row=4)


@KERNELS.kernel(BatchMatMul)
def batch_matmul_f32(node: Node) -> Call | None:
    if node.output.type.dtype is not d.F32 or node.output.type.elements == 0 or node.inputs[0].type.shape[-1] == 0:
        return None
    return _call(BATCH_MATMUL_F32, node, {}, fixed_row=0)


def _call(kernel: CKernel, node: Node, params: _Params, fixed_row: int) -> Call:
    """The call; `fixed_row` bytes of scratch for each column."""
    op = node.op
    assert isinstance(op, BatchMatMul)
    a, b, y = node.inputs[0].type.shape, node.inputs[1].type.shape, node.output.type.shape
    matrices: _Params = {
        "matrices": _pairs(a[:-2], b[:-2], y[:-2]),
        "a": node.inputs[0].data,
        "b": node.inputs[1].data,
        "rows": y[-2],
        "inner": a[-1],
        "columns": y[-1],
        "transposed": int(op.transpose_b),
    }
    operands = tuple(v for v in node.inputs if v.data is None)
    return Call(kernel, operands, params | matrices, fixed_scratch(fixed_row * y[-1]), images=1)


def _pairs(a: Shape, b: Shape, y: Shape) -> np.ndarray:
    """The matrices of both operands that meet, for each matrix of the result: [count, 2]."""
    sides = [np.broadcast_to(np.arange(np.prod(s, dtype=np.int64)).reshape(s), y).ravel() for s in (a, b)]
    return np.stack(sides, axis=1).astype("<u4")
