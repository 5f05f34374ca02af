"""The table that the family files of this package fill: which C kernel runs a node."""

from __future__ import annotations

from trivet.backends.ckernels import Call
from trivet.backends.table import KernelTable

KERNELS: KernelTable[Call] = KernelTable("plan")
