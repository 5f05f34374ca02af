"""Operators that change nothing, and pairs that undo each other."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.elementwise import Cast, Div, Mul, Sub
from trivet.ops.movement import Concat, Expand, Pad, Reinterpret, Reshape, Slice, Tile, Transpose
from trivet.ops.pool import MaxPool2D
from trivet.ops.quantize import Requantize
from trivet.ops.reduce import Mean, ReduceMax, ReduceMin, Sum
from trivet.ops.resize import Coordinates, ResizeBilinear, ResizeNearest
from trivet.passes.base import Pass
from trivet.passes.patterns import made_by, scalar

_MOVEMENT = (Reshape, Transpose, Expand, Tile, Slice, Pad, Cast, Requantize, Reinterpret)
"""Operators that do nothing whenever the result's type is the operand's (a transpose or slice: by their attributes)."""


@dataclass(frozen=True, slots=True)
class RemoveIdentities(Pass):
    """reshape, transpose, slice, pad, expand, tile, cast, requantize, reinterpret, concat of one, clamp to everything,
    resize to the same size, pool of one element, multiplication by one: %y = op(%x)  -->  %x.
    reshape(reshape(%x))  -->  reshape(%x); transpose(transpose(%x))  -->  transpose(%x) with the product permutation;
    a reduction over unit axes  -->  reshape.
    """

    name: ClassVar[str] = "remove-identities"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if is_identity(node):
                _remove(rw, node)
            else:
                _merge(rw, node)


def _remove(rw: Rewriter, node: Node) -> None:
    """Let every reader of an identity read its operand; the node stays only where it joins the borders."""
    same, value = node.output, node.inputs[0]
    if joins_border(rw.graph, node):
        for reader in dict.fromkeys(use.node for use in same.uses):
            rw.set_operands(reader, [value if operand is same else operand for operand in reader.inputs])
            rw.count("identity at the border")
        return
    rw.replace_value(same, value)
    rw.erase(node)
    rw.count("identity")


def joins_border(graph: Graph, node: Node) -> bool:
    """True iff without `node` a model input, state or constant would itself be a result: an operator has to stay."""
    return graph.is_result(node.output) and node.inputs[0].producer is None


def is_identity(node: Node) -> bool:
    """True iff the only result always equals the first operand, type included."""
    if len(node.outputs) != 1 or not node.inputs or node.output.type != node.inputs[0].type:
        return False
    x = node.inputs[0].type
    match node.op:
        case Transpose(perm):
            return perm == tuple(range(x.rank))
        case Slice(starts=starts):
            return not any(starts) and all(step == 1 for step in node.op.steps)
        case Concat():
            return len(node.inputs) == 1
        case Clamp():
            return not (node.op.rescale and x.quant != node.op.out) and covers(node.op.bounds, x)
        case MaxPool2D(kernel=(1, 1), stride=(1, 1)):
            return node.op.clamp == UNBOUNDED
        case ResizeNearest() | ResizeBilinear():
            return _same_size(node.op)
    return isinstance(node.op, _MOVEMENT) or _neutral(node)


def covers(bounds: Bounds, type_: TensorType) -> bool:
    """True iff no value of the type lies outside the bounds."""
    if type_.dtype.is_integer:
        return bounds.lo <= type_.dtype.min and type_.dtype.max <= bounds.hi
    return bounds == UNBOUNDED


def _same_size(op: ResizeNearest | ResizeBilinear) -> bool:
    exact = op.scales is None or op.scales == (1.0, 1.0)
    return exact and op.coordinates is not Coordinates.TF_HALF_PIXEL_FOR_NN


def _neutral(node: Node) -> bool:
    """x * 1, x / 1, x - 0 in float: exact for every x, which x + 0 is not (the sign of zero)."""
    if not isinstance(node.op, Mul | Div | Sub) or node.op.clamp != UNBOUNDED or not node.output.type.dtype.is_float:
        return False
    return scalar(node.inputs[1]) == (0.0 if isinstance(node.op, Sub) else 1.0)


def _merge(rw: Rewriter, node: Node) -> None:
    match node.op:
        case Reshape():
            inner = made_by(node.inputs[0], Reshape)
            if inner is not None:
                _bypass(rw, node, inner.inputs[0])
        case Reinterpret():
            inner = made_by(node.inputs[0], Reinterpret)
            if inner is not None:
                _bypass(rw, node, inner.inputs[0])
        case Transpose(perm):
            _merge_transpose(rw, node, perm)
        case Concat():
            _drop_empty(rw, node)
        case Mean() | Sum() | ReduceMax() | ReduceMin():
            _merge_reduction(rw, node)


def _bypass(rw: Rewriter, node: Node, source: Value) -> None:
    old = node.inputs[0]
    if source.type == node.output.type and not (source.producer is None and rw.graph.is_result(node.output)):
        rw.replace_value(node.output, source)
        rw.erase(node)
    else:
        rw.set_operands(node, [source])
    rw.erase_dead_producers(old)
    rw.count(f"{node.op.name} of {node.op.name}")


def _drop_empty(rw: Rewriter, node: Node) -> None:
    """Operands without elements add nothing to a concat, unless all of them are empty."""
    empty = [value for value in node.inputs if value.type.elements == 0]
    if not empty or len(empty) == len(node.inputs):
        return
    rw.set_operands(node, [value for value in node.inputs if value.type.elements])
    for value in dict.fromkeys(empty):
        rw.erase_dead_producers(value)
    rw.count("empty operand of concat")


def _merge_transpose(rw: Rewriter, node: Node, perm: tuple[int, ...]) -> None:
    inner = made_by(node.inputs[0], Transpose)
    if inner is not None and isinstance(inner.op, Transpose):
        product = tuple(inner.op.perm[p] for p in perm)
        old = node.inputs[0]
        rw.replace_node(node, Transpose(product), [inner.inputs[0]])
        rw.erase_dead_producers(old)
        rw.count("transpose of transpose")


def _merge_reduction(rw: Rewriter, node: Node) -> None:
    """A reduction over axes of extent one computes nothing, if it does not requantize either."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Mean | Sum | ReduceMax | ReduceMin)
    if all(x.shape[axis] == 1 for axis in op.axes) and node.output.type.quant == x.quant:
        rw.replace_node(node, Reshape(node.output.type.shape), node.inputs)
        rw.count("reduction of unit axes")
