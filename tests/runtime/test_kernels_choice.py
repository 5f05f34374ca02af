"""Comparisons, choices, casts and products of activations equal their operators."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from drawn_cases import DRAWN, check_drawn
from hypothesis import given
from hypothesis import strategies as st
from kernel_runs import check_node, node_of

from strategies.operands import Instance
from trivet.core.dtype import F16, F32, I8, I16, I32, U64, DType
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import elementwise as e
from trivet.ops.matmul import BatchMatMul

COMPARISONS = (e.Equal, e.NotEqual, e.Less, e.LessEqual, e.Greater, e.GreaterEqual)


@pytest.mark.parametrize("kind", COMPARISONS, ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_comparisons(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    check_drawn(library, kind, data, lambda case: case.types[0].dtype is not I16)


@DRAWN
@given(data=st.data())
def test_where(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, e.Where, data, lambda case: True, 0.0)


def has_kernel_to_cast(case: Instance) -> bool:
    assert isinstance(case.op, e.Cast)
    return not {case.types[0].dtype, case.op.dtype} & {F16, U64}


@DRAWN
@given(data=st.data())
def test_cast(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, e.Cast, data, has_kernel_to_cast, 0.0)


@pytest.mark.parametrize("dtype", [I8, I16, I32], ids=lambda d: d.name)
def test_cast_of_floats_that_no_integer_holds(library: ctypes.CDLL, dtype: DType) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**31), 127.9, -128.9, 32767.5], np.float32)
    check_node(library, node_of(e.Cast(dtype), TensorType(F32, (10,))), [x])


@DRAWN
@given(data=st.data())
def test_batch_matmul(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, BatchMatMul, data, lambda case: True, 1e-5)
