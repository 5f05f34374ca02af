"""Concatenation of operands of any element type: inside each row, or row after row."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.ir.graph import Node, Value
from trivet.ops.movement import Concat

NEXT_OPERAND = 0xFFFFFFFF
"""Stands for the place of a constant where there is none: the part comes from the next activation."""

_DATA = Field("data", BLOB, "the constant operands' bytes")

CONCAT = CKernel(
    100,
    "concat",
    Record(
        "concat",
        (
            Field("parts", BLOB, "u32 [operands][2]: bytes in a block; offset in data, 0xFFFFFFFF: next activation"),
            _DATA,
            Field("blocks", U32, "in which a row holds one part after the other"),
        ),
    ),
)
CONCAT_ROWS = CKernel(
    101,
    "concat_rows",
    Record(
        "concat_rows",
        (
            Field("parts", BLOB, "u32 [operands][2]: rows in a period; offset in data, 0xFFFFFFFF: next activation"),
            _DATA,
            Field("period", U32, "rows after which the operands start again: those of all parts"),
        ),
    ),
)
FAMILY = (CONCAT, CONCAT_ROWS)


@KERNELS.kernel(Concat)
def concat(node: Node) -> Call | None:
    op, y = node.op, node.output.type
    assert isinstance(op, Concat)
    if y.elements == 0:
        return None
    images = y.shape[0] if y.rank == 4 else 1
    constants = any(v.is_constant for v in node.inputs)
    at_once = y.rank != 4 or constants or op.axis == 0
    by_rows = not at_once or images == 1
    operands = tuple(v for v in node.inputs if not v.is_constant)
    if y.rank == 4 and op.axis < 2:
        lengths = [v.type.shape[1] * (v.type.shape[0] if op.axis == 0 else 1) for v in node.inputs]
        kernel, count = CONCAT_ROWS, {"period": sum(lengths)}
    else:
        lengths = [v.type.dtype.size_bytes(math.prod(v.type.shape[op.axis :])) for v in node.inputs]
        kernel, count = CONCAT, {"blocks": math.prod(y.shape[2 if y.rank == 4 else 0 : op.axis])}
    parts, data = _parts(node.inputs, lengths)
    params: Params = {**count, "parts": parts, "data": data}
    return Call(kernel, operands, params, by_rows=by_rows, images=1 if at_once else None)


def _parts(values: tuple[Value, ...], lengths: list[int]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    """The table of lengths and places, and the bytes of the constants."""
    table: list[tuple[int, int]] = []
    data = b""
    for value, length in zip(values, lengths, strict=True):
        table.append((length, NEXT_OPERAND if value.data is None else len(data)))
        if value.data is not None:
            data += np.ascontiguousarray(value.data).tobytes()
    return np.array(table, "<u4"), np.frombuffer(data, np.uint8)
