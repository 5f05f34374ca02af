"""Matrix products."""

from __future__ import annotations

from dataclasses import replace

from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import I8
from trivet.core.quant import Quant
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.activations import fused_bounds
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.ops import hybrid
from trivet.frontends.tflite.ops.conv import bias
from trivet.ir.graph import Value
from trivet.ops.activation import Clamp
from trivet.ops.elementwise import Add
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import Reshape, Transpose


def fully_connected(op: Conversion) -> None:
    """x: [..., K] of any shape whose elements divide into rows of K, weights: [O, K], bias: [O]."""
    x, w = op.operand(0), op.operand(1)
    if op.integer("weights_format"):
        raise Unsupported("weights are stored shuffled", hint="convert with default weights format")
    if w.type.rank != 2 or 0 in w.type.shape:
        raise InvalidModel(f"weights must be [outputs, inputs], got {w.type}")
    rows = _rows(op, x, w.type.shape[1])
    if hybrid.is_hybrid(op, w):
        op.constant(1)
        y = hybrid.dense(op, rows, w)
    elif w.is_constant:
        dense = Dense(fused_bounds(op), op.out, op.numerics)
        y = op.emit(dense, rows, _row_weights(op, w), *bias(op, 2))
    else:
        y = _dynamic(op, rows, w)
    op.result(y)


def _rows(op: Conversion, x: Value, inputs: int) -> Value:
    """x as rows of `inputs` elements: [..., K] stays when the operator keeps its axes, else [rows, K].

    Raises: InvalidModel.
    """
    if x.type.elements % inputs:
        raise InvalidModel(f"{x.type} does not divide into rows of {inputs}")
    if op.flag("keep_num_dims") and x.type.rank and x.type.shape[-1] == inputs:
        return x
    shape = (x.type.elements // inputs, inputs)
    return x if x.type.shape == shape else op.emit(Reshape(shape), x)


def _row_weights(op: Conversion, w: Value) -> Value:
    """Per-channel weights are symmetric: runtimes ignore their zero points."""
    quant = w.type.quant
    if w.type.dtype is not I8 or quant is None or quant.axis is None:
        return w
    return op.retyped(w, replace(w.type, quant=Quant(quant.scales, (0,) * len(quant.scales), quant.axis)))


def _dynamic(op: Conversion, rows: Value, w: Value) -> Value:
    """Weights that are computed at run time: a batch product, in floats with bias and activation after it.

    Raises: Unsupported.
    """
    if op.numerics is not None:
        raise Unsupported("quantized weights that are computed at run time", hint="use BATCH_MATMUL")
    y = op.emit(BatchMatMul(transpose_b=True), rows, w)
    bounds, addend = fused_bounds(op), bias(op, 2)
    if addend:
        return op.emit(Add(bounds), y, *addend)
    return y if bounds == UNBOUNDED else op.emit(Clamp(bounds), y)


def batch_matmul(op: Conversion) -> None:
    """a: [..., M, K] (transposed by `adj_x`), b: [..., K, N] (by `adj_y`)."""
    a, b = op.operand(0), op.operand(1)
    if min(a.type.rank, b.type.rank) < 2:
        raise InvalidModel(f"operands need two axes, got {a.type} and {b.type}")
    if op.flag("adj_x"):
        rank = a.type.rank
        a = op.emit(Transpose((*range(rank - 2), rank - 1, rank - 2)), a)
    op.result(op.emit(BatchMatMul(op.flag("adj_y"), op.out, op.numerics), a, b))


CONVERTERS: dict[str, Converter] = {"FULLY_CONNECTED": fully_connected, "BATCH_MATMUL": batch_matmul}
