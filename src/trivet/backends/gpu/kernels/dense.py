"""Requantized matrix products with a constant weight: a thread sums one output of one row."""

from __future__ import annotations

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Value
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.kernels.requantize import (
    MOST_SUM,
    Requantizer,
    bias_of,
    centered_weight,
    is_int8_product,
    zero_of,
)
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.matmul import Dense


@RECIPES.kernel(Dense)
def dense(node: Node) -> Recipe | None:
    """y[row, o] = requantized(bias[o] + sum over k of (x[row, k] - zero) * w[o, k]); the zero point is in the bias."""
    op = node.op
    assert isinstance(op, Dense)
    if not is_int8_product(node) or op.numerics is not Numerics.TFLM or op.out is None:
        return None
    outputs, inner = node.input_types[1].shape
    rows = node.output.type.elements // outputs
    weight = centered_weight(node).reshape(outputs, inner)
    bias = bias_of(node, outputs) - zero_of(node) * weight.sum(axis=1)
    if int((np.abs(weight).sum(axis=1) * 128 + np.abs(bias)).max()) > MOST_SUM:
        return None
    scale = Requantizer.of(op.scales(node.input_types), op.out, op.clamp)

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            total = out.load(out.add(column, at.constants[1]), "acc")
            with out.loop(inner) as k:
                x = out.load(out.add(out.add(out.mul(row, inner), k), at.operands[0]), "x")
                w = out.load(out.add(out.add(out.mul(column, inner), k), at.constants[0]), "w")
                out.update(Opcode.ADD, total, out.mul(x, w, "p"))
            y = scale.write(out, total, column, at.constants[2:])
            out.store(out.add(out.add(out.mul(row, outputs), column), at.result), y)

        return by_rows_and_columns(name, rows, outputs, machine, cell)

    return Recipe((node.inputs[0],), write, (weight.ravel(), bias, *scale.tables()))
