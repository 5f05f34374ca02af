"""Arithmetic of int16 and int64, reductions over any axes and places of extrema equal their operators."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from drawn_cases import DRAWN, check_drawn
from hypothesis import given
from hypothesis import strategies as st
from kernel_runs import check_node, node_of

from strategies.operands import Instance
from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, U8, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import elementwise as e
from trivet.ops.activation import LeakyRelu
from trivet.ops.reduce import ArgMax, ArgMin, Mean, ReduceMax, ReduceMin, ReduceProd, Sum

ARITHMETIC = (e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference, e.Maximum, e.Minimum)


@pytest.mark.parametrize("kind", ARITHMETIC, ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_arithmetic_i64(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    check_drawn(library, kind, data, lambda case: case.types[0].dtype is I64)


@pytest.mark.parametrize("kind", ARITHMETIC, ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_arithmetic_i16(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    def is_covered(case: Instance) -> bool:
        op = case.op
        return case.types[0].dtype is I16 and not (isinstance(op, e.Div) and op.numerics is not Numerics.ONNX)

    check_drawn(library, kind, data, is_covered)


@DRAWN
@given(data=st.data())
def test_leaky_relu_i16(library: ctypes.CDLL, data: st.DataObject) -> None:
    def is_covered(case: Instance) -> bool:
        assert isinstance(case.op, LeakyRelu)
        return case.types[0].dtype is I16 and case.op.numerics is not Numerics.ONNX

    check_drawn(library, LeakyRelu, data, is_covered)


@pytest.mark.parametrize("kind", [ArgMax, ArgMin], ids=lambda kind: kind.name)
@DRAWN
@given(data=st.data())
def test_arguments(library: ctypes.CDLL, kind: type[Op], data: st.DataObject) -> None:
    check_drawn(library, kind, data, lambda case: True)


AXES = [(0,), (1,), (3,), (1, 3), (0, 2), (0, 1, 2, 3)]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("dtype", [F32, I32, I64], ids=lambda d: d.name)
@pytest.mark.parametrize("kind", [Sum, Mean, ReduceProd], ids=lambda kind: kind.name)
def test_folds(library: ctypes.CDLL, kind: type[Sum | Mean | ReduceProd], dtype: DType, axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = (rng.integers(-3, 4, (2, 3, 4, 5)) if dtype is not F32 else rng.normal(size=(2, 3, 4, 5))).astype(dtype.numpy)
    node = node_of(kind(axes, keep_dims=True), TensorType(dtype, x.shape))
    check_node(library, node, [x], 1e-5 if dtype is F32 else None)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("dtype", [F32, I8, U8, I16, I32, I64, BOOL], ids=lambda d: d.name)
@pytest.mark.parametrize("kind", [ReduceMax, ReduceMin], ids=lambda kind: kind.name)
def test_extrema(library: ctypes.CDLL, kind: type[ReduceMax | ReduceMin], dtype: DType, axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).integers(0, 2 if dtype is BOOL else 100, (2, 3, 4, 5)).astype(dtype.numpy)
    quant = Quant.per_tensor(0.1, 3) if dtype in (I8, I16) else None
    check_node(library, node_of(kind(axes), TensorType(dtype, x.shape, quant)), [x])


def test_what_is_no_number_is_the_extremum(library: ctypes.CDLL) -> None:
    x = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 5.0, 5.0, -1.0]], np.float32)
    for kind in (ArgMax, ArgMin):
        check_node(library, node_of(kind(1), TensorType(F32, (2, 4))), [x])
