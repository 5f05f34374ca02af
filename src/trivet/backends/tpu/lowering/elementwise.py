"""Elementwise operators on the vector unit: sums and products of two tensors, and functions through tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from trivet.backends.tpu.ir import (
    Clamp,
    Join,
    Offset,
    Operation,
    QuotientLayer,
    Reduce,
    Scale,
    SoftmaxLayer,
    Step,
    Table,
    Target,
    VectorLayer,
    View,
)
from trivet.backends.tpu.ir import Relu as ReluStep
from trivet.backends.tpu.limits import check_shifts, refuse_unless
from trivet.backends.tpu.lowering.builder import LOWERINGS, TABLES, Builder, Lower
from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import I8, I32, U8
from trivet.core.numerics import Numerics, Overflow
from trivet.core.quant import Multiplier
from trivet.ir.graph import Node, Value
from trivet.ir.op import Op
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from trivet.ops.products import clamp_limits
from trivet.ops.softmax import Softmax, powers8
from trivet.ops.stored import scale_ratio
from trivet.ops.tflite_elementwise import scale_of, sum_multiplier, term_multiplier
from trivet.ops.tflite_softmax import power_table

OPERATIONS: Mapping[type[Op], Operation] = {
    Add: Operation.ADD,
    Sub: Operation.SUB,
    Mul: Operation.MUL,
    Minimum: Operation.MIN,
    Maximum: Operation.MAX,
}
"""How the epilogue joins the second operand of each operator."""

SUM_BITS = 20
"""Fraction bits of the terms of a quantized int8 sum."""

SOFTMAX_COLUMNS = 4096
"""From here on the scalar unit's sum of exponentials could leave int32."""


@LOWERINGS.kernel(Relu)
def lower_relu(node: Node) -> Lower:
    """max(v, 0)."""
    return partial(_emit_flat, node, (ReluStep(),))


@LOWERINGS.kernel(*TABLES)
def lower_table(node: Node) -> Lower:
    """Every function of one 8-bit value is a table of its 256 results."""
    x, y = node.inputs[0].type, node.output.type
    for type_ in (x, y):
        refuse_unless(
            type_.dtype in (I8, U8),
            node,
            f"its table would be indexed by {type_.dtype.name}: the unit has 8-bit tables",
        )
        refuse_unless(type_.quant is None or type_.quant.is_per_tensor, node, "its quantization is per channel")
    refuse_unless(len(node.inputs) == 1 or node.inputs[1].is_constant, node, "its table must be a constant")
    return partial(_emit_table, node)


def _emit_table(node: Node, builder: Builder) -> None:
    x = node.inputs[0].type
    every = np.arange(256).astype(np.uint8)
    values = every if x.dtype is U8 else (every - 128).astype(np.uint8).view(np.int8)
    types = (x.with_shape((256,)), *node.input_types[1:])
    (results,) = node.op.evaluate((values, *(v.data for v in node.inputs[1:] if v.data is not None)), types)
    centre: tuple[Step, ...] = (Offset(-128),) if x.dtype is U8 else ()
    _emit_flat(node, (*centre, Table(builder.parameters(results.astype(np.int64)))), builder)


def _emit_flat(node: Node, steps: tuple[Step, ...], builder: Builder) -> None:
    """A layer that takes every element through the epilogue."""
    view = builder.flat(node.inputs[0])
    target = Target.matrix(builder.define(node.output), 1, view.columns)
    builder.add(VectorLayer(node.output.name or node.op.name, view, Reduce.SUM, steps, target))


@LOWERINGS.kernel(Add, Sub, Mul)
def lower_pair(node: Node) -> Lower:
    """Two tensors, which may broadcast: the second is joined in the epilogue."""
    op = node.op
    assert isinstance(op, Add | Sub | Mul)
    dtypes = {value.type.dtype for value in node.inputs}
    if op.out is None:
        refuse_unless(
            op.overflow is Overflow.EXACT and dtypes <= {I8, I32} and op.clamp == UNBOUNDED,
            node,
            "it wraps or computes on floats: the epilogue adds exact int32 values",
        )
    else:
        refuse_unless(dtypes == {I8}, node, "its operands are no int8 tensors")
        refuse_unless(
            op.numerics is not Numerics.ONNX,
            node,
            "the contract 'onnx' adds in floating point: the epilogue multiplies by Q0.31 integers",
        )
    refuse_unless(node.output.type.rank <= 4 or _alike(node), node, "it broadcasts over more than four axes")
    if op.out is not None:
        check_shifts(node, (_result_multiplier(node).shift,))
    return partial(_emit_pair, node)


@LOWERINGS.kernel(Minimum, Maximum)
def lower_extremum(node: Node) -> Lower:
    """The smaller or larger stored value, whatever the scales."""
    dtypes = {value.type.dtype for value in node.inputs}
    refuse_unless(dtypes in ({I8}, {I32}), node, "its operands are neither i8 nor i32")
    refuse_unless(node.output.type.rank <= 4 or _alike(node), node, "it broadcasts over more than four axes")
    return partial(_emit_pair, node)


def _alike(node: Node) -> bool:
    return all(value.type.shape == node.output.type.shape for value in node.inputs)


def _emit_pair(node: Node, builder: Builder) -> None:
    a, b = node.inputs
    if _alike(node):
        views = [builder.flat(a), builder.flat(b)]
    else:
        views = [_broadcast(builder, value, node.output.type.shape) for value in (a, b)]
    target = Target.matrix(builder.define(node.output), views[0].rows, views[0].columns)
    steps = _pair_steps(node, views[1])
    builder.add(VectorLayer(node.output.name or node.op.name, views[0], Reduce.SUM, steps, target))


def _broadcast(builder: Builder, value: Value, shape: tuple[int, ...]) -> View:
    """A value repeated to a shape of up to four axes: its own steps, 0 along repeated axes."""
    padded = (1,) * (4 - len(shape)) + shape
    own = (1,) * (4 - value.type.rank) + value.type.shape
    steps, step = [0, 0, 0, 0], 1
    for axis in (3, 2, 1, 0):
        steps[axis] = 0 if own[axis] == 1 else step
        step *= own[axis]
    n, h, w, c = padded
    return View(builder.buffer(value), 0, (steps[0], steps[1], steps[2], steps[3]), n, (h, w), c, (h, w))


def _pair_steps(node: Node, other: View) -> tuple[Step, ...]:
    op, types = node.op, node.input_types
    operation = OPERATIONS[type(op)]
    if not isinstance(op, Add | Sub | Mul) or op.out is None:
        return (Join(operation, other),)
    assert op.numerics is not None and types[0].quant is not None and types[1].quant is not None
    zeros = [type_.quant.zero_point for type_ in types if type_.quant is not None]
    limits = clamp_limits(I8, op.clamp)
    last = (Offset(op.out.zero_point), Clamp(limits.lo, limits.hi))
    if operation is Operation.MUL:
        product = _scale(0, _result_multiplier(node))
        return (Offset(-zeros[0]), Join(operation, other, -zeros[1]), product, *last)
    first, second = (_scale(SUM_BITS, term_multiplier(type_, types)) for type_ in types)
    out = _scale(0, _result_multiplier(node))
    return (Offset(-zeros[0]), first, Join(operation, other, -zeros[1], second), out, *last)


def _result_multiplier(node: Node) -> Multiplier:
    """What brings the product, or the sum of both terms, to the output's scale."""
    op, types = node.op, node.input_types
    assert isinstance(op, Add | Sub | Mul) and op.out is not None and op.numerics is not None
    if isinstance(op, Mul):
        return scale_ratio(op.numerics, (scale_of(types[0]), scale_of(types[1])), (op.out.scale,))
    return sum_multiplier(types, op.out, SUM_BITS, square=False)


def _scale(left: int, multiplier: Multiplier) -> Scale:
    return Scale(left, multiplier.mantissa, multiplier.shift)


@LOWERINGS.kernel(Softmax)
def lower_softmax(node: Node) -> Lower:
    """The scalar unit's program, over the last axis."""
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, Softmax)
    refuse_unless(x.dtype is I8 and node.output.type.dtype is I8, node, "the scalar unit computes it on int8 alone")
    refuse_unless(op.axis == x.rank - 1, node, "the scalar unit computes it over the last axis alone")
    refuse_unless(x.shape[-1] < SOFTMAX_COLUMNS, node, f"the scalar unit takes less than {SOFTMAX_COLUMNS} columns")
    return partial(_emit_softmax, node)


def _emit_softmax(node: Node, builder: Builder) -> None:
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Softmax)
    view, name = builder.matrix(x, x.type.shape[-1]), node.output.name or "softmax"
    target = Target.matrix(builder.define(node.output), view.rows, view.columns)
    if op.numerics is Numerics.ONNX:
        assert op.out is not None
        table = builder.parameters(powers8(scale_of(x.type), op.beta))
        builder.add(QuotientLayer(name, view, table, op.out.scale, op.out.zero_point, target))
    else:
        table = builder.parameters(power_table(scale_of(x.type), op.beta))
        builder.add(SoftmaxLayer(name, view, table, target))
