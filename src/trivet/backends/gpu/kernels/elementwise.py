"""Exact operators on corresponding elements."""

from __future__ import annotations

from collections.abc import Callable

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_elements, by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Value
from trivet.backends.gpu.kernels.matmul import relu
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.core.numerics import Overflow
from trivet.ir.graph import Node
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add


@RECIPES.kernel(Add)
def add(node: Node) -> Recipe | None:
    """y = a + b, of one shape, or of a matrix and a vector along its last axis."""
    if not isinstance(node.op, Add) or node.op.overflow is not Overflow.EXACT:
        return None
    a, b = (type_.shape for type_ in node.input_types)
    shape = node.output.type.shape
    if a == b:
        return Recipe(node.inputs, _same_shape(node.output.type.elements), extended=False)
    matrix, vector = (0, 1) if a == shape else (1, 0)
    if len(shape) != 2 or node.input_types[vector].shape != shape[1:]:
        return None

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            index = out.add(out.mul(row, shape[1]), column)
            x = out.load(out.add(index, at.operands[matrix]), "a")
            y = out.load(out.add(column, at.operands[vector]), "b")
            out.store(out.add(index, at.result), out.add(x, y, "sum"))

        return by_rows_and_columns(name, shape[0], shape[1], machine, cell)

    return Recipe(node.inputs, write, extended=False)


def _same_shape(count: int) -> Callable[[str, Addresses, Machine], Kernel]:
    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def element(out: Builder, index: Value) -> None:
            x = out.load(out.add(index, at.operands[0]), "a")
            y = out.load(out.add(index, at.operands[1]), "b")
            out.store(out.add(index, at.result), out.add(x, y, "sum"))

        return by_elements(name, count, machine, element)

    return write


@RECIPES.kernel(Relu)
def plain_relu(node: Node) -> Recipe | None:
    """y = max(x, 0)"""

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def element(out: Builder, index: Value) -> None:
            x = out.load(out.add(index, at.operands[0]), "x")
            relu(out, x)
            out.store(out.add(index, at.result), x)

        return by_elements(name, node.output.type.elements, machine, element)

    return Recipe(node.inputs, write, extended=False)
