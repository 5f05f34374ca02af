"""Bytes that move unchanged: transfers between memories, and constants that a plan gives out or changes."""

from __future__ import annotations

from trivet.backends.ckernels import CKernel
from trivet.backends.records import BLOB, U32, Field, Record

COPY = CKernel(
    2, "copy", Record("copy", (Field("size_bytes", U32, "of the operand and of the result"),)), by_rows=False
)
CONSTANT = CKernel(3, "constant", Record("constant", (Field("data", BLOB, "the result's bytes"),)), by_rows=False)
FAMILY = (COPY, CONSTANT)
