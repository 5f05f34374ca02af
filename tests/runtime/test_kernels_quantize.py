"""Quantization in all its directions, and exact products, equal their operators."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_runs import check_node, node_of

from trivet.core.dtype import F32, I8, I16, I32, U8, U16, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.types import TensorType
from trivet.ops.activation import Relu
from trivet.ops.matmul import MatMul
from trivet.ops.quantize import Dequantize, Quantize, Requantize

STORED = [I8, U8, I16, U16, I32]
BOTH = [Numerics.TFLM, Numerics.ONNX]
SHAPES = [(2, 5, 6, 7), (31,), (3, 4)]
RNG = np.random.default_rng(11)


def quant(dtype: DType, scale: float = 0.13) -> Quant:
    return Quant.per_tensor(scale, {I8: -5, U8: 130, I16: 40, U16: 900, I32: 0}[dtype])


def full_range(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(dtype.min, dtype.max, shape, dtype.numpy, endpoint=True)


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize("numerics", BOTH, ids=lambda n: n.value)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_quantize(library: ctypes.CDLL, dtype: DType, numerics: Numerics, shape: tuple[int, ...]) -> None:
    x = (RNG.normal(size=shape) * 20).astype(np.float32)
    x.flat[:6] = [0.065, -0.065, 0.195, np.inf, -np.inf, np.nan]
    check_node(library, node_of(Quantize(quant(dtype), dtype, numerics), TensorType(F32, shape)), [x])
    halves = ((RNG.integers(-300, 300, shape) + 0.5) * 0.125).astype(np.float32)
    check_node(library, node_of(Quantize(quant(dtype, 0.125), dtype, numerics), TensorType(F32, shape)), [halves])


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dequantize(library: ctypes.CDLL, dtype: DType, shape: tuple[int, ...]) -> None:
    check_node(library, node_of(Dequantize(), TensorType(dtype, shape, quant(dtype))), [full_range(dtype, shape)], 0)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_per_axis(library: ctypes.CDLL, axis: int) -> None:
    shape = (2, 5, 6, 7)
    channels = shape[axis]
    per_axis = Quant.per_axis(RNG.uniform(0.01, 0.2, channels), RNG.integers(-9, 9, channels), axis)
    x = (RNG.normal(size=shape) * 5).astype(np.float32)
    for numerics in BOTH:
        check_node(library, node_of(Quantize(per_axis, I8, numerics), TensorType(F32, shape)), [x])
    check_node(library, node_of(Dequantize(), TensorType(I8, shape, per_axis)), [full_range(I8, shape)], 0)


@pytest.mark.parametrize("source", STORED, ids=str)
@pytest.mark.parametrize("target", STORED, ids=str)
@pytest.mark.parametrize("factor", [1.0, 0.37, 5.1, 300.0])
def test_requantize(library: ctypes.CDLL, source: DType, target: DType, factor: float) -> None:
    x = TensorType(source, (2, 5, 6, 7), quant(source))
    op = Requantize(quant(target, 0.13 * factor), target, Numerics.TFLM)
    check_node(library, node_of(op, x), [full_range(source, x.shape)])


@pytest.mark.parametrize("target", [I8, U8], ids=str)
def test_requantize_bytes_under_onnx(library: ctypes.CDLL, target: DType) -> None:
    op = Requantize(quant(target, 0.2), target, Numerics.ONNX)
    check_node(library, node_of(op, TensorType(I8, (77,), quant(I8))), [full_range(I8, (77,))])


@pytest.mark.parametrize("dtypes", [(I8, I8, I32), (I8, I32, I8), (I32, I8, I32), (I32, I32, I32)], ids=str)
@pytest.mark.parametrize("shapes", [((4, 8), (8, 6)), ((8,), (8, 6)), ((4, 8), (8,)), ((1, 1), (1, 1))], ids=str)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("bias", "relu"), [(False, False), (True, False), (False, True), (True, True)])
def test_exact_products(
    library: ctypes.CDLL, dtypes: tuple, shapes: tuple, constant: bool, bias: bool, relu: bool
) -> None:
    if bias and len(shapes[1]) == 1:
        pytest.skip("fuse never absorbs the bias of a product with a vector on the right")
    arrays = [RNG.integers(-100, 100, s).astype(t.numpy) for s, t in zip(shapes, dtypes, strict=False)]
    if bias:
        arrays.append(RNG.integers(-100, 100, shapes[1][-1]).astype(dtypes[2].numpy))
    types = [TensorType(t, a.shape) for t, a in zip(dtypes, arrays, strict=False)]
    operands = [types[0], *((a, t) if constant else t for a, t in zip(arrays[1:], types[1:], strict=True))]
    node = node_of(MatMul(bias, relu), *operands)
    check_node(library, node, arrays[:1] if constant else arrays)


@pytest.mark.parametrize("dtype", [I8, I32], ids=str)
def test_relu(library: ctypes.CDLL, dtype: DType) -> None:
    check_node(library, node_of(Relu(), TensorType(dtype, (5, 6))), [full_range(dtype, (5, 6))])
