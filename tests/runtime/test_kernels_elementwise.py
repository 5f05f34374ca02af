"""Elementwise kernels equal their operators, whatever broadcasts and whichever operand is constant."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from drawn_cases import DRAWN, check_drawn
from hypothesis import given
from hypothesis import strategies as st
from kernel_runs import check_node, node_of

from strategies.operands import Instance
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import elementwise as e

EVERY_PAIR = [np.repeat(np.arange(-128, 128), 256).astype(np.int8), np.tile(np.arange(-128, 128), 256).astype(np.int8)]
S8_KINDS = [e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference, e.Maximum, e.Minimum]


def is_quantized_s8(case: Instance) -> bool:
    return all(t.dtype is I8 and t.quant is not None for t in case.types) and case.op.infer(case.types)[0].dtype is I8


@pytest.mark.parametrize("kind", S8_KINDS, ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_s8(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    check_drawn(library, kind, data, is_quantized_s8)


QUANTS = [
    (Quant.per_tensor(0.1, 3), Quant.per_tensor(0.07, -20), Quant.per_tensor(0.13, 5)),
    (Quant.per_tensor(0.25, 0), Quant.per_tensor(0.5, 0), Quant.per_tensor(0.25, -1)),
    (Quant.per_tensor(0.003, -128), Quant.per_tensor(0.9, 127), Quant.per_tensor(0.4, -128)),
]


@pytest.mark.parametrize("numerics", Numerics, ids=lambda n: n.value)
@pytest.mark.parametrize("kind", S8_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("quants", QUANTS, ids=["awkward", "powers_of_two", "far_apart"])
def test_s8_on_every_pair(library: ctypes.CDLL, kind: type[Op], quants: tuple[Quant, ...], numerics: Numerics) -> None:
    """Every candidate kernel, not only the first that applies."""
    a, b, out = quants
    op = kind(out) if kind in (e.Maximum, e.Minimum) else kind(out=out, numerics=numerics)
    node = node_of(op, TensorType(I8, (65536,), a), TensorType(I8, (65536,), b))
    calls = [candidate for candidate in KERNELS.candidates(kind) if candidate(node) is not None]
    assert calls
    for candidate in calls:
        check_node(library, node, EVERY_PAIR, call=candidate(node))


@pytest.mark.parametrize("kind", [e.Add, e.Mul, e.Maximum], ids=lambda kind: kind.name)
def test_s8_loops_of_every_instruction_set(core: ctypes.CDLL, kind: type[Op]) -> None:
    a, b, out = QUANTS[0]
    op = e.Maximum(out) if kind is e.Maximum else kind(out=out, numerics=Numerics.TFLM)
    check_node(core, node_of(op, TensorType(I8, (65536,), a), TensorType(I8, (65536,), b)), EVERY_PAIR)
