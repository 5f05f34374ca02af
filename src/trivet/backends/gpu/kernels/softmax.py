"""Int8 softmax along the last axis: a thread makes one element, from the maximum and the sum of its row.

The exponential of a difference from the maximum is one of 256 numbers, so it stands in a table.
"""

from __future__ import annotations

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Relation, Value, Var
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.kernels.requantize import clipped
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.core.dtype import I8
from trivet.core.fixedpoint import rdbp
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.softmax import Softmax
from trivet.ops.tflite_softmax import power_table

MOST_COLUMNS = 256
"""So many terms of at most 2^19 leave at least four zeros above the sum, and every shift stays below 32."""

_TERM_BITS = 19
_ONE = 1 << 30


@RECIPES.kernel(Softmax)
def softmax8(node: Node) -> Recipe | None:
    """y = power * 1 / total, in the fixed-point steps of TensorFlow Lite."""
    op, type_ = node.op, node.inputs[0].type
    assert isinstance(op, Softmax)
    if op.numerics in (None, Numerics.ONNX) or type_.dtype is not I8 or op.dtype is not I8 or type_.quant is None:
        return None
    columns = type_.shape[-1]
    if op.axis != type_.rank - 1 or columns > MOST_COLUMNS:
        return None
    powers = np.maximum(power_table(type_.quant.scale, op.beta), 0)

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            start = out.add(out.mul(row, columns), at.operands[0])
            highest = _highest(out, start, columns)
            total = out.set(0, "total")
            with out.loop(columns) as k:
                out.update(Opcode.ADD, total, _entry(out, out.add(start, k), highest, at.constants[1]))
            shifted, zeros = _normalized(out, total, columns)
            product = out.binary(
                Opcode.MULH, _reciprocal(out, shifted), _entry(out, out.add(start, column), highest, at.constants[0])
            )
            places = out.binary(Opcode.SUB, 12 + 31 - I8.bits, zeros)
            y = out.add(out.binary(Opcode.SHRN, product, places), I8.min)
            out.store(out.add(out.add(out.mul(row, columns), column), at.result), clipped(out, y, I8.min, I8.max))

        return by_rows_and_columns(name, type_.elements // columns, columns, machine, cell)

    return Recipe(node.inputs, write, (powers, rdbp(powers, 12)))


def _highest(out: Builder, start: Value, columns: int) -> Var:
    highest = out.set(I8.min, "max")
    with out.loop(columns) as k:
        out.update(Opcode.MAX, highest, out.load(out.add(start, k), "x"))
    return highest


def _entry(out: Builder, address: Value, highest: Var, table: int) -> Var:
    """The table's number for an element's difference from the maximum, which lies in -255..0."""
    difference = out.binary(Opcode.SUB, out.load(address, "x"), highest, "d")
    return out.load(out.add(difference, table + 255), "e")


def _normalized(out: Builder, total: Var, columns: int) -> tuple[Var, Var]:
    """total * 2^zeros - 2^31, and how many zeros stand above the highest bit of 32: at least 2^19 is in the total."""
    zeros = out.set(1, "zeros")
    with out.loop(30 - _TERM_BITS), out.when(total, Relation.LT, _ONE):
        out.update(Opcode.ADD, total, total)
        out.update(Opcode.ADD, zeros, 1)
    return out.mul(out.add(total, -_ONE), 2), zeros


def _reciprocal(out: Builder, a: Var) -> Var:
    """1 / (1 + a) for a in [0, 1), Q0.31: three Newton-Raphson steps on half of 1 + a, then doubled, saturating."""
    half = out.add(out.binary(Opcode.SHR, a, 1), _ONE, "half")
    x = out.add(out.binary(Opcode.MULH, half, -1010580540), 1515870810, "r")
    for _ in range(3):
        error = out.binary(Opcode.SUB, 1 << 29, out.binary(Opcode.MULH, half, x))
        x = out.add(x, out.binary(Opcode.SHL, out.binary(Opcode.MULH, x, error), 2), "r")
    beyond = out.binary(Opcode.MIN, out.binary(Opcode.MAX, out.add(x, 1 - _ONE), 0), 1)
    return out.add(out.binary(Opcode.SHL, out.binary(Opcode.MIN, x, _ONE - 1), 1), beyond, "r")
