"""Gather and scatter by elements and by tuples, the largest elements, one-hot maxima: places in flattened tensors."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import I64
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.ir.graph import Value
from trivet.ops.elementwise import Add, Equal, Less, Mul, Where
from trivet.ops.indexing import Combine, Scatter, TopK
from trivet.ops.movement import Gather
from trivet.ops.reduce import ArgMax, Sum

ONNX = Converters()

_COMBINES = {
    "none": Combine.SET, "add": Combine.ADD, "mul": Combine.MUL, "min": Combine.MIN, "max": Combine.MAX,
}  # fmt: skip


@ONNX("GatherElements")
def gather_elements(ctx: Context) -> Value:
    """x, indices: of one rank -> y[i, j, ..] = x[i, indices[i, j, ..], ..] along `axis`."""
    x = ctx.operand(0)
    axis = ctx.axis(ctx.attr_int("axis", 0), x.type.rank)
    places = _element_places(ctx, x, ctx.operand(1), axis)
    return ctx.emit(Gather(0), ctx.reshape(x, (x.type.elements,)), places)


@ONNX("GatherND")
def gather_nd(ctx: Context) -> Value:
    """x, tuples [.., T] of indices into the T axes after `batch_dims`."""
    x, tuples, batch = ctx.operand(0), ctx.operand(1), ctx.attr_int("batch_dims", 0)
    depth = _depth(ctx, x, tuples, batch)
    rest = x.type.shape[batch + depth :]
    places = _tuple_places(ctx, x, tuples, batch, depth)
    rows = ctx.reshape(x, (math.prod(x.type.shape[: batch + depth]), *rest))
    return ctx.emit(Gather(0), rows, places)


@ONNX("ScatterElements", "Scatter")
def scatter_elements(ctx: Context) -> Value:
    """x with x[i, indices[i, j, ..], ..] = updates[i, j, ..] along `axis`."""
    x, updates = ctx.plain(0), ctx.plain(2)
    axis = ctx.axis(ctx.attr_int("axis", 0), x.type.rank)
    places = _element_places(ctx, x, ctx.operand(1), axis)
    count = updates.type.elements
    if places.type.elements != count:
        ctx.invalid(f"{places.type.elements} indices for {count} updates")
    flat, column = ctx.reshape(x, (x.type.elements, 1)), ctx.reshape(updates, (count, 1))
    y = ctx.emit(Scatter(_combine(ctx)), flat, ctx.reshape(places, (count,)), column)
    return ctx.reshape(y, x.type.shape)


@ONNX("ScatterND")
def scatter_nd(ctx: Context) -> Value:
    """x with rows replaced, found by tuples [.., T] of indices into its first T axes."""
    x, tuples, updates = ctx.plain(0), ctx.operand(1), ctx.plain(2)
    depth = _depth(ctx, x, tuples, 0)
    size = math.prod(x.type.shape[depth:])
    places = _tuple_places(ctx, x, tuples, 0, depth)
    count = places.type.elements
    if updates.type.elements != count * size:
        ctx.invalid(f"updates {updates.type} for {count} rows of {size} elements")
    rows = ctx.reshape(x, (math.prod(x.type.shape[:depth]), size))
    y = ctx.emit(Scatter(_combine(ctx)), rows, ctx.reshape(places, (count,)), ctx.reshape(updates, (count, size)))
    return ctx.reshape(y, x.type.shape)


def _combine(ctx: Context) -> Combine:
    name = ctx.attr_text("reduction", "none")
    if name not in _COMBINES:
        ctx.invalid(f"reduction '{name}'")
    return _COMBINES[name]


def _depth(ctx: Context, x: Value, tuples: Value, batch: int) -> int:
    if tuples.type.rank == 0 or not 0 <= batch < min(x.type.rank, tuples.type.rank):
        ctx.invalid(f"indices {tuples.type} of {x.type} with {batch} batch axes")
    depth = tuples.type.shape[-1]
    if not 1 <= depth <= x.type.rank - batch or x.type.shape[:batch] != tuples.type.shape[:batch]:
        ctx.invalid(f"indices {tuples.type} of {x.type} with {batch} batch axes")
    return depth


def _counted(ctx: Context, indices: Value, sizes: Value) -> Value:
    """Indices counted from the start: those below zero count from the end."""
    below = ctx.emit(Less(), indices, ctx.constant(0, I64))
    return ctx.emit(Where(), below, ctx.emit(Add(), indices, sizes), indices)


def _element_places(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    """Where the flattened x holds what an index along an axis means, all other indices being the element's own."""
    shape, own = x.type.shape, indices.type.shape
    if len(own) != len(shape) or any(o > s for i, (o, s) in enumerate(zip(own, shape, strict=True)) if i != axis):
        ctx.invalid(f"indices {indices.type} do not suit {x.type} along axis {axis}")
    wide = cast_to(ctx, indices, I64)
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    grids = np.indices(own) if own else np.zeros((0,))
    base = sum((grids[i] * strides[i] for i in range(len(shape)) if i != axis), np.zeros(own, np.int64))
    counted = _counted(ctx, wide, ctx.constant(shape[axis], I64))
    return ctx.emit(Add(), ctx.emit(Mul(), counted, ctx.constant(strides[axis], I64)), ctx.constant(base, I64))


def _tuple_places(ctx: Context, x: Value, tuples: Value, batch: int, depth: int) -> Value:
    """Rows of x, its first axes taken as one, that tuples of indices mean: [..], as `tuples` [.., T]."""
    shape = x.type.shape[batch : batch + depth]
    strides = [math.prod(shape[i + 1 :]) for i in range(depth)]
    counted = _counted(ctx, cast_to(ctx, tuples, I64), ctx.constant(np.asarray(shape), I64))
    scaled = ctx.emit(Mul(), counted, ctx.constant(np.asarray(strides), I64))
    places = ctx.emit(Sum((tuples.type.rank - 1,)), scaled)
    if batch == 0:
        return places
    first = tuples.type.shape[:batch]
    numbers = np.arange(math.prod(first)).reshape(*first, *(1 for _ in tuples.type.shape[batch:-1]))
    return ctx.emit(Add(), places, ctx.constant(numbers * math.prod(shape), I64))


@ONNX("TopK")
def top_k(ctx: Context) -> tuple[Value, Value]:
    """x, k (operand 1; an attribute before operator set 10) -> values and their indices along `axis`."""
    x = ctx.plain(0)
    axis = ctx.axis(ctx.attr_int("axis", -1), x.type.rank)
    k = ctx.known_ints(1, "k")[0] if ctx.opset >= 10 else ctx.attr_int("k")
    perm = (*(i for i in range(x.type.rank) if i != axis), axis)
    moved = ctx.transpose(x, perm)
    shape = moved.type.shape
    rows = ctx.reshape(moved, (math.prod(shape[:-1]), shape[-1]))
    results = ctx.emit_all(TopK(k, ctx.attr_flag("largest", True)), rows)
    back = tuple(int(i) for i in np.argsort(perm))
    values, places = (ctx.transpose(ctx.reshape(r, (*shape[:-1], k)), back) for r in results)
    return values, places


@ONNX("Hardmax")
def hardmax(ctx: Context) -> Value:
    """1 at the first of the largest elements along `axis`, else 0; before operator set 13 axes from it on are one."""
    x = ctx.operand(0)
    axis = ctx.axis(ctx.attr_int("axis", -1 if ctx.opset >= 13 else 1), x.type.rank)
    shape = x.type.shape
    if ctx.opset < 13:
        x, axis = ctx.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:]))), 1
    size = x.type.shape[axis]
    numbers = np.arange(size).reshape(size, *(1 for _ in x.type.shape[axis + 1 :]))
    chosen = ctx.emit(ArgMax(axis, keep_dims=True), x)
    return ctx.reshape(cast_to(ctx, ctx.emit(Equal(), chosen, ctx.constant(numbers, I64)), x.type.dtype), shape)
