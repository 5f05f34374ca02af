"""Functions of one number, and slopes, equal their operators, whichever operand is constant."""

from __future__ import annotations

import ctypes

import pytest
from drawn_cases import DRAWN, check_drawn
from hypothesis import given
from hypothesis import strategies as st

from strategies.operands import Instance
from trivet.core.dtype import F32, I8
from trivet.ir.op import Op
from trivet.ops import activation as a
from trivet.ops import mathematics as m

FUNCTIONS = (
    a.Clamp, a.Logistic, a.Tanh, a.HardSwish, m.Abs, a.LeakyRelu, a.Elu, a.HardSigmoid, a.Gelu, m.Exp, m.Log, m.Sqrt,
    m.Rsqrt, m.Neg, m.Reciprocal, m.Erf, m.Floor, m.Ceil, m.Round, m.Sin, m.Cos, a.Softplus,
)  # fmt: skip
TABLES = (
    a.Clamp,
    a.Logistic,
    a.Tanh,
    a.HardSwish,
    m.Abs,
    a.LeakyRelu,
    a.Elu,
    a.Gelu,
    m.Exp,
    m.Rsqrt,
    a.Relu,
)


def is_float(case: Instance) -> bool:
    return all(t.dtype is F32 for t in case.types)


def is_s8(case: Instance) -> bool:
    return all(t.dtype is I8 for t in case.types)


@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_functions_f32(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    check_drawn(library, kind, data, is_float, 2e-6)


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_functions_s8(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    check_drawn(library, kind, data, is_s8)


@DRAWN
@given(data=st.data())
def test_prelu_f32(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, a.PRelu, data, is_float, 1e-6)


@DRAWN
@given(data=st.data())
def test_prelu_s8(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, a.PRelu, data, is_s8)
