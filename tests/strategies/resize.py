"""Resizes in every coordinate mode, up and down, by whole factors more often than chance."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import NUMERICS, Instance, activations, instance, sizes
from trivet.core.dtype import F32
from trivet.core.numerics import Numerics
from trivet.ir.op import Op
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest

INTEGER_KERNELS = (Numerics.TFLM, Numerics.LITERT)


def new_size(draw: DrawFn, size: int) -> int:
    return draw(st.one_of(sizes(1, 10), st.sampled_from((size, 2 * size, 3 * size, max(1, size // 2)))))


@st.composite
def resize_nearest(draw: DrawFn) -> Instance:
    x = draw(activations((draw(sizes(1, 2)), draw(sizes(1, 6)), draw(sizes(1, 6)), draw(sizes(1, 3)))))
    size = (new_size(draw, x.shape[1]), new_size(draw, x.shape[2]))
    scales = (size[0] / x.shape[1], size[1] / x.shape[2]) if draw(st.booleans()) else None
    coordinates, rounding = draw(st.sampled_from(Coordinates)), draw(st.sampled_from(NearestRounding))
    return instance(draw, ResizeNearest(size, coordinates, rounding, scales), [x])


@st.composite
def resize_bilinear(draw: DrawFn) -> Instance:
    x = draw(activations((draw(sizes(1, 2)), draw(sizes(1, 6)), draw(sizes(1, 6)), draw(sizes(1, 3)))))
    size = (new_size(draw, x.shape[1]), new_size(draw, x.shape[2]))
    numerics = None if x.dtype is F32 else draw(NUMERICS)
    modes, scales = list(Coordinates), None
    if numerics in INTEGER_KERNELS:
        modes = [Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS, Coordinates.ASYMMETRIC]
    elif draw(st.booleans()):
        scales = (size[0] / x.shape[1], size[1] / x.shape[2])
    return instance(draw, ResizeBilinear(size, draw(st.sampled_from(modes)), scales, numerics), [x])


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    ResizeNearest: resize_nearest(),
    ResizeBilinear: resize_bilinear(),
}
