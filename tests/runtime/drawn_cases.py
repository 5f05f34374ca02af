"""Kernels against the operators' own strategies: the contract tests' instances, some operands made constant."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from kernel_runs import check_node, node_of

from strategies import STRATEGIES
from strategies.operands import Instance
from trivet.backends.plan.kernels.table import KERNELS
from trivet.ir.op import Op
from trivet.ir.types import TensorType

DRAWN = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
"""For tests that look at some element types only."""

Covered = Callable[[Instance], bool]
"""Whether a family promises a kernel for an instance."""


def check_drawn(
    library: ctypes.CDLL, kind: type[Op], data: st.DataObject, covered: Covered, relative: float | None = None
) -> None:
    """A drawn instance that is covered has a kernel, and the kernel gives what the operator means.

    At least one operand stays an activation: whatever is constant altogether is folded before.
    """
    case = data.draw(STRATEGIES[kind].filter(covered), kind.name)
    activation = data.draw(st.integers(0, len(case.types) - 1), "activation")
    candidates = [i for i, t in enumerate(case.types) if i != activation and not differs_by_image(t)]
    constants = [i for i in candidates if data.draw(st.booleans(), "constant")]
    operands = [
        (array, type_) if i in constants else type_
        for i, (array, type_) in enumerate(zip(case.arrays, case.types, strict=True))
    ]
    node = node_of(case.op, *operands)
    assert KERNELS.select(node) is not None, f"no kernel takes {node!r}"
    order = [array for i, array in enumerate(case.arrays) if i not in constants]
    check_node(library, node, order, relative if node.output.type.dtype.is_float else None)


def differs_by_image(type_: TensorType) -> bool:
    """What no kernel takes as a constant: a call does not know which image of the batch it makes."""
    return type_.rank == 4 and type_.shape[0] != 1
