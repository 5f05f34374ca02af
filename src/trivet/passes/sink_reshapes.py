"""Reshapes behind elementwise operators, where they meet the reshape that undoes them."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import Shape
from trivet.ops.activation import Lookup
from trivet.ops.movement import Reinterpret, Reshape
from trivet.ops.quantize import Quantize, Requantize
from trivet.passes.base import Pass
from trivet.passes.commute import ELEMENTWISE
from trivet.passes.patterns import aligned, made_by
from trivet.passes.restate_unsigned import SIGNED

_FUNCTIONS = (*ELEMENTWISE, Quantize, Requantize, Reinterpret, Lookup)


@dataclass(frozen=True, slots=True)
class SinkReshapes(Pass):
    """f(reshape(%x))  -->  reshape(f(%x)), for elementwise f; further operands must be reshaped from the same shape, or
    be constants: numbers, of the full shape, or broadcasting over it when the reshape only drops or adds unit axes.

    So a clamp reaches the 1-D convolution that is a 2-D one between reshapes.
    """

    name: ClassVar[str] = "sink-reshapes"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if not isinstance(node.op, _FUNCTIONS) or not _is_per_tensor(node) or _gives_unsigned(node):
                continue
            reshape = next((r for value in node.inputs if (r := made_by(value, Reshape)) is not None), None)
            if reshape is not None and reshape.output.type.shape == node.output.type.shape:
                _sink(rw, node, reshape)


def _is_per_tensor(node: Node) -> bool:
    quants = [value.type.quant for value in (*node.inputs, *node.outputs)]
    return all(quant is None or quant.axis is None for quant in quants)


def _gives_unsigned(node: Node) -> bool:
    """Unsigned results are for model outputs: nothing follows them."""
    return node.output.type.dtype in SIGNED


def _sink(rw: Rewriter, node: Node, reshape: Node) -> None:
    before = reshape.inputs[0].type.shape
    fixed = 1 if isinstance(node.op, Lookup) else len(node.inputs)
    operands = [_before(rw, value, before, node.output.type.shape) for value in node.inputs[:fixed]]
    found = [value for value in operands if value is not None]
    if len(found) < len(operands):
        return
    old, name = node.inputs, node.output.name
    inner = rw.insert_before(node, node.op, [*found, *node.inputs[fixed:]], f"{name}.flat" if name else "", node.loc)
    rw.replace_node(node, Reshape(node.output.type.shape), [inner])
    for value in old:
        rw.erase_dead_producers(value)
    rw.count(f"reshape sinks through {node.op.name}")


def _before(rw: Rewriter, value: Value, before: Shape, after: Shape) -> Value | None:
    """An operand as it is before the reshape from `before` to `after`, or None."""
    reshape = made_by(value, Reshape)
    if reshape is not None and reshape.inputs[0].type.shape == before and value.type.shape == after:
        return reshape.inputs[0]
    if value.data is None:
        return None
    shape: Shape | None = None
    if value.type.elements == 1:
        shape = (1,) * len(before)
    elif value.type.shape == after:
        shape = before
    else:
        shape = unit_axes_moved(aligned(value.type.shape, len(after)), after, before)
    return None if shape is None else rw.constant(value.data.reshape(shape), value.type.with_shape(shape), value.name)


def unit_axes_moved(operand: Shape, after: Shape, before: Shape) -> Shape | None:
    """The shape of an operand that broadcasts to `after`, seen against `before`, which differs in unit axes only."""
    longer = [size for axis, size in enumerate(operand) if after[axis] != 1]
    if [d for d in after if d != 1] != [d for d in before if d != 1]:
        return None
    sizes = iter(longer)
    return tuple(1 if size == 1 else next(sizes) for size in before)
