"""Dynamic range: int8 weights beside float activations, which LiteRT quantizes when the network runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import F32, I8, I32
from trivet.core.quant import Quant
from trivet.errors import Unsupported
from trivet.frontends.tflite.activations import fused_bounds
from trivet.frontends.tflite.conversion import Conversion
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.dynamic import DynamicQuantize, DynamicRange, IntegerConv2D
from trivet.ops.elementwise import Add, Cast, Mul, Sub
from trivet.ops.movement import Concat, Reshape, Slice


def is_hybrid(op: Conversion, w: Value) -> bool:
    """True iff weights are quantized and the result is float.

    Raises: Unsupported, for weights that LiteRT does not take beside floats.
    """
    if not w.type.dtype.is_integer or op.declared().dtype is not F32:
        return False
    if w.type.dtype is not I8 or w.type.quant is None or any(w.type.quant.zero_points):
        raise Unsupported(
            f"weights '{w.name}' {w.type} with float activations; int8 without zero points is accepted",
            hint="quantize activations as well (full integer quantization), or convert without quantization",
        )
    return True


def dense(op: Conversion, x: Value, w: Value) -> Value:
    """x: f32 [..., K], w: i8 [O, K]: every row has a scale, and with `asymmetric_inputs` a zero point, of its own."""
    assert w.data is not None and w.type.quant is not None
    outputs, inputs = w.type.shape
    rows = x.type.elements // inputs
    matrix = op.emit(Reshape((rows, inputs)), x)
    asymmetric = op.flag("asymmetric_inputs")
    mode = DynamicRange.ASYMMETRIC if asymmetric else DynamicRange.SYMMETRIC
    stored, scale, zero = op.emit_all(DynamicQuantize(mode, 1), matrix)
    filters = op.plain(w.data, TensorType(I8, (outputs, 1, 1, inputs)), w.name)
    pixels = op.emit(Reshape((1, 1, rows, inputs)), stored)
    sums = op.emit(Reshape((rows, outputs)), op.emit(IntegerConv2D(), pixels, filters, _integer(op, 0)))
    if asymmetric:
        totals = op.plain(w.data.astype(np.int32).sum(1).astype(np.int32), TensorType(I32, (outputs,)))
        sums = op.emit(Sub(), sums, op.emit(Mul(), zero, totals))
    factor = op.emit(Mul(), scale, _scales(op, w.type.quant))
    y = _finished(op, op.emit(Mul(), op.emit(Cast(F32), sums), factor))
    return op.emit(Reshape((*x.type.shape[:-1], outputs)), y)


def convolution(op: Conversion, like: IntegerConv2D, x: Value, w: Value) -> Value:
    """w: i8 [O, KH, KW, C/groups]; one quantization for each item of the batch.

    Filters of one scale: symmetric, the product of both scales first. Of several: asymmetric, the filter's scale first.
    """
    assert w.type.quant is not None
    scales = w.type.quant.scales
    symmetric = like.groups == 1 and len(set(scales)) == 1

    def scaled(sums: Value, scale: Value) -> Value:
        real = op.emit(Cast(F32), sums)
        if symmetric:
            return op.emit(Mul(), real, op.emit(Mul(), scale, op.number(scales[0])))
        return op.emit(Mul(), op.emit(Mul(), real, _scales(op, w.type.quant)), scale)

    mode = DynamicRange.SYMMETRIC if symmetric else DynamicRange.ASYMMETRIC
    return _by_item(op, like, mode, x, op.retyped(w, replace(w.type, quant=None)), scaled)


def depthwise(op: Conversion, like: IntegerConv2D, x: Value, w: Value) -> Value:
    """w: i8 [KH, KW, C*m]; asymmetric, the product of both scales first."""
    assert w.data is not None and w.type.quant is not None
    filters: Array = np.ascontiguousarray(w.data.transpose(2, 0, 1))[..., None]
    quant = w.type.quant

    def scaled(sums: Value, scale: Value) -> Value:
        return op.emit(Mul(), op.emit(Cast(F32), sums), op.emit(Mul(), _scales(op, quant), scale))

    weights = op.plain(filters, TensorType(I8, filters.shape), w.name)
    return _by_item(op, replace(like, groups=x.type.shape[3]), DynamicRange.ASYMMETRIC, x, weights, scaled)


def _by_item(
    op: Conversion,
    like: IntegerConv2D,
    mode: DynamicRange,
    x: Value,
    w: Value,
    scaled: Callable[[Value, Value], Value],
) -> Value:
    results = []
    for item in range(x.type.shape[0]):
        part = x if x.type.shape[0] == 1 else op.emit(Slice((item, 0, 0, 0), (1, *x.type.shape[1:]), (1,) * 4), x)
        stored, scale, zero = op.emit_all(DynamicQuantize(mode), part)
        results.append(scaled(op.emit(like, stored, w, zero), scale))
    return _finished(op, results[0] if len(results) == 1 else op.emit(Concat(0), *results))


def _finished(op: Conversion, y: Value) -> Value:
    """With the bias (operand 2), then the activation."""
    bias, bounds = op.optional(2), fused_bounds(op)
    if bias is not None:
        return op.emit(Add(bounds), y, bias)
    return y if bounds == UNBOUNDED else op.emit(Clamp(bounds), y)


def _scales(op: Conversion, quant: Quant | None) -> Value:
    assert quant is not None
    scales = np.asarray(quant.scales, np.float32)
    return op.plain(scales, TensorType(F32, scales.shape))


def _integer(op: Conversion, value: int) -> Value:
    return op.plain(np.array(value, np.int32), TensorType(I32, ()))
