"""Attention, as products, a mask and a softmax."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import BOOL, F32, I64
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.ir.graph import Value
from trivet.ops.activation import Tanh
from trivet.ops.elementwise import Add, Less, LessEqual, Minimum, Mul, Where
from trivet.ops.matmul import BatchMatMul
from trivet.ops.movement import Concat, Expand, Pad
from trivet.ops.reduce import ReduceMax
from trivet.ops.softmax import Softmax

ONNX = Converters()

_NOTHING = -1e38
"""Less than every sum with a mask that lets anything through."""


@ONNX("Attention")
def attention(ctx: Context) -> tuple[Value, ...]:
    """q, k, v: [B, heads, S, D] or [B, S, heads*D]; mask, earlier keys, values, lengths -> y, keys, values, sums.

    Heads of the query share those of keys and values in groups.
    """
    q, k, v = ctx.operand(0), ctx.operand(1), ctx.operand(2)
    if any(x.type.dtype is not F32 or x.type.rank not in (3, 4) for x in (q, k, v)):
        ctx.refuse(f"attention of {q.type}, {k.type} and {v.type}", hint="convert the model to float32")
    flat = q.type.rank == 3
    if flat:
        q = _heads(ctx, q, ctx.attr_int("q_num_heads"))
        k, v = (_heads(ctx, x, ctx.attr_int("kv_num_heads")) for x in (k, v))
    past = ctx.operand(4).type.shape[2] if ctx.has(4) else 0
    if ctx.has(4) and ctx.has(5):
        k, v = (ctx.emit(Concat(2), ctx.operand(i), x) for i, x in ((4, k), (5, v)))
    keys, values = k, v
    repeats = q.type.shape[1] // max(k.type.shape[1], 1)
    k, v = (_repeated(ctx, x, repeats) for x in (k, v))
    root = math.sqrt(ctx.attr_float("scale", 1 / math.sqrt(q.type.shape[3])))
    q, k = (ctx.emit(Mul(), x, ctx.constant(root)) for x in (q, k))
    sums = ctx.emit(BatchMatMul(transpose_b=True), q, k)
    shown, mode = sums, ctx.attr_int("qk_matmul_output_mode", 0)
    cap = ctx.attr_float("softcap", 0.0)
    if cap > 0:
        sums = ctx.emit(Mul(), ctx.emit(Tanh(), ctx.emit(Mul(), sums, ctx.constant(1 / cap))), ctx.constant(cap))
        shown = sums
    bias = _bias(ctx, sums.type.shape[2], sums.type.shape[3], past)
    biased = sums if bias is None else ctx.emit(Add(), sums, bias)
    shares = ctx.emit(Softmax(3), biased)
    if bias is not None:
        largest = ctx.emit(ReduceMax((bias.type.rank - 1,), keep_dims=True), bias)
        closed = ctx.emit(Less(), largest, ctx.constant(_NOTHING))
        shares = ctx.emit(Where(), closed, ctx.constant(0.0), shares)
    y = ctx.emit(BatchMatMul(), shares, v)
    if flat:
        y = ctx.transpose(y, (0, 2, 1, 3))
        y = ctx.reshape(y, (*y.type.shape[:2], y.type.shape[2] * y.type.shape[3]))
    return y, keys, values, {2: biased, 3: shares}.get(mode, shown)


def _heads(ctx: Context, x: Value, heads: int) -> Value:
    """[B, S, heads * D] -> [B, heads, S, D]."""
    batch, steps, features = x.type.shape
    if heads < 1 or features % heads:
        ctx.invalid(f"{heads} heads do not divide {features} features")
    return ctx.transpose(ctx.reshape(x, (batch, steps, heads, features // heads)), (0, 2, 1, 3))


def _repeated(ctx: Context, x: Value, repeats: int) -> Value:
    """Every head `repeats` times."""
    if repeats <= 1:
        return x
    batch, heads, steps, size = x.type.shape
    wide = ctx.emit(Expand((batch, heads, repeats, steps, size)), ctx.reshape(x, (batch, heads, 1, steps, size)))
    return ctx.reshape(wide, (batch, heads * repeats, steps, size))


def _bias(ctx: Context, queries: int, keys: int, past: int) -> Value | None:
    """What is added to the sums: the mask, and minus infinity where a query may not look."""
    parts: list[Value] = []
    if ctx.has(3):
        parts.append(_mask(ctx, ctx.operand(3), keys))
    allowed = _allowed(ctx, queries, keys, past)
    if allowed is not None:
        parts.append(ctx.emit(Where(), allowed, ctx.constant(0.0), ctx.constant(-np.inf)))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else ctx.emit(Add(), *parts)


def _mask(ctx: Context, mask: Value, keys: int) -> Value:
    """The mask as numbers; keys that it does not reach are hidden."""
    if mask.type.dtype is BOOL:
        mask = ctx.emit(Where(), mask, ctx.constant(0.0), ctx.constant(-np.inf))
    mask = cast_to(ctx, mask, F32)
    missing = keys - mask.type.shape[-1]
    if missing <= 0:
        return mask
    none = (0,) * (mask.type.rank - 1)
    return ctx.emit(Pad((*none, 0), (*none, missing), value=-np.inf), mask)


def _allowed(ctx: Context, queries: int, keys: int, past: int) -> Value | None:
    """Which keys a query may look at, as far as causality, a window and lengths say: [S, T] or [B, 1, S, T]."""
    causal = ctx.attr_flag("is_causal")
    left, right = ctx.attr_int("left_window_size", -1), ctx.attr_int("right_window_size", -1)
    i, j = np.arange(queries).reshape(queries, 1), np.arange(keys).reshape(1, keys)
    lengths = None
    start = ctx.constant(i + past, I64)
    tests: list[Value] = []
    places = ctx.constant(j, I64)
    if ctx.has(6):
        given = cast_to(ctx, ctx.operand(6), I64)
        lengths = ctx.reshape(given, (given.type.elements, 1, 1, 1))
        start = ctx.emit(Add(), ctx.constant(i - queries, I64), lengths)
        tests.append(ctx.emit(Less(), places, lengths))
    if causal:
        tests.append(ctx.emit(LessEqual(), places, start))
    if left >= 0:
        tests.append(ctx.emit(LessEqual(), ctx.emit(Add(), start, ctx.constant(-left, I64)), places))
    if right >= 0:
        tests.append(ctx.emit(LessEqual(), places, ctx.emit(Add(), start, ctx.constant(right, I64))))
    if not tests:
        return None
    found = tests[0]
    for test in tests[1:]:
        found = ctx.emit(Minimum(), found, test)
    return found
