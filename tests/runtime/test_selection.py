"""What the C runtime does not run is refused before a plan is made, all of it in one report."""

from __future__ import annotations

import numpy as np
import pytest
from plans import lookups

from trivet.backends.plan.selection import Selection
from trivet.core.dtype import F16, F32, I4, I8, I16, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import Problems
from trivet.ir.graph import Graph
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.elementwise import Add, Mul
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import Concat, Reshape
from trivet.ops.pool import AveragePool2D
from trivet.ops.quantize import Requantize
from trivet.ops.reduce import Mean


def refusal(graph: Graph) -> str:
    with pytest.raises(Problems) as caught:
        Selection().check(graph)
    return str(caught.value)


def one_input(dtype: DType, shape: tuple[int, ...]) -> Graph:
    graph = Graph()
    graph.add_output(graph.add_input("x", TensorType(dtype, shape)))
    return graph


def test_a_graph_of_known_kernels_is_accepted() -> None:
    Selection().check(lookups())


@pytest.mark.parametrize(
    "dtype, shape, named", [(I4, (3,), "i4[3]"), (I8, (2, 0), "i8[2, 0]"), (I8, (1,) * 9, "i8[1, 1")]
)
def test_tensors_that_a_plan_cannot_hold(dtype: DType, shape: tuple[int, ...], named: str) -> None:
    assert f"%x: a plan holds no {named}" in refusal(one_input(dtype, shape))


def test_every_problem_is_in_the_report() -> None:
    graph = one_input(I4, (3,))
    half = graph.add_input("half", TensorType(F16, (4,)))
    empty = graph.constant(np.zeros((0,), np.int8), TensorType(I8, (0,)))
    graph.add_output(graph.emit(Reshape((0, 1)), empty, name="nothing"))
    graph.add_output(graph.emit(Concat(0), half, half, name="pair"))
    assert "%x:" in refusal(graph) and "%nothing:" in refusal(graph)


def test_more_operands_than_a_kernel_takes() -> None:
    graph = Graph()
    parts = [graph.add_input(f"x{i}", TensorType(I8, (1, 1, 1, 1))) for i in range(32)]
    graph.add_output(graph.emit(Concat(3), *parts, name="y"))
    assert "concat: 33 operands and results, a kernel takes 32" in refusal(graph)


COARSE, FINE, UNIT = (Quant.per_tensor(scale, 0) for scale in (1e8, 1e-8, 1.0))
TINY = Quant.per_tensor(1e-32, 0)
IMAGE = TensorType(I8, (1, 4, 4, 2), COARSE)


def applied(op: Op, x: TensorType, *operands: TensorType, constant: bool = True) -> Graph:
    """A graph of one operator on an input; the other operands are constants, or inputs too."""
    graph = Graph()
    values = [
        graph.constant(np.ones(type_.shape, type_.dtype.numpy), type_, f"c{i}")
        if constant
        else graph.add_input(f"c{i}", type_)
        for i, type_ in enumerate(operands)
    ]
    graph.add_output(graph.emit(op, graph.add_input("x", x), *values, name="y"))
    return graph


def weights(*shape: int) -> TensorType:
    return TensorType(I8, shape, UNIT)


FAR_APART = {
    "conv2d": applied(Conv2D(out=FINE, numerics=Numerics.TFLM), IMAGE, weights(3, 1, 1, 2)),
    "conv2d of ONNX": applied(Conv2D(out=TINY, numerics=Numerics.ONNX), IMAGE, weights(3, 1, 1, 2)),
    "depthwise_conv2d": applied(DepthwiseConv2D(out=FINE, numerics=Numerics.TFLM), IMAGE, weights(1, 1, 2)),
    "conv_transpose2d": applied(ConvTranspose2D(out=FINE, numerics=Numerics.TFLM), IMAGE, weights(3, 1, 1, 2)),
    "dense": applied(Dense(out=FINE, numerics=Numerics.TFLM), TensorType(I8, (1, 2), COARSE), weights(3, 2)),
    "mean": applied(Mean((1, 2), out=FINE, numerics=Numerics.TFLM), IMAGE),
    "average_pool2d of ONNX": applied(AveragePool2D((2, 2), out=TINY, numerics=Numerics.ONNX), IMAGE),
    "mul": applied(Mul(out=FINE, numerics=Numerics.TFLM), IMAGE, IMAGE, constant=False),
    "requantize": applied(Requantize(FINE, I16), TensorType(I16, (4,), COARSE)),
    "batch_matmul": applied(
        BatchMatMul(out=FINE, numerics=Numerics.TFLM),
        TensorType(I8, (2, 2), COARSE),
        TensorType(I8, (2, 2), UNIT),
        constant=False,
    ),
    "add of int16": applied(
        Add(out=TINY, numerics=Numerics.TFLM),
        TensorType(I16, (4,), COARSE),
        TensorType(I16, (4,), COARSE),
        constant=False,
    ),
}


@pytest.mark.parametrize("title", FAR_APART)
def test_scales_too_far_apart_are_refused_by_operator(title: str) -> None:
    text = refusal(FAR_APART[title])
    assert f"{title.split()[0]}: its scales are too far apart" in text and "hint: " in text


def test_weights_that_are_computed() -> None:
    filters = TensorType(F32, (1, 1, 2))
    text = refusal(applied(DepthwiseConv2D(), TensorType(F32, (1, 4, 4, 2)), filters, constant=False))
    assert "depthwise_conv2d: its weights or its bias are computed at run time" in text and "--bind" in text


def test_weights_with_a_zero_point_for_each_channel() -> None:
    filters = TensorType(I8, (3, 1, 1, 2), Quant.per_axis([1.0] * 3, [0, 1, 2], 0))
    text = refusal(applied(Conv2D(out=UNIT, numerics=Numerics.ONNX), IMAGE, filters))
    assert "different zero points" in text and "symmetrically" in text


def test_a_transposed_convolution_of_too_many_taps() -> None:
    filters = TensorType(I8, (1, 9, 9, 2), UNIT)
    text = refusal(
        applied(ConvTranspose2D(out=UNIT, numerics=Numerics.TFLM), TensorType(I8, (1, 4, 4, 2), UNIT), filters)
    )
    assert "conv_transpose2d: 81 taps of its kernel reach one result, 64 are possible" in text
