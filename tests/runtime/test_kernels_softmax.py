"""Softmax and its logarithm equal their operators along every axis."""

from __future__ import annotations

import ctypes

from drawn_cases import DRAWN, check_drawn
from hypothesis import given
from hypothesis import strategies as st

from strategies.operands import Instance
from trivet.core.dtype import F32, I8
from trivet.core.numerics import Numerics
from trivet.ops.softmax import LogSoftmax, Softmax


def is_float_or_onnx(case: Instance) -> bool:
    op = case.op
    assert isinstance(op, Softmax | LogSoftmax)
    return case.types[0].dtype is F32 or (case.types[0].dtype is I8 and op.numerics is Numerics.ONNX)


@DRAWN
@given(data=st.data())
def test_softmax(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, Softmax, data, is_float_or_onnx, 2e-6)


@DRAWN
@given(data=st.data())
def test_log_softmax(library: ctypes.CDLL, data: st.DataObject) -> None:
    check_drawn(library, LogSoftmax, data, is_float_or_onnx, 2e-6)
