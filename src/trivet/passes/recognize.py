"""Functions that exporters spread over several operators."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core.dtype import F32
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array, Op
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp, Gelu, HardSwish, Tanh
from trivet.ops.elementwise import Div, Mul
from trivet.ops.mathematics import Erf
from trivet.passes.base import Pass, Preserves, Relative
from trivet.passes.lookup_tables import POINTWISE
from trivet.passes.patterns import scalar

CANDIDATES: tuple[tuple[type[Op], Op], ...] = ((Clamp, HardSwish()), (Erf, Gelu()), (Tanh, Gelu(approximate=True)))
"""An operator that must be among those spread, and the one operator that does the same."""

MAX_NODES = 10
SAMPLES = np.linspace(-9.0, 9.0, 2881, dtype=np.float32)
"""Every sixteenth from -9 to 9, all exact in float32."""

TOLERANCE = 2e-6
"""Difference at a sample x that is no difference, times max(1, |x|)."""


@dataclass(frozen=True, slots=True)
class Recognize(Pass):
    """mul(%x, clamp{0..6}(add(%x, 3))) / 6  -->  hard_swish(%x); 0.5 * %x * (1 + erf(%x / sqrt 2))  -->  gelu(%x), and
    its tanh form; in every order in which exporters write them, for the operators' values on samples decide.
    """

    name: ClassVar[str] = "recognize"
    preserves: ClassVar[Preserves] = Relative(1e-5)

    def rewrite(self, rw: Rewriter) -> None:
        for node in reversed(list(rw.graph.nodes)):
            if isinstance(node.op, Mul | Div) and node.output.type.dtype is F32 and node in rw.graph.nodes:
                _recognize(rw, node)


def _recognize(rw: Rewriter, node: Node) -> None:
    above = _nodes_above(node)
    for marker, op in CANDIDATES:
        if not any(isinstance(other.op, marker) for other in above):
            continue
        for x in _operands(above):
            if x.type == node.output.type and _same_function(node, x, op):
                old = node.inputs
                rw.replace_node(node, op, [x])
                for value in old:
                    rw.erase_dead_producers(value)
                rw.count(f"spread {op.name}")
                return


def _nodes_above(node: Node) -> list[Node]:
    """The pointwise float operators that lead to `node`, itself included, nearest first; not more than MAX_NODES."""
    found = [node]
    for current in found:
        for value in current.inputs:
            source = value.producer
            if source is not None and isinstance(source.op, POINTWISE) and source not in found:
                found.append(source)
        if len(found) >= MAX_NODES:
            return found[:MAX_NODES]
    return found


def _operands(nodes: list[Node]) -> list[Value]:
    """What the nodes read, constants aside."""
    return list(dict.fromkeys(value for node in nodes for value in node.inputs if not value.is_constant))


def _same_function(node: Node, x: Value, op: Op) -> bool:
    spread = _evaluate(node.output, {x: SAMPLES}, MAX_NODES)
    if spread is None:
        return False
    type_ = TensorType(F32, SAMPLES.shape)
    wanted = op.evaluate((SAMPLES,), (type_,))[0]
    return bool(np.all(np.abs(spread - wanted) <= TOLERANCE * np.maximum(1, np.abs(SAMPLES))))


def _evaluate(value: Value, known: dict[Value, Array], depth: int) -> Array | None:
    """`value` at every sample of the known value, or None if it depends on anything else."""
    if value in known:
        return known[value]
    number = scalar(value)
    if number is not None and value.type.dtype is F32:
        return np.full(SAMPLES.shape, number, np.float32)
    node = value.producer
    if node is None or depth == 0 or not isinstance(node.op, POINTWISE):
        return None
    operands: list[Array] = []
    for operand in node.inputs:
        array = _evaluate(operand, known, depth - 1)
        if array is None:
            return None
        operands.append(array)
    types = tuple(TensorType(v.type.dtype, SAMPLES.shape) for v in node.inputs)
    known[value] = node.op.evaluate(tuple(operands), types)[0]
    return known[value]
