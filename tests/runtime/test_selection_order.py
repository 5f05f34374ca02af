"""Which kernel a node gets where several would take it."""

from __future__ import annotations

import pytest
from kernel_runs import node_of

from trivet.backends.plan.kernels.table import FAMILIES, KERNELS, kernels_by_family
from trivet.core.dtype import F32
from trivet.ir.types import TensorType
from trivet.ops import ALL_OPS
from trivet.ops.reduce import Mean, ReduceMax


@pytest.mark.parametrize(
    ("op", "kernel"),
    [
        (Mean((1, 2)), "sum_rows_f32"),
        (Mean((3,)), "fold_block_f32"),
        (Mean((1, 3)), "fold"),
        (ReduceMax((2,)), "fold_block_f32"),
    ],
    ids=str,
)
def test_a_fallback_gets_what_others_leave(op: Mean | ReduceMax, kernel: str) -> None:
    call = KERNELS.select(node_of(op, TensorType(F32, (1, 6, 5, 4))))
    assert call is not None and call.kernel.name == kernel


def test_families_hold_kernels_for_the_operators_that_are_declared() -> None:
    kernels_by_family()
    modules = [f"trivet.backends.plan.kernels.{family}" for family in FAMILIES]
    for op in ALL_OPS:
        registered = {kernel.__module__ for kernel in KERNELS.candidates(op)}
        declared = {module for module, ops in zip(modules, FAMILIES.values(), strict=True) if op in ops}
        assert registered == declared, f"{op.name} in kernels/table.py"


def test_ids_of_kernels_are_unique() -> None:
    ids = [kernel.id for kernels in kernels_by_family().values() for kernel in kernels]
    assert len(set(ids)) == len(ids)
