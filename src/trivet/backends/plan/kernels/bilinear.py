"""The bilinear resize: which rows and columns are mixed, and with what weights, is known when the plan is made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.plan.kernels.take import MAX_INDEX
from trivet.backends.records import BLOB, I32, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.resize import ResizeBilinear, Taps

_TAPS = (
    Field("rows", BLOB, "of each row: u16 lower, u16 upper operand row; weight of the upper (f32, or i32 in 1/1024)"),
    Field("columns", BLOB, "the same of each pixel of a row"),
    Field("channels", U32),
)

BILINEAR_S8 = CKernel(107, "bilinear_s8", Record("bilinear_s8", _TAPS))
BILINEAR_REAL_S8 = CKernel(
    108,
    "bilinear_real_s8",
    Record(
        "bilinear_real_s8",
        (
            *_TAPS,
            Field("zero", I32, "stored value that counts as 0 in the mean"),
            Field("halves_up", U32, "0: the mean's halves round to even, 1: up"),
        ),
    ),
)
BILINEAR_F32 = CKernel(109, "bilinear_f32", Record("bilinear_f32", _TAPS))
FAMILY = (BILINEAR_S8, BILINEAR_REAL_S8, BILINEAR_F32)

_FIXED = np.dtype([("lower", "<u2"), ("upper", "<u2"), ("weight", "<i4")])
_REAL = np.dtype([("lower", "<u2"), ("upper", "<u2"), ("weight", "<f4")])


@KERNELS.kernel(ResizeBilinear)
def resize_bilinear(node: Node) -> Call | None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, ResizeBilinear)
    if x.dtype not in (d.I8, d.F32) or x.elements == 0 or max(x.shape[1:3]) > MAX_INDEX + 1:
        return None
    layout = _FIXED if op.in_fixed_point else _REAL
    rows, columns = (_table(taps, layout) for taps in op.taps(x))
    params: Params = {"rows": rows, "columns": columns, "channels": x.shape[3]}
    if x.dtype is d.F32:
        return Call(BILINEAR_F32, node.inputs, params)
    if op.in_fixed_point:
        return Call(BILINEAR_S8, node.inputs, params)
    assert x.quant is not None
    unsigned = op.numerics is Numerics.LITERT_U8
    zero = d.I8.min if unsigned else x.quant.zero_point
    return Call(BILINEAR_REAL_S8, node.inputs, {**params, "zero": zero, "halves_up": int(unsigned)})


def _table(taps: Taps, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    table = np.zeros(len(taps.lower), layout)
    table["lower"], table["upper"], table["weight"] = taps.lower, taps.upper, taps.weight
    return table
