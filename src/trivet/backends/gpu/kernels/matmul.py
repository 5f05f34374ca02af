"""Exact matrix products: a thread sums one element."""

from __future__ import annotations

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_rows_and_columns
from trivet.backends.gpu.ir import Kernel, Relation, Value, Var
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.ir.graph import Node
from trivet.ops.matmul import MatMul


@RECIPES.kernel(MatMul)
def matmul(node: Node) -> Recipe | None:
    """y[row, column] = sum over k of a[row, k] * b[k, column], then bias and relu."""
    op = node.op
    assert isinstance(op, MatMul)
    a, b = node.input_types[:2]
    inner = a.shape[-1]
    rows = a.shape[0] if a.rank == 2 else 1
    columns = b.shape[1] if b.rank == 2 else 1

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def cell(out: Builder, row: Value, column: Value) -> None:
            total = out.set(0, "acc")
            with out.loop(inner) as k:
                x = out.load(out.add(out.add(out.mul(row, inner), k), at.operands[0]), "a")
                w = out.load(out.add(out.add(out.mul(k, columns), column), at.operands[1]), "b")
                out.update(Opcode.ADD, total, out.mul(x, w, "p"))
            if op.bias:
                out.update(Opcode.ADD, total, out.load(out.add(column, at.operands[2]), "bias"))
            if op.relu:
                relu(out, total)
            out.store(out.add(out.add(out.mul(row, columns), column), at.result), total)

        return by_rows_and_columns(name, rows, columns, machine, cell)

    return Recipe(node.inputs, write, extended=False)


def relu(out: Builder, value: Var) -> None:
    """value = max(value, 0)"""
    with out.when(value, Relation.LT, 0):
        out.assign(value, 0)
