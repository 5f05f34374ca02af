"""Requantized means over the pixels of an image: a thread makes one channel."""

from __future__ import annotations

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Value
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.kernels.requantize import MOST_SUM, Requantizer
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.reduce import Mean

MOST_SHIFT = 31


@RECIPES.kernel(Mean)
def global_mean(node: Node) -> Recipe | None:
    """y[n, c] = requantized(sum over the pixels of x - zero): axes 1 and 2 of [N, H, W, C]."""
    op, type_ = node.op, node.inputs[0].type
    assert isinstance(op, Mean)
    plain = type_.dtype is I8 and op.numerics not in (None, Numerics.ONNX) and op.out is not None
    if not plain or type_.rank != 4 or tuple(op.axes) != (1, 2) or type_.quant is None or op.out is None:
        return None
    images, height, width, channels = type_.shape
    pixels, zero, multiplier = height * width, type_.quant.zero_point, op.multiplier(type_)
    left, right = np.array([max(multiplier.shift, 0)]), np.array([max(-multiplier.shift, 0)])
    if pixels * 256 > MOST_SUM or right[0] > MOST_SHIFT:
        return None
    scale = Requantizer(left, np.array([multiplier.mantissa]), right, op.out.zero_point, UNBOUNDED)

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            total = out.set(-zero * pixels, "acc")
            start = out.add(out.mul(row, pixels * channels), column)
            with out.loop(pixels, "pixel") as pixel:
                x = out.load(out.add(out.add(out.mul(pixel, channels), start), at.operands[0]), "x")
                out.update(Opcode.ADD, total, x)
            y = scale.write(out, total, column, ())
            out.store(out.add(out.add(out.mul(row, channels), column), at.result), y)

        return by_rows_and_columns(name, images, channels, machine, cell)

    return Recipe(node.inputs, write)
