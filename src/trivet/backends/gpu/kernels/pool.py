"""Requantized pools: a thread makes one channel of one pixel."""

from __future__ import annotations

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Value
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.kernels.requantize import clipped
from trivet.backends.gpu.kernels.windows import Image
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.products import clamp_limits

MOST_TAPS = 2048
"""So many taps are divided exactly by a product with 2^31 / taps: 2 * 128 * taps^2 < 2^31."""


@RECIPES.kernel(AveragePool2D)
def average_pool(node: Node) -> Recipe | None:
    """y = sum / taps, halves away from zero, of the stored values; padding is not supported."""
    op, type_ = node.op, node.inputs[0].type
    assert isinstance(op, AveragePool2D)
    taps = op.kernel[0] * op.kernel[1]
    image = _image(node, op.kernel, op.stride, (1, 1), op.pads)
    plain = type_.dtype is I8 and op.numerics in (Numerics.TFLM, Numerics.LITERT) and op.out == type_.quant
    if not plain or image.is_padded or taps > MOST_TAPS:
        return None
    channels, reciprocal = type_.shape[3], -(-(1 << 31) // taps)
    limits, tables = clamp_limits(I8, op.clamp), image.tables()

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            total = out.set(0, "acc")
            with image.taps(out, row, at.constants) as (_, pixel):
                out.update(Opcode.ADD, total, out.load(out.add(out.add(pixel, column), at.operands[0]), "x"))
            sign = out.add(out.mul(out.binary(Opcode.SHR, total, 31), 2), 1, "sign")
            mean = out.binary(Opcode.MULH, out.mul(total, sign), min(reciprocal, (1 << 31) - 1))
            y = clipped(out, out.mul(mean, sign), limits.lo, limits.hi)
            out.store(out.add(out.add(out.mul(row, channels), column), at.result), y)

        return by_rows_and_columns(name, image.pixels, channels, machine, cell)

    return Recipe(node.inputs, write, tables)


@RECIPES.kernel(MaxPool2D)
def max_pool(node: Node) -> Recipe | None:
    """y = the largest tap inside the image."""
    op, type_ = node.op, node.inputs[0].type
    assert isinstance(op, MaxPool2D)
    if type_.dtype is not I8:
        return None
    image, channels = _image(node, op.kernel, op.stride, op.dilation, op.pads), type_.shape[3]
    limits, tables = clamp_limits(I8, op.clamp), image.tables()

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            highest = out.set(I8.min, "max")
            with image.taps(out, row, at.constants) as (_, pixel):
                out.update(Opcode.MAX, highest, out.load(out.add(out.add(pixel, column), at.operands[0]), "x"))
            y = clipped(out, highest, limits.lo, limits.hi)
            out.store(out.add(out.add(out.mul(row, channels), column), at.result), y)

        return by_rows_and_columns(name, image.pixels, channels, machine, cell)

    return Recipe(node.inputs, write, tables)


def _image(
    node: Node,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[tuple[int, int], tuple[int, int]],
) -> Image:
    rows, columns = node.output.type.shape[1:3]
    return Image(node.input_types[0].shape, (rows, columns), kernel, stride, dilation, pads)
