"""Bytes that move unchanged: copies between memories, and constants that a plan gives out or changes."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.ir.graph import Node, Value
from trivet.ops.movement import Copy
from trivet.planning.rows import Rows

COPY = CKernel(2, "copy", Record("copy", (Field("row_bytes", U32, "of the operand and of the result"),)))
CONSTANT = CKernel(3, "constant", Record("constant", (Field("data", BLOB, "the result's bytes"),)), by_rows=False)
FAMILY = (COPY, CONSTANT)


def copy_call(value: Value) -> Call:
    """The copy of a value, image after image."""
    return Call(COPY, (value,), {"row_bytes": Rows.of(value.type).row_bytes})


@KERNELS.kernel(Copy)
def copy(node: Node) -> Call | None:
    return copy_call(node.inputs[0])
