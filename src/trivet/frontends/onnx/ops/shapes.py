"""Constants and shape arithmetic: results are known at compile time."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import F32, I64, from_numpy
from trivet.frontends.onnx.context import MAX_TENSOR_BYTES, Context, Converters
from trivet.frontends.onnx.tensors import DTYPES
from trivet.ir.graph import Value
from trivet.ops.elementwise import Cast, Equal, Mul, Where
from trivet.ops.matmul import BatchMatMul
from trivet.ops.reduce import Sum

ONNX = Converters()


@ONNX("Constant")
def constant(ctx: Context) -> Value:
    if "value" in ctx:
        array = ctx.attr_array("value")
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        return ctx.constant(array, dtype)
    if "value_float" in ctx:
        return ctx.constant(ctx.attr_float("value_float"))
    if "value_int" in ctx:
        return ctx.constant(ctx.attr_int("value_int"), I64)
    if "value_floats" in ctx:
        return ctx.constant(np.array(ctx.attr_floats("value_floats")))
    if "value_ints" in ctx:
        return ctx.constant(np.array(ctx.attr_ints("value_ints"), np.int64), I64)
    return ctx.refuse("a constant of text, or a sparse one", hint="store it as a dense tensor of numbers")


@ONNX("Shape")
def shape(ctx: Context) -> Value:
    """Since operator set 15 a stretch [start, end) of the shape."""
    found = ctx.operand(0).type.shape
    start, end = ctx.attr_int("start", 0), ctx.attr_int("end", len(found))
    return ctx.constant(np.array(found[start:end], np.int64), I64)


@ONNX("Size")
def size(ctx: Context) -> Value:
    return ctx.constant(ctx.operand(0).type.elements, I64)


@ONNX("ConstantOfShape")
def constant_of_shape(ctx: Context) -> Value:
    wanted = ctx.known_ints(0, "the shape")
    value = ctx.attr_array("value") if "value" in ctx else np.zeros(1, np.float32)
    dtype = from_numpy(value.dtype)
    assert dtype is not None
    _check_size(ctx, wanted, dtype.bits)
    if value.size != 1:
        ctx.invalid(f"attribute 'value' has {value.size} elements, one is needed")
    return ctx.constant(np.full(wanted, value.reshape(-1)[0]), dtype)


def _check_size(ctx: Context, wanted: tuple[int, ...], bits: int) -> None:
    if min(wanted, default=0) < 0 or math.prod(wanted) * bits > 8 * MAX_TENSOR_BYTES:
        ctx.refuse(f"a constant of shape {list(wanted)}")


@ONNX("Range")
def range_(ctx: Context) -> Value:
    start, limit, delta = (ctx.known(i, what).reshape(-1) for i, what in enumerate(("start", "limit", "delta")))
    if start.size != 1 or limit.size != 1 or delta.size != 1 or delta[0] == 0:
        ctx.invalid("start, limit and a delta other than zero are needed")
    count = max(0, math.ceil((float(limit[0]) - float(start[0])) / float(delta[0])))
    dtype = ctx.operand(0).type.dtype
    _check_size(ctx, (count,), dtype.bits)
    return ctx.constant((start[0] + np.arange(count) * delta[0]).astype(dtype.numpy), dtype)


@ONNX("NonZero")
def non_zero(ctx: Context) -> Value:
    """Of a constant only: the size of the result depends on the data."""
    return ctx.constant(np.array(np.nonzero(ctx.known(0, "the operand")), np.int64), I64)


@ONNX("EyeLike")
def eye_like(ctx: Context) -> Value:
    x = ctx.operand(0)
    if x.type.rank != 2:
        ctx.invalid(f"its operand is {x.type}, a matrix is needed")
    dtype = DTYPES.get(ctx.attr_int("dtype"), F32) if "dtype" in ctx else x.type.dtype
    return ctx.constant(np.eye(x.type.shape[0], x.type.shape[1], ctx.attr_int("k", 0)), dtype)


@ONNX("OneHot")
def one_hot(ctx: Context) -> Value:
    """on where the index is met, off elsewhere; negative indices count from the end."""
    indices, values = ctx.operand(0), ctx.known(2, "the values")
    depth = int(ctx.known_scalar(1, "the depth"))
    rank = indices.type.rank
    axis = ctx.axis(ctx.attr_int("axis", -1), rank + 1)
    if depth < 1 or values.size != 2:
        ctx.invalid(f"depth {depth} with {values.size} values")
    if not indices.type.dtype.is_integer:
        indices = ctx.emit(Cast(I64), indices)
    column = ctx.reshape(indices, (*indices.type.shape[:axis], 1, *indices.type.shape[axis:]))
    classes = np.arange(depth).reshape((depth,) + (1,) * (rank - axis))
    met = ctx.emit(Equal(), column, ctx.constant(classes, indices.type.dtype))
    below = ctx.emit(Equal(), column, ctx.constant(classes - depth, indices.type.dtype))
    dtype = ctx.operand(2).type.dtype
    on, off = ctx.constant(values.reshape(-1)[1], dtype), ctx.constant(values.reshape(-1)[0], dtype)
    return ctx.emit(Where(), met, on, ctx.emit(Where(), below, on, off))


@ONNX("Trilu")
def trilu(ctx: Context) -> Value:
    """The upper (or lower) triangle, zeros elsewhere."""
    x = ctx.operand(0)
    if x.type.rank < 2:
        ctx.invalid(f"its operand is {x.type}, a matrix is needed")
    k = int(ctx.known_scalar(1, "the diagonal")) if ctx.has(1) else 0
    ones = np.ones(x.type.shape[-2:], np.bool_)
    mask = np.triu(ones, k) if ctx.attr_flag("upper", True) else np.tril(ones, k)
    if x.type.dtype.is_integer:
        return ctx.emit(Mul(), x, ctx.constant(mask, x.type.dtype))
    from_mask = from_numpy(mask.dtype)
    assert from_mask is not None
    return ctx.emit(Where(), ctx.constant(mask, from_mask), x, ctx.like(x, 0))


@ONNX("CumSum")
def cumulative_sum(ctx: Context) -> Value:
    """Sums up to every index of an axis: a product with a triangle of ones, of floats as a matrix product."""
    x = ctx.operand(0)
    axis = ctx.axis(int(ctx.known_scalar(1, "the axis")), x.type.rank)
    size, shift = x.type.shape[axis], int(ctx.attr_flag("exclusive"))
    ones = np.triu(np.ones((size, size)), shift)
    ones = ones.T if ctx.attr_flag("reverse") else ones
    if x.data is not None:
        data = np.flip(x.data, axis) if ctx.attr_flag("reverse") else x.data
        total = np.cumsum(data, axis, dtype=data.dtype) - (data if shift else 0)
        return ctx.constant(np.flip(total, axis) if ctx.attr_flag("reverse") else total, x.type.dtype)
    perm = (*(i for i in range(x.type.rank) if i != axis), axis)
    moved = ctx.transpose(x, perm)
    rows = ctx.reshape(moved, (moved.type.elements // max(size, 1), size))
    if x.type.dtype is F32:
        sums = ctx.emit(BatchMatMul(), rows, ctx.constant(ones))
    else:
        products = ctx.emit(Mul(), ctx.reshape(rows, (*rows.type.shape, 1)), ctx.constant(ones, x.type.dtype))
        sums = ctx.emit(Sum((1,)), products)
    return ctx.transpose(ctx.reshape(sums, moved.type.shape), [int(i) for i in np.argsort(perm)])
