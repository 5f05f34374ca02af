"""Requantized sums of two activations: what each stored value adds to the sum stands in a table."""

from __future__ import annotations

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.cells import by_elements
from trivet.backends.gpu.ir import Kernel, Value, Var
from trivet.backends.gpu.kernels.requantize import Requantizer
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.recipe import RECIPES, Addresses, Recipe
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.elementwise import Add
from trivet.ops.tflite_elementwise import sum_terms

_BITS = 20
"""More bits that terms of int8 sums have."""


@RECIPES.kernel(Add)
def requantized_add(node: Node) -> Recipe | None:
    """y = requantized(term of a + term of b), of one shape."""
    op, types = node.op, node.input_types
    assert isinstance(op, Add)
    tflite = op.out is not None and op.numerics not in (None, Numerics.ONNX)
    if not tflite or op.out is None or any(t.dtype is not I8 for t in types) or types[0].shape != types[1].shape:
        return None
    (terms_a, terms_b), multiplier = sum_terms(types, op.out, _BITS, square=False)
    left, right = np.array([max(multiplier.shift, 0)]), np.array([max(-multiplier.shift, 0)])
    scale = Requantizer(left, np.array([multiplier.mantissa]), right, op.out.zero_point, op.clamp)

    def write(name: str, at: Addresses, machine: Machine) -> Kernel:
        def element(out: Builder, index: Value) -> None:
            a, b = (_term(out, index, at.operands[i], at.constants[i]) for i in (0, 1))
            y = scale.write(out, out.add(a, b, "sum"), index, ())
            out.store(out.add(index, at.result), y)

        return by_elements(name, node.output.type.elements, machine, element)

    return Recipe(node.inputs, write, (terms_a.astype(np.int64), terms_b.astype(np.int64)))


def _term(out: Builder, index: Value, operand: int, table: int) -> Var:
    x = out.load(out.add(index, operand), "x")
    return out.load(out.add(x, table - I8.min), "term")
