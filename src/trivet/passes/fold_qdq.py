"""Quantize / dequantize pairs become the quantization of integer operators."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import I8, DType
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.pool import MaxPool2D
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.passes.base import Pass, Preserves, Steps
from trivet.passes.integer_forms import FORMS, REORDERING
from trivet.passes.lookup_tables import as_table
from trivet.passes.patterns import made_by
from trivet.passes.qdq_site import Site


@dataclass(frozen=True, slots=True)
class FoldQdq(Pass):
    """%y = quantize(conv2d(dequantize(%x), dequantize(w), dequantize(b)))  -->  %y = conv2d{out}(%x, w, b), for every
    operator with an integer form (`integer_forms`); weights and int32 biases are kept as stored;
    quantize(f(dequantize(%x)))  -->  lookup(%x, table), for every float function of one 8-bit tensor;
    quantize(dequantize(%x))  -->  requantize(%x), or %x itself where nothing changes;
    reshape(dequantize(%x))  -->  dequantize(reshape(%x)), and quantize(reshape(%v))  -->  reshape(quantize(%v)), so
    that movement does not hide a pair; transpose, slice, gather and the like too.

    An operator whose float result something else reads too stays float, with its explicit quantize and dequantize.
    Rounding is that of the float operator and its quantize but for float32 error near halves: one step.
    """

    dtypes: tuple[DType, ...] = (I8,)
    name: ClassVar[str] = "fold-qdq"
    preserves: ClassVar[Preserves] = Steps(1)

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            _movement_before_dequantize(rw, node)
        # A join that folds leaves new quantizes in front of its float operands, so look again until nothing folds.
        while any([self._try(rw, node) for node in list(rw.graph.nodes) if isinstance(node.op, Quantize)]):
            pass

    def _try(self, rw: Rewriter, quantize: Node) -> bool:
        """Fold one quantize, or move it up; True iff anything changed."""
        op = quantize.op
        assert isinstance(op, Quantize)
        if op.dtype not in self.dtypes or op.out.axis is not None or quantize.inputs[0].is_constant:
            return False
        return self._fold(rw, quantize, op)

    def _fold(self, rw: Rewriter, quantize: Node, op: Quantize) -> bool:
        source = quantize.inputs[0].producer
        if source is None:
            return False
        if isinstance(source.op, Dequantize):
            return _merge_pair(rw, quantize, source, op)
        if len(source.outputs) != 1:
            return False
        site = Site(rw, quantize, source)
        result = as_table(site)
        if result is None and op.numerics is Numerics.ONNX and _only_quantized(rw, source.output):
            form = FORMS.get(type(source.op))
            result = form(site) if form is not None else None
        if result is not None:
            _replace(rw, quantize, result)
            rw.count(f"{source.op.name} as {result.producer.op.name if result.producer else 'nothing'}")
            return True
        moved = _quantize_before_movement(rw, quantize, source, op)
        if moved is not None:
            self._fold(rw, moved, op)
        return moved is not None


def _only_quantized(rw: Rewriter, value: Value) -> bool:
    """True iff nothing reads `value` as a float."""
    return not rw.graph.is_result(value) and all(isinstance(use.node.op, Quantize) for use in value.uses)


def _replace(rw: Rewriter, quantize: Node, result: Value) -> None:
    """`result` takes the place and the name of what `quantize` gives."""
    old, source = quantize.output, quantize.inputs[0]
    assert result.type == old.type, f"{result!r} is not {old!r}"
    if result.producer is not None and not result.name:
        rw.rename(result, old.name)
    rw.replace_value(old, result)
    rw.erase(quantize)
    rw.erase_dead_producers(source)


def _merge_pair(rw: Rewriter, quantize: Node, dequantize: Node, op: Quantize) -> bool:
    x = dequantize.inputs[0]
    if x.type == quantize.output.type:
        _replace(rw, quantize, x)
        rw.count("pair that changes nothing")
        return True
    if op.numerics is not Numerics.ONNX or x.type.quant is None or x.type.quant.axis is not None:
        return False
    _replace(rw, quantize, rw.insert_before(quantize, Requantize(op.out, op.dtype, op.numerics), [x]))
    rw.count("pair as requantize")
    return True


def _movement_before_dequantize(rw: Rewriter, node: Node) -> None:
    """Movement of a dequantized value works on a quarter of the bytes before it."""
    moves = isinstance(node.op, REORDERING) or (isinstance(node.op, MaxPool2D) and node.op.clamp == UNBOUNDED)
    source = made_by(node.inputs[0], Dequantize) if moves else None
    if source is None or source.inputs[0].is_constant:
        return
    quant = source.inputs[0].type.quant
    if quant is None or quant.axis is not None:
        return
    old = node.inputs[0]
    stored = rw.insert_before(node, node.op, [source.inputs[0], *node.inputs[1:]])
    rw.replace_node(node, Dequantize(), [stored])
    rw.erase_dead_producers(old)
    rw.count(f"{node.op.name} before dequantize")


def _quantize_before_movement(rw: Rewriter, quantize: Node, source: Node, op: Quantize) -> Node | None:
    """quantize(movement(%v))  -->  movement(quantize(%v)), if the movement feeds nothing else."""
    if not isinstance(source.op, REORDERING) or not _only_quantized(rw, source.output):
        return None
    if source.inputs[0].is_constant:
        return None
    name = quantize.output.name
    stored = rw.insert_before(quantize, op, [source.inputs[0]], f"{name}.t" if name else "")
    _replace(rw, quantize, rw.insert_before(quantize, source.op, [stored, *source.inputs[1:]]))
    rw.count(f"quantize before {source.op.name}")
    return stored.producer
