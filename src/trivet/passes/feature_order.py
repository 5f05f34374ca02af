"""The features of a dense layer in another order: its constant weight is rearranged instead of activations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trivet.core.quant import Quant
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.activation import Lookup
from trivet.ops.matmul import Dense
from trivet.ops.movement import Reinterpret, Reshape, Transpose
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.passes.commute import ELEMENTWISE, Perm
from trivet.passes.patterns import made_by, read_once


def absorb_into_weights(rw: Rewriter, node: Node, transpose: Node) -> bool:
    """dense(f(reshape(transpose(%x))), w)  -->  dense(f(reshape(%x)), w with reordered columns), f elementwise.

    The reshape must flatten all axes that the transpose moves into the last one, and nothing but such dense layers may
    read it.
    """
    assert isinstance(transpose.op, Transpose)
    x, y, perm = transpose.inputs[0], node.output, transpose.op.perm
    split = _flattened_from(transpose.output.type.shape, y.type.shape)
    if split is None or perm[:split] != tuple(range(split)) or rw.graph.is_result(y):
        return False
    layers = _dense_readers(rw, y)
    if not layers:
        return False
    outer = transpose.output.type.shape[split:]
    # Column k of the weight reads outer element k; the columns are wanted in inner order.
    numbers = np.arange(y.type.shape[-1]).reshape(outer)
    order = numbers.transpose(np.argsort([p - split for p in perm[split:]])).ravel()
    for layer in layers:
        weights = _reordered(rw, layer, layer.inputs[1], lambda w: w[:, order], None)
        stale = layer.inputs[1]
        rw.set_operands(layer, [layer.inputs[0], weights, *layer.inputs[2:]])
        rw.erase_dead_producers(stale)
        _rename_between(y, layer.inputs[0])
    old = node.inputs[0]
    rw.set_operands(node, [x])
    rw.erase_dead_producers(old)
    rw.count("transpose into dense columns")
    return True


def _rename_between(first: Value, last: Value) -> None:
    """Values whose elements have moved are no longer what their names said."""
    value = last
    while True:
        value.name = f"{value.name}.t" if value.name and not value.name.endswith(".t") else value.name
        if value is first or value.producer is None:
            return
        value = value.producer.inputs[0]


def _flattened_from(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """The axis from which on a reshape flattens everything into the last axis, or None if it does anything else."""
    split = len(after) - 1
    if 0 <= split < len(before) and before[:split] == after[:split]:
        return split
    return None


def _dense_readers(rw: Rewriter, value: Value) -> list[Node]:
    """Every dense layer that reads `value`, maybe through functions of one operand; empty if anything else does."""
    layers: list[Node] = []
    for use in value.uses:
        node = use.node
        if isinstance(node.op, Dense) and use.index == 0 and _is_constant(node.inputs[1]):
            layers.append(node)
        elif _is_function(node) and use.index == 0 and not rw.graph.is_result(node.output):
            deeper = _dense_readers(rw, node.output)
            if not deeper:
                return []
            layers += deeper
        else:
            return []
    return layers


def _is_function(node: Node) -> bool:
    """One operand with axes, and neither an attribute nor a quantization about an axis."""
    quants = [value.type.quant for value in (*node.inputs[:1], *node.outputs)]
    if any(quant is not None and quant.axis is not None for quant in quants):
        return False
    if isinstance(node.op, Lookup):
        return True
    return isinstance(node.op, (*ELEMENTWISE, Quantize, Requantize, Reinterpret)) and len(node.inputs) == 1


def _is_constant(value: Value) -> bool:
    source = made_by(value, Dequantize)
    return value.is_constant or (source is not None and source.inputs[0].is_constant)


def reordered_features(rw: Rewriter, reshape: Node, perm: Perm) -> Callable[[Node], Value] | None:
    """transpose{perm}(reshape(f(dense(%x, w, b))))  -->  reshape(f(dense(%x, w', b'))), rows reordered, f elementwise.

    The plan for f(dense(%x, w', b')), or None: the reshape must split the last axis alone, and the transpose move only
    what it split.
    """
    assert isinstance(reshape.op, Reshape)
    features, parts = reshape.inputs[0], reshape.output.type.shape
    split = _flattened_from(parts, features.type.shape)
    if split is None or perm[:split] != tuple(range(split)):
        return None
    chain = _chain_to_dense(rw, features)
    if chain is None:
        return None
    numbers = np.arange(features.type.shape[-1]).reshape(parts[split:])
    order = numbers.transpose([p - split for p in perm[split:]]).ravel()

    def make(anchor: Node) -> Value:
        layer = chain[-1]
        weights = _reordered(rw, anchor, layer.inputs[1], lambda w: w[order], order)
        biases = [_reordered(rw, anchor, bias, lambda b: b[order], order) for bias in layer.inputs[2:]]
        value = rw.insert_before(anchor, layer.op, [layer.inputs[0], weights, *biases], "", layer.loc)
        for node in reversed(chain[:-1]):
            value = rw.insert_before(anchor, node.op, [value, *node.inputs[1:]], "", node.loc)
        return value

    return make


def _chain_to_dense(rw: Rewriter, value: Value) -> list[Node] | None:
    """The functions of one operand that lead up from `value` to a dense layer with constants, and that layer, last."""
    chain: list[Node] = []
    while True:
        node = value.producer
        if node is None or not read_once(rw.graph, value):
            return None
        chain.append(node)
        if isinstance(node.op, Dense):
            return chain if all(_is_constant(operand) for operand in node.inputs[1:]) else None
        if not _is_function(node):
            return None
        value = node.inputs[0]


def _reordered(rw: Rewriter, anchor: Node, value: Value, move: Callable[[Array], Array], rows: Array | None) -> Value:
    """A constant (or dequantized constant) with its elements moved; `rows` reorders a quantization along axis 0."""
    source = made_by(value, Dequantize)
    constant = value if source is None else source.inputs[0]
    assert constant.data is not None
    quant = constant.type.quant
    if quant is not None and quant.axis == 0 and rows is not None and not quant.is_per_tensor:
        quant = Quant(tuple(quant.scales[i] for i in rows), tuple(quant.zero_points[i] for i in rows), 0)
    data = np.ascontiguousarray(move(constant.data))
    moved = rw.constant(data, TensorType(constant.type.dtype, data.shape, quant), constant.name)
    return moved if source is None else rw.insert_before(anchor, Dequantize(), [moved])
