"""Requantized convolutions: a thread sums one channel of one pixel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Value, Var
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.kernels.requantize import (
    MOST_SUM,
    Requantizer,
    bias_of,
    centered_weight,
    is_int8_product,
    zero_of,
)
from trivet.backends.gpu.kernels.windows import Image
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe, Words
from trivet.ir.graph import Node
from trivet.ops.conv import Conv2D, DepthwiseConv2D


@RECIPES.kernel(Conv2D)
def conv2d(node: Node) -> Recipe | None:
    """y[pixel, o] = requantized(bias[o] + sum over taps and channels of (x - zero) * w[o, tap, c])."""
    op = node.op
    assert isinstance(op, Conv2D)
    if not is_int8_product(node) or op.out is None or op.groups != 1:
        return None
    channels, kernel = node.input_types[0].shape[3], node.input_types[1].shape[1:3]
    outputs, taps = node.output.type.shape[3], kernel[0] * kernel[1]
    image = _image(node, op, (kernel[0], kernel[1]))
    sums = _Sums.of(node, centered_weight(node).reshape(outputs, -1), image, outputs)
    if sums is None:
        return None
    scale = Requantizer.of(op.scales(node.input_types), op.out, op.clamp)

    def add_tap(out: Builder, total: Var, tap: Value, pixel: Value, column: Value, at: Addresses) -> None:
        row = out.mul(out.add(out.mul(column, taps), tap), channels)
        with out.loop(channels, "c") as c:
            x = out.load(out.add(out.add(pixel, c), at.operands[0]), "x")
            w = out.load(out.add(out.add(row, c), at.constants[0]), "w")
            sums.add(out, total, x, w)

    return _recipe(node, image, sums, scale, outputs, add_tap)


@RECIPES.kernel(DepthwiseConv2D)
def depthwise(node: Node) -> Recipe | None:
    """y[pixel, c] = requantized(bias[c] + sum over taps of (x[tap, c] - zero) * w[tap, c])."""
    op = node.op
    assert isinstance(op, DepthwiseConv2D)
    channels, outputs = node.input_types[0].shape[3], node.output.type.shape[3]
    if not is_int8_product(node) or op.out is None or channels != outputs:
        return None
    kernel = node.input_types[1].shape[:2]
    image = _image(node, op, (kernel[0], kernel[1]))
    sums = _Sums.of(node, centered_weight(node).reshape(-1, outputs).T, image, outputs, by_tap=True)
    if sums is None:
        return None
    scale = Requantizer.of(op.scales(node.input_types), op.out, op.clamp)

    def add_tap(out: Builder, total: Var, tap: Value, pixel: Value, column: Value, at: Addresses) -> None:
        x = out.load(out.add(out.add(pixel, column), at.operands[0]), "x")
        w = out.load(out.add(out.add(out.mul(tap, channels), column), at.constants[0]), "w")
        sums.add(out, total, x, w)

    return _recipe(node, image, sums, scale, outputs, add_tap)


def _image(node: Node, op: Conv2D | DepthwiseConv2D, kernel: tuple[int, int]) -> Image:
    rows, columns = node.output.type.shape[1:3]
    return Image(node.input_types[0].shape, (rows, columns), kernel, op.stride, op.dilation, op.pads)


class _Sums:
    """The weight as it lies in memory, the start of each sum, and what a term is.

    Without padding every tap counts, so the activations' zero point goes into the bias; with padding it is taken off
    each of them.
    """

    def __init__(self, weight: Words, bias: Words, zero: int) -> None:
        self.weight = weight
        self.bias = bias
        self.zero = zero

    @staticmethod
    def of(node: Node, rows: Words, image: Image, outputs: int, by_tap: bool = False) -> _Sums | None:
        """`rows` holds the weights of each output; they are stored so, or by tap. None: a sum may leave 32 bits."""
        bias, zero = bias_of(node, outputs), zero_of(node)
        if not image.is_padded:
            bias, zero = bias - zero * rows.sum(axis=1), 0
        if int((np.abs(rows).sum(axis=1) * (128 + abs(zero)) + np.abs(bias)).max()) > MOST_SUM:
            return None
        return _Sums(np.ascontiguousarray(rows.T if by_tap else rows).ravel(), bias, zero)

    def add(self, out: Builder, total: Var, x: Var, w: Var) -> None:
        """total += (x - zero) * w"""
        term: Value = x if self.zero == 0 else out.add(x, -self.zero, "x")
        out.update(Opcode.ADD, total, out.mul(term, w, "p"))


AddTap = Callable[[Builder, Var, Value, Value, Value, Addresses], None]
"""Writes what one tap adds to the sum: the sum, the tap's number, its pixel's first word, the channel, addresses."""


def _recipe(node: Node, image: Image, sums: _Sums, scale: Requantizer, outputs: int, add_tap: AddTap) -> Recipe:
    starts = image.tables()

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            total = out.load(out.add(column, at.constants[1]), "acc")
            with image.taps(out, row, at.constants[2 : 2 + len(starts)]) as (tap, pixel):
                add_tap(out, total, tap, pixel, column, at)
            y = scale.write(out, total, column, at.constants[2 + len(starts) :])
            out.store(out.add(out.add(out.mul(row, outputs), column), at.result), y)

        return by_rows_and_columns(name, image.pixels, outputs, machine, cell)

    return Recipe((node.inputs[0],), write, (sums.weight, sums.bias, *starts, *scale.tables()))
