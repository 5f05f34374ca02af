"""Windowed pools, padded up to one less than the window."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.conv import PAIRS, extents, pads_for
from strategies.operands import Instance, activations, clamps, instance, outputs, sizes
from trivet.ir.op import Op
from trivet.ops.pool import AveragePool2D, MaxPool2D


@st.composite
def max_pool2d(draw: DrawFn) -> Instance:
    kernel, stride, dilation = draw(PAIRS), draw(PAIRS), draw(PAIRS)
    extent = extents(kernel, dilation)
    size = tuple(draw(sizes(e, e + 5)) for e in extent)
    pads = draw(pads_for(size, extent, widest=2))
    x = draw(activations((draw(sizes(1, 2)), *size, draw(sizes(1, 3)))))
    return instance(draw, MaxPool2D(kernel, stride, dilation, pads, draw(clamps(x.dtype))), [x])


@st.composite
def average_pool2d(draw: DrawFn) -> Instance:
    kernel, stride = draw(PAIRS), draw(PAIRS)
    size = tuple(draw(sizes(k, k + 5)) for k in kernel)
    pads = draw(pads_for(size, kernel, widest=2))
    x = draw(activations((draw(sizes(1, 2)), *size, draw(sizes(1, 3)))))
    out, numerics = draw(outputs(x))
    op = AveragePool2D(kernel, stride, pads, draw(st.booleans()), draw(clamps(x.dtype)), out, numerics)
    return instance(draw, op, [x])


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {MaxPool2D: max_pool2d(), AveragePool2D: average_pool2d()}
