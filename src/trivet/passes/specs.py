"""What is true of a graph between passes. A spec is a list of claims that can be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from trivet.core.dtype import I8, U8, U16
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ops.border import Receive, Send
from trivet.ops.movement import Reshape, Transpose
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.ops.resize import ResizeBilinear
from trivet.passes.integer_forms import FORMS, PRODUCTS

Claim = Callable[[Graph], Iterator[str]]
"""Yields a sentence for every place where the claim does not hold."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A named set of claims; `base` claims hold as well."""

    name: str
    claims: tuple[Claim, ...] = field(default=())
    base: Spec | None = None

    def violations(self, graph: Graph) -> Iterator[str]:
        """Every sentence of every claim that fails, the base's first."""
        if self.base is not None:
            yield from self.base.violations(graph)
        for claim in self.claims:
            yield from claim(graph)

    def implies(self, other: Spec) -> bool:
        """True iff whatever satisfies this spec satisfies `other`."""
        spec: Spec | None = self
        while spec is not None:
            if spec is other:
                return True
            spec = spec.base
        return False


IMPORTED = Spec("imported")


def nothing_left_to_compute(graph: Graph) -> Iterator[str]:
    """No operator has constants alone for operands."""
    for node in graph.nodes:
        if node.inputs and all(value.is_constant for value in node.inputs):
            yield f"{node!r} could be computed at compile time"


def unsigned_at_the_border_only(graph: Graph) -> Iterator[str]:
    """Quantized unsigned tensors are model inputs, states and results of requantize, maybe moved, never constants."""
    for node in graph.nodes:
        for value in node.outputs:
            if _is_unsigned(value) and not isinstance(node.op, Requantize | Reshape | Transpose | Receive | Send):
                yield f"{node!r} computes an unsigned quantized tensor"
    for value in graph.constants():
        if _is_unsigned(value):
            yield f"constant {value!r} is unsigned and quantized"


def _is_unsigned(value: Value) -> bool:
    return value.type.dtype in (U8, U16) and value.type.quant is not None


def no_quantization_pairs(graph: Graph) -> Iterator[str]:
    """No operator with an integer form has all operands dequantized and nothing but quantized results, under `onnx`.

    Convolutions and dense layers are left out: what is dequantized there are computed weights, for which there is none.
    """
    for node in graph.nodes:
        if isinstance(node.op, Quantize) and node.op.numerics is Numerics.ONNX:
            source = node.inputs[0].producer
            if source is not None and _is_pair(graph, node, source):
                yield f"{source!r} stands between dequantize and quantize"


def _is_pair(graph: Graph, quantize: Node, source: Node) -> bool:
    if type(source.op) not in FORMS or isinstance(source.op, PRODUCTS) or graph.is_result(source.output):
        return False
    if not all(isinstance(use.node.op, Quantize) for use in source.output.uses):
        return False
    stored = [v.type for value in source.inputs if (v := _stored_operand(value)) is not None]
    wanted = quantize.output.type
    whole = len(stored) == len(source.inputs) and all(t.dtype is wanted.dtype for t in stored)
    per_channel = any(t.quant is not None and t.quant.axis is not None for t in (*stored, wanted))
    rescales = isinstance(source.op, ResizeBilinear) and any(t.quant != wanted.quant for t in stored)
    return whole and wanted.dtype is I8 and not per_channel and not rescales


def _stored_operand(value: Value) -> Value | None:
    node = value.producer
    return node.inputs[0] if node is not None and isinstance(node.op, Dequantize) else None


def transposes_are_merged(graph: Graph) -> Iterator[str]:
    """No transpose reads another transpose."""
    for node in graph.nodes:
        source = node.inputs[0].producer if node.inputs else None
        if isinstance(node.op, Transpose) and source is not None and isinstance(source.op, Transpose):
            yield f"{node!r} reads a transpose"


CANONICAL = Spec(
    "canonical",
    (nothing_left_to_compute, unsigned_at_the_border_only, no_quantization_pairs, transposes_are_merged),
    IMPORTED,
)
"""What normalization leaves. Channels-last axes, resolved attributes and static shapes hold by the operators' types;
every remaining constant is referenced because a graph holds no other."""
