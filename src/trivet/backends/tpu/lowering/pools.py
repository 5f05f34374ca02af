"""Pools and means on the vector unit: the taps of a window on the read port, the division in the epilogue."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby

import numpy as np

from trivet.backends.tpu.ir import (
    Clamp,
    Divide,
    Offset,
    Reduce,
    Round,
    Rounding,
    Scale,
    Step,
    Target,
    VectorLayer,
    View,
)
from trivet.backends.tpu.limits import check_shifts, refuse_unless
from trivet.backends.tpu.lowering.builder import LOWERINGS, Builder, Lower
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.products import clamp_limits
from trivet.ops.reduce import Mean


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive windows [start, start + size) along one axis with the same count of taps inside the image."""

    start: int
    size: int
    taps: int


@LOWERINGS.kernel(MaxPool2D)
def lower_max_pool(node: Node) -> Lower:
    """The largest tap; padding is -128, which never wins."""
    refuse_unless(node.inputs[0].type.dtype is I8, node, "it is computed on int8 alone")
    return partial(_emit_max_pool, node)


def _emit_max_pool(node: Node, builder: Builder) -> None:
    op = node.op
    assert isinstance(op, MaxPool2D)
    limits = clamp_limits(I8, op.clamp)
    pads = (op.pads[0][0], op.pads[1][0])
    view = _windows(builder, node, op.kernel, op.stride, op.dilation, pads, I8.min)
    target = Target.matrix(builder.define(node.output), view.rows, view.channels)
    steps: tuple[Step, ...] = (Clamp(limits.lo, limits.hi),)
    builder.add(VectorLayer(node.output.name or "max_pool2d", view, Reduce.MAX, steps, target))


@LOWERINGS.kernel(AveragePool2D)
def lower_average_pool(node: Node) -> Lower:
    """Sums of stored values, divided by the count of taps inside the image."""
    op = node.op
    assert isinstance(op, AveragePool2D)
    refuse_unless(node.inputs[0].type.dtype is I8, node, "it is computed on int8 alone")
    return partial(_emit_average_pool, node)


def _emit_average_pool(node: Node, builder: Builder) -> None:
    """One layer for every region of windows with one count of taps: the inside, and the borders that padding cuts."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, AveragePool2D) and x.quant is not None
    pads = (op.pads[0][0], op.pads[1][0])
    fill = x.quant.zero_point if op.count_include_pad or op.numerics is Numerics.ONNX else 0
    view = _windows(builder, node, op.kernel, op.stride, (1, 1), pads, fill)
    out = builder.define(node.output)
    (rows, columns), channels = view.out, view.channels
    name = node.output.name or "average_pool2d"
    for number, (image, y, x_run) in enumerate(_regions(view, op)):
        region = View(
            view.buffer,
            image * view.steps[0],
            view.steps,
            1,
            view.image,
            channels,
            (y.size, x_run.size),
            op.kernel,
            op.stride,
            (1, 1),
            (pads[0] - y.start * op.stride[0], pads[1] - x_run.start * op.stride[1]),
            fill,
        )
        steps = _average_steps(builder, node, y.taps * x_run.taps)
        first = ((image * rows + y.start) * columns + x_run.start) * channels
        target = Target(out, first, channels, x_run.size, columns * channels)
        builder.add(VectorLayer(f"{name}.{number}" if number else name, region, Reduce.SUM, steps, target))


def _average_steps(builder: Builder, node: Node, count: int) -> tuple[Step, ...]:
    """From the sum of stored values, or padding, of a whole window to the mean of `count` of them."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, AveragePool2D) and op.out is not None and x.quant is not None
    limits = clamp_limits(I8, op.clamp)
    clamp = Clamp(limits.lo, limits.hi)
    if op.numerics is Numerics.ONNX:
        all_taps = op.kernel[0] * op.kernel[1]
        return (*_float_mean(builder, node, op.out, all_taps, count), clamp)
    if op.numerics is Numerics.LITERT_U8:
        return Offset(128 * count), Divide(count), Offset(-128), clamp
    return Divide(count), clamp


def _float_mean(builder: Builder, node: Node, out: Quant, summed: int, count: int) -> tuple[Step, ...]:
    """ONNX: the mean of `count` of the `summed` stored values in float64, to the output's scale, halves to even."""
    x = node.inputs[0].type
    assert x.quant is not None
    ratios = np.full(x.shape[-1], x.quant.scale / out.scale)
    rounded = Round(builder.doubles(ratios), count, Rounding.EVEN)
    return Offset(-x.quant.zero_point * summed), rounded, Offset(out.zero_point)


def _regions(view: View, op: AveragePool2D) -> Iterator[tuple[int, Run, Run]]:
    ys, xs = (_runs(view, op, axis) for axis in (0, 1))
    for image in range(view.batch):
        yield from ((image, y, x) for y in ys for x in xs)


def _runs(view: View, op: AveragePool2D, axis: int) -> list[Run]:
    """Windows along an axis, grouped by how many taps count."""
    if op.count_include_pad:
        return [Run(0, view.out[axis], op.kernel[axis])]
    counts = []
    for index in range(view.out[axis]):
        start = index * op.stride[axis] - view.pads[axis]
        counts.append(min(start + op.kernel[axis], view.image[axis]) - max(start, 0))
    runs, first = [], 0
    for taps, group in groupby(counts):
        size = len(list(group))
        runs.append(Run(first, size, taps))
        first += size
    return runs


@LOWERINGS.kernel(Mean)
def lower_mean(node: Node) -> Lower:
    """Sums over the axes between the first and the last, rescaled in the epilogue."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean)
    refuse_unless(x.dtype is I8 and op.out is not None, node, "it is computed on quantized int8 alone")
    spatial = (x.rank == 4 and op.axes in ((1, 2), (1,), (2,))) or (x.rank == 3 and op.axes == (1,))
    refuse_unless(spatial, node, f"axes {op.axes} of {x} are no spatial ones")
    if op.numerics is not Numerics.ONNX:
        check_shifts(node, (op.multiplier(x).shift,))
    return partial(_emit_mean, node)


def _emit_mean(node: Node, builder: Builder) -> None:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean) and op.out is not None and x.quant is not None
    n, height, width, channels = x.shape if x.rank == 4 else (x.shape[0], x.shape[1], 1, x.shape[2])
    kernel = (height if 1 in op.axes else 1, width if 2 in op.axes else 1)
    out = (height // kernel[0], width // kernel[1])
    steps = (height * width * channels, width * channels, channels, 1)
    view = View(builder.buffer(node.inputs[0]), 0, steps, n, (height, width), channels, out, kernel, kernel)
    count = op.count(x)
    if op.numerics is Numerics.ONNX:
        steps_to_mean = _float_mean(builder, node, op.out, count, count)
    else:
        multiplier = op.multiplier(x)
        scale = Scale(0, multiplier.mantissa, multiplier.shift)
        steps_to_mean = (Offset(-x.quant.zero_point * count), scale, Offset(op.out.zero_point))
    epilogue = (*steps_to_mean, Clamp(I8.min, I8.max))
    target = Target.matrix(builder.define(node.output), view.rows, view.channels)
    builder.add(VectorLayer(node.output.name or "mean", view, Reduce.SUM, epilogue, target))


def _windows(
    builder: Builder,
    node: Node,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[int, int],
    fill: int,
) -> View:
    x = node.inputs[0]
    batch, height, width, channels = x.type.shape
    _, rows, columns, _ = node.output.type.shape
    steps = (height * width * channels, width * channels, channels, 1)
    image, out = (height, width), (rows, columns)
    return View(builder.buffer(x), 0, steps, batch, image, channels, out, kernel, stride, dilation, pads, fill)
