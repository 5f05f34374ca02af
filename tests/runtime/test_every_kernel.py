"""Every kernel against its operator on random instances, and on damaged plans under the sanitizers."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import FEATURES, kernel_plans, node_cases
from kernel_runs import check_node
from test_mutations import SANITIZED, built_mutator, run

from strategies import STRATEGIES
from trivet.backends.plan.kernels.copy import CONSTANT
from trivet.backends.plan.kernels.table import KERNELS, all_kernels
from trivet.core.dtype import F32
from trivet.ir.op import Op
from trivet.ops.border import Receive, Send

RELATIVE = 2e-5
"""Float kernels sum in another order than numpy."""


CALLING = (Receive, Send)
"""Their kernels call the caller and have no operand or no result in memory: `test_rows.py` runs them."""


@pytest.mark.parametrize("kind", [kind for kind in STRATEGIES if kind not in CALLING], ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=25)
def test_kernels_compute_what_the_operator_means(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    instance = data.draw(STRATEGIES[kind])
    for case in node_cases(instance):
        calls = [] if case.node.op.views_input else [KERNELS.select(case.node, features) for features in FEATURES]
        for call in {call.kernel.name: call for call in calls if call is not None}.values():
            is_float = any(value.type.dtype is F32 for value in case.node.outputs)
            check_node(library, case.node, case.arrays, RELATIVE if is_float else None, call)


def test_damaged_plans_of_every_kernel_are_refused_or_harmless(tmp_path: Path) -> None:
    plans = kernel_plans()
    missing = {k.name for k in all_kernels()} - plans.keys() - {CONSTANT.name}
    assert not missing, "no instance of an operator reaches these kernels: widen tests/strategies"
    files = []
    for kernel, pair in sorted(plans.items()):
        for size, data in zip(("small", "large"), pair, strict=True):
            files.append(str(tmp_path / f"{kernel}-{size}.tgrs"))
            Path(files[-1]).write_bytes(data)
    run(built_mutator(SANITIZED), "1000", *files)
