"""Comparisons, choices by them, and changes of the element type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.format import DTYPES
from trivet.backends.plan.kernels.broadcast import BROADCAST, Params, broadcast
from trivet.backends.plan.kernels.strides import strides
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node, Value
from trivet.ir.op import Op
from trivet.ir.types import Shape
from trivet.ops import elementwise as e
from trivet.ops import tflite_elementwise as tflite
from trivet.ops.stored import to_real

_RELATION = Field("relation", U32, "0 equal, 1 not equal, 2 less, 3 not greater, 4 greater, 5 not less")

COMPARE_BYTES = CKernel(
    150,
    "compare_bytes",
    Record(
        "compare_bytes",
        (
            Field("a_ranks", BLOB, "u16 [256]: the place of each byte of a among all numbers that a and b hold"),
            Field("b_ranks", BLOB, "u16 [256]"),
            Field("dtype", U32, "element type of the operands"),
            _RELATION,
            *BROADCAST,
        ),
    ),
)
COMPARE = CKernel(
    151,
    "compare",
    Record("compare", (Field("dtype", U32, "of the operands: f32, i32 or i64"), _RELATION, *BROADCAST)),
)
SELECT = CKernel(
    152,
    "select",
    Record(
        "select",
        (
            Field("axes", BLOB, "u32 [rank][4]: extent; elements that condition, a and b move by"),
            Field("condition", BLOB, "the condition, if it is constant"),
            Field("a", BLOB, "operand a, if it is constant"),
            Field("b", BLOB, "operand b, if it is constant"),
            Field("width", U32, "bytes of an element: 1, 2, 4 or 8"),
        ),
    ),
    by_rows=False,
)
CAST = CKernel(
    153,
    "cast",
    Record("cast", (Field("from", U32, "element type of the operand"), Field("to", U32, "of the result"))),
)
FAMILY = (COMPARE_BYTES, COMPARE, SELECT, CAST)

_RELATIONS: dict[type[Op], int] = {
    e.Equal: 0, e.NotEqual: 1, e.Less: 2, e.LessEqual: 3, e.Greater: 4, e.GreaterEqual: 5,
}  # fmt: skip
_CASTS = (d.I8, d.U8, d.I16, d.U16, d.I32, d.U32, d.I64, d.F32, d.F64, d.BOOL)


@KERNELS.kernel(*_RELATIONS)
def compare_bytes(node: Node) -> Call | None:
    """Any contract: only the order of the numbers that bytes stand for matters."""
    met, dtype = broadcast(node), node.inputs[0].type.dtype
    if met is None or dtype not in (d.I8, d.U8, d.BOOL):
        return None
    numbers = np.concatenate([_numbers(node.op, value) for value in node.inputs])
    ranks = np.unique(numbers, return_inverse=True)[1].astype("<u2").reshape(2, 256)
    params: Params = {
        "a_ranks": ranks[0],
        "b_ranks": ranks[1],
        "dtype": DTYPES[dtype],
        "relation": _RELATIONS[type(node.op)],
    }
    return Call(COMPARE_BYTES, met.operands, params | met.params)


def _numbers(op: Op, value: Value) -> npt.NDArray[np.generic]:
    """What each byte of an operand stands for where the operator compares it: [256]."""
    assert isinstance(op, e.Comparison)
    stored = np.arange(256).astype(np.uint8)
    if op.numerics is None:
        return stored.view(np.int8) if value.type.dtype is d.I8 else stored
    to_number = to_real if op.numerics is Numerics.ONNX else tflite.comparable
    return to_number(stored.view(np.int8), value.type.with_shape((256,)))


@KERNELS.kernel(*_RELATIONS)
def compare(node: Node) -> Call | None:
    met, x = broadcast(node), node.inputs[0].type
    if met is None or x.dtype not in (d.F32, d.I32, d.I64) or x.quant is not None:
        return None
    params: Params = {"dtype": DTYPES[x.dtype], "relation": _RELATIONS[type(node.op)]}
    return Call(COMPARE, met.operands, params | met.params)


@KERNELS.kernel(e.Where)
def select(node: Node) -> Call | None:
    y = node.output.type
    if y.elements == 0:
        return None
    condition, a, b = node.inputs
    params: Params = {
        "axes": np.array(_axes([v.type.shape for v in node.inputs], y.shape), "<u4"),
        "condition": condition.data,
        "a": a.data,
        "b": b.data,
        "width": y.dtype.size_bytes(1),
    }
    return Call(SELECT, tuple(v for v in node.inputs if v.data is None), params, images=1)


def _axes(operands: Sequence[Shape], y: Shape) -> list[tuple[int, ...]]:
    """Extent and steps of each axis, neighbours joined where every operand goes on as the result does."""
    aligned = [(1,) * (len(y) - len(shape)) + shape for shape in operands]
    steps = [[0 if n == 1 else step for n, step in zip(s, strides(s), strict=True)] for s in aligned]
    joined: list[tuple[int, ...]] = []
    for axis in zip(y, *steps, strict=True):
        if axis[0] == 1:
            continue
        if joined and all(outer == inner * axis[0] for outer, inner in zip(joined[-1][1:], axis[1:], strict=True)):
            joined[-1] = (joined[-1][0] * axis[0], *axis[1:])
        else:
            joined.append(axis)
    return joined or [(1,) * (1 + len(operands))]


@KERNELS.kernel(e.Cast)
def cast(node: Node) -> Call | None:
    x, y = node.inputs[0].type, node.output.type
    if x.dtype not in _CASTS or y.dtype not in _CASTS or y.elements == 0:
        return None
    return Call(CAST, node.inputs, {"from": DTYPES[x.dtype], "to": DTYPES[y.dtype]})
