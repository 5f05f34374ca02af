"""Convolutions on the array, through an im2col view: depthwise ones in blocks, narrow ones several pixels at once."""

from __future__ import annotations

from functools import partial

import numpy as np

from trivet.backends.tpu.ir import View
from trivet.backends.tpu.lowering.builder import LOWERINGS, Builder, Lower
from trivet.backends.tpu.lowering.products import Block, Product, centered_weights, check_quantized, emit_product
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.op import Array
from trivet.ops.conv import Conv2D, DepthwiseConv2D


@dataclass(frozen=True, slots=True)
class Filters:
    """Weights [KH, KW, C, O], zero where an input channel does not belong to the output's group.

    Group g joins `inputs` channels to `outputs` of the O columns.
    """

    weights: Array
    inputs: int
    outputs: int

    def for_pixels(self, pixels: int, stride: int) -> Filters:
        """Weights [KH, KW + (pixels - 1) * stride, C, pixels * O]: neighbouring pixels as more columns."""
        height, width, channels, columns = self.weights.shape
        wide = np.zeros((height, width + (pixels - 1) * stride, channels, pixels, columns), np.int16)
        for pixel in range(pixels):
            wide[:, pixel * stride : pixel * stride + width, :, pixel] = self.weights
        return Filters(wide.reshape(*wide.shape[:3], -1), channels, pixels * columns)

    def product(self, size: int) -> Product:
        """The tiles that hold channels which count for their columns."""
        height, width, channels, columns = self.weights.shape
        weights = self.weights.reshape(-1, columns)
        blocks: list[Block] = []
        for n in range(0, columns, size):
            stop = min(n + size, columns)
            first, last = n // self.outputs * self.inputs, -(-stop // self.outputs) * self.inputs
            if first == 0 and last == channels:
                blocks.append((n, stop, Product.dense(weights, size).blocks[0][2]))
                continue
            runs = [
                (tap * channels + start, min(size, last - start))
                for tap in range(height * width)
                for start in range(first, last, size)
            ]
            blocks.append((n, stop, tuple(runs)))
        return Product(weights, tuple(blocks))


@LOWERINGS.kernel(Conv2D)
def lower_conv(node: Node) -> Lower:
    """Groups are blocks of the weight matrix."""
    check_quantized(node)
    return partial(_emit_conv, node)


def _emit_conv(node: Node, builder: Builder) -> None:
    op = node.op
    assert isinstance(op, Conv2D)
    w = centered_weights(node)
    outputs, height, width, inputs = w.shape
    matrix = np.zeros((height, width, inputs * op.groups, outputs), np.int16)
    per_group = outputs // op.groups
    for group in range(op.groups):
        rows = slice(group * inputs, (group + 1) * inputs)
        columns = slice(group * per_group, (group + 1) * per_group)
        matrix[:, :, rows, columns] = w[columns].transpose(1, 2, 3, 0)
    _emit_filters(builder, node, Filters(matrix, inputs, per_group))


@LOWERINGS.kernel(DepthwiseConv2D)
def lower_depthwise(node: Node) -> Lower:
    """Blocks of channels: each tap is a diagonal tile."""
    check_quantized(node)
    return partial(_emit_depthwise, node)


def _emit_depthwise(node: Node, builder: Builder) -> None:
    w = centered_weights(node)
    height, width, outputs = w.shape
    channels = node.inputs[0].type.shape[3]
    matrix = np.zeros((height, width, channels, outputs), np.int16)
    every = np.arange(outputs)
    matrix[:, :, every // (outputs // channels), every] = w
    _emit_filters(builder, node, Filters(matrix, 1, outputs // channels))


def _emit_filters(builder: Builder, node: Node, filters: Filters) -> None:
    op, size = node.op, builder.machine.array
    assert isinstance(op, Conv2D | DepthwiseConv2D)
    pixels = _pixels(node, filters, size)
    if pixels > 1:
        filters = filters.for_pixels(pixels, op.stride[1])
    emit_product(builder, node, _windows(builder, node, filters, pixels), filters.product(size), None, pixels)


def _pixels(node: Node, filters: Filters, size: int) -> int:
    """How many neighbouring pixels of the result to compute at once: as many as make the fewest cycles.

    Where a result has fewer channels than the array has columns, more pixels fill them, for a wider window.
    """
    op = node.op
    assert isinstance(op, Conv2D | DepthwiseConv2D)
    height, width, channels, columns = filters.weights.shape
    images, lines, line, _ = node.output.type.shape

    def cycles(pixels: int) -> int:
        elements: int = height * (width + (pixels - 1) * op.stride[1]) * channels
        return -(-elements // size) * max(images * lines * line // pixels, size)

    fitting = [p for p in range(1, size // columns + 1) if line % p == 0] if op.dilation[1] == 1 else []
    return min(fitting, key=cycles, default=1)


def _windows(builder: Builder, node: Node, filters: Filters, pixels: int) -> View:
    """The im2col view of the first operand; padding holds its zero point."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Conv2D | DepthwiseConv2D) and x.type.quant is not None
    batch, height, width, channels = x.type.shape
    _, rows, columns, _ = node.output.type.shape
    return View(
        builder.buffer(x),
        0,
        (height * width * channels, width * channels, channels, 1),
        batch,
        (height, width),
        channels,
        (rows, columns // pixels),
        (filters.weights.shape[0], filters.weights.shape[1]),
        (op.stride[0], op.stride[1] * pixels),
        op.dilation,
        (op.pads[0][0], op.pads[1][0]),
        x.type.quant.zero_point,
    )
