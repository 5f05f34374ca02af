"""Quantization with parameters of the data, and integer convolutions behind it."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, filled, instance, shapes, sizes
from trivet.core.dtype import F32, I8, I32, U8
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.dynamic import DynamicQuantize, DynamicRange, IntegerConv2D


@st.composite
def quantizations(draw: DrawFn) -> Instance:
    """Ranges of every kind: about zero, on one side of it, nothing but zeros."""
    shape = draw(shapes((0, 4)))
    op = DynamicQuantize(draw(st.sampled_from(DynamicRange)), draw(st.integers(0, max(len(shape) - 1, 0))))
    case = instance(draw, op, [TensorType(F32, shape)])
    factor, offset = draw(st.sampled_from((0.0, 1.0, 300.0))), draw(st.sampled_from((0.0, -4.0, 4.0)))
    return Instance(op, case.types, (np.asarray(case.arrays[0] * factor + offset, np.float32),))


@st.composite
def convolutions(draw: DrawFn) -> Instance:
    groups, inputs, outputs = draw(sizes(1, 3)), draw(sizes(1, 4)), draw(sizes(1, 3))
    kernel, stride, dilation = (draw(st.tuples(sizes(1, 3), sizes(1, 3))) for _ in range(3))
    pads = tuple(draw(st.tuples(sizes(0, 2), sizes(0, 2))) for _ in range(2))
    rows, columns = ((k - 1) * d + draw(sizes(1, 4)) for k, d in zip(kernel, dilation, strict=True))
    x = TensorType(draw(st.sampled_from((I8, U8))), (draw(sizes(1, 2)), rows, columns, groups * inputs))
    w = TensorType(I8, (groups * outputs, *kernel, inputs))
    zero = np.array(draw(st.integers(x.dtype.min, x.dtype.max)), np.int32)
    types, arrays = [x, w, TensorType(I32, ())], [filled(draw, x), filled(draw, w), zero]
    if draw(st.booleans()):
        types.append(TensorType(I32, (w.shape[0],)))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        arrays.append(rng.integers(-128, 128, w.shape[0]).astype(np.int32))
    return Instance(IntegerConv2D(stride, dilation, (pads[0], pads[1]), groups), tuple(types), tuple(arrays))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    DynamicQuantize: quantizations(),
    IntegerConv2D: convolutions(),
}
