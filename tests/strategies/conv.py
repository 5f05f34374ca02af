"""Convolutions: groups, multipliers, dilations, pads wider than needed, windows that see padding alone."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, activations, biases, clamps, instance, outputs, sizes, weights
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.windows import Pads2D

PAIRS = st.tuples(sizes(1, 3), sizes(1, 3))


@st.composite
def pads_for(draw: DrawFn, size: tuple[int, int], extent: tuple[int, int], widest: int | None = None) -> Pads2D:
    """Pads with which at least one window of `extent` fits; at most `widest`, by default the extent itself."""
    sides = []
    for have, need in zip(size, extent, strict=True):
        limit = need if widest is None else min(need - 1, widest)
        before = draw(st.integers(0, limit))
        lacking = max(0, need - have - before)
        sides.append((before, draw(st.integers(min(lacking, limit), limit))))
    return sides[0], sides[1]


def extents(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


@st.composite
def with_bias(draw: DrawFn, x: TensorType, w: TensorType, channels: int) -> tuple[TensorType, ...]:
    return (x, w, draw(biases(x, channels))) if draw(st.booleans()) else (x, w)


@st.composite
def conv2d(draw: DrawFn) -> Instance:
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    inputs, results = groups * draw(sizes(1, 3)), groups * draw(sizes(1, 3))
    kernel, stride, dilation = draw(PAIRS), draw(PAIRS), draw(PAIRS)
    size = (draw(sizes(1, 8)), draw(sizes(1, 8)))
    pads = draw(pads_for(size, extents(kernel, dilation)))
    x = draw(activations((draw(sizes(1, 2)), *size, inputs)))
    w = draw(weights(x, (results, *kernel, inputs // groups), 0))
    out, numerics = draw(outputs(x, w.elements // results))
    op = Conv2D(stride, dilation, pads, groups, draw(clamps(x.dtype)), out, numerics)
    return instance(draw, op, draw(with_bias(x, w, results)))


@st.composite
def depthwise_conv2d(draw: DrawFn) -> Instance:
    channels, multiplier = draw(sizes(1, 4)), draw(st.sampled_from((1, 1, 2, 3)))
    kernel, stride, dilation = draw(PAIRS), draw(PAIRS), draw(PAIRS)
    size = (draw(sizes(1, 8)), draw(sizes(1, 8)))
    pads = draw(pads_for(size, extents(kernel, dilation)))
    x = draw(activations((draw(sizes(1, 2)), *size, channels)))
    w = draw(weights(x, (*kernel, channels * multiplier), 2))
    out, numerics = draw(outputs(x, kernel[0] * kernel[1]))
    op = DepthwiseConv2D(stride, dilation, pads, draw(clamps(x.dtype)), out, numerics)
    return instance(draw, op, draw(with_bias(x, w, channels * multiplier)))


@st.composite
def conv_transpose2d(draw: DrawFn) -> Instance:
    groups = draw(st.sampled_from((1, 1, 2)))
    inputs, results = groups * draw(sizes(1, 3)), groups * draw(sizes(1, 3))
    kernel, stride, dilation = draw(PAIRS), draw(PAIRS), draw(PAIRS)
    size = (draw(sizes(1, 5)), draw(sizes(1, 5)))
    spread = [(s - 1) * t + e for s, t, e in zip(size, stride, extents(kernel, dilation), strict=True)]
    pads = []
    for extent in spread:
        before = draw(st.integers(0, min(2, extent - 1)))
        pads.append((before, draw(st.integers(0, min(2, extent - 1 - before)))))
    extra = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    x = draw(activations((draw(sizes(1, 2)), *size, inputs)))
    w = draw(weights(x, (results, *kernel, inputs // groups), 0))
    out, numerics = draw(outputs(x, w.elements // results))
    op = ConvTranspose2D(stride, dilation, (pads[0], pads[1]), extra, groups, draw(clamps(x.dtype)), out, numerics)
    return instance(draw, op, draw(with_bias(x, w, results)))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    Conv2D: conv2d(),
    DepthwiseConv2D: depthwise_conv2d(),
    ConvTranspose2D: conv_transpose2d(),
}
