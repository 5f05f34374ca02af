"""Layers of sequence models that ONNX has as one operator: rotations, causal convolutions, linear attention, gates."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import F32
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.ops.movement import joined, sliced
from trivet.ir.graph import Value
from trivet.ops.activation import Logistic
from trivet.ops.elementwise import Add, Mul, Sub
from trivet.ops.mathematics import Exp
from trivet.ops.matmul import BatchMatMul
from trivet.ops.movement import Gather

ONNX = Converters()

MAX_STEPS = 256
"""Steps of a recurrence are written out; more would make too long a plan."""


@ONNX("RotaryEmbedding")
def rotary_embedding(ctx: Context) -> Value:
    """x: [B, heads, S, D] or [B, S, heads*D]; cosines, sines: [B, S, D'/2], or [M, D'/2] with positions [B, S]."""
    x = ctx.operand(0)
    if x.type.rank == 4:
        heads = ctx.transpose(x, (0, 2, 1, 3))
    else:
        count = ctx.attr_int("num_heads", 0)
        if x.type.rank != 3 or count < 1 or x.type.shape[2] % count:
            ctx.invalid(f"{count} heads of {x.type}")
        heads = ctx.reshape(x, (*x.type.shape[:2], count, x.type.shape[2] // count))
    turned = ctx.attr_int("rotary_embedding_dim", 0) or heads.type.shape[3]
    if turned % 2 or turned > heads.type.shape[3]:
        ctx.invalid(f"a rotation of {turned} of {heads.type.shape[3]} features")
    parts = [_rotated(ctx, sliced(ctx, heads, 3, 0, turned))]
    if turned < heads.type.shape[3]:
        parts.append(sliced(ctx, heads, 3, turned, heads.type.shape[3] - turned))
    y = joined(ctx, parts, 3)
    return ctx.transpose(y, (0, 2, 1, 3)) if x.type.rank == 4 else ctx.reshape(y, x.type.shape)


def _rotated(ctx: Context, x: Value) -> Value:
    """x: [B, S, heads, D]; pairs are halves of the features, or (interleaved) neighbours."""
    batch, steps, heads, size = x.type.shape
    half, pairs = size // 2, ctx.attr_flag("interleaved")
    cosines, sines = (_positions(ctx, ctx.operand(i), (batch, steps, 1, half)) for i in (1, 2))
    if pairs:
        split = ctx.reshape(x, (batch, steps, heads, half, 2))
        a, b = (ctx.reshape(sliced(ctx, split, 4, i, 1), (batch, steps, heads, half)) for i in (0, 1))
    else:
        a, b = sliced(ctx, x, 3, 0, half), sliced(ctx, x, 3, half, half)
    real = ctx.emit(Sub(), ctx.emit(Mul(), cosines, a), ctx.emit(Mul(), sines, b))
    imaginary = ctx.emit(Add(), ctx.emit(Mul(), sines, a), ctx.emit(Mul(), cosines, b))
    if not pairs:
        return joined(ctx, [real, imaginary], 3)
    lifted = [ctx.reshape(y, (batch, steps, heads, half, 1)) for y in (real, imaginary)]
    return ctx.reshape(joined(ctx, lifted, 4), x.type.shape)


def _positions(ctx: Context, table: Value, shape: tuple[int, ...]) -> Value:
    chosen = ctx.emit(Gather(0), table, ctx.operand(3)) if ctx.has(3) else table
    if chosen.type.elements != math.prod(shape):
        ctx.invalid(f"the table {table.type} does not suit {shape}")
    return ctx.reshape(chosen, shape)


@ONNX("CausalConvWithState")
def causal_convolution(ctx: Context) -> tuple[Value, Value]:
    """x: [B, C, T], w: [C, 1, K], bias [C] and the K - 1 steps before (optional) -> y: [B, C, T], the last steps."""
    x, w = ctx.operand(0), ctx.operand(1)
    if x.type.rank != 3 or w.type.rank != 3 or w.type.shape[:2] != (x.type.shape[1], 1):
        ctx.invalid(f"weights {w.type} do not suit {x.type}")
    batch, channels, steps = x.type.shape
    before = w.type.shape[2] - 1
    past = ctx.optional(3) or ctx.constant(np.zeros((batch, channels, before)))
    whole = joined(ctx, [past, x], 2) if before else x
    y: Value | None = None
    for k in range(before + 1):
        tap = ctx.reshape(sliced(ctx, w, 2, k, 1), (channels, 1))
        part = ctx.emit(Mul(), sliced(ctx, whole, 2, k, steps), tap)
        y = part if y is None else ctx.emit(Add(), y, part)
    assert y is not None
    if (bias := ctx.optional(2)) is not None:
        y = ctx.emit(Add(), y, ctx.reshape(bias, (channels, 1)))
    if ctx.attr_text("activation", "none") in ("silu", "swish"):
        y = ctx.emit(Mul(), y, ctx.emit(Logistic(), y))
    return y, sliced(ctx, whole, 2, steps, before)


@ONNX("LinearAttention")
def linear_attention(ctx: Context) -> tuple[Value, Value]:
    """q, k, v: [B, T, heads*D], state [B, heads, K, V], decay, update rate (optional): step by step."""
    q_heads, heads = ctx.attr_int("q_num_heads"), ctx.attr_int("kv_num_heads")
    q, k, v = (_heads(ctx, i, n) for i, n in ((0, q_heads), (1, heads), (2, heads)))
    batch, _, steps, size = k.type.shape
    rule = ctx.attr_text("update_rule", "gated_delta")
    if steps > MAX_STEPS or q_heads % heads or rule not in ("linear", "gated", "delta", "gated_delta"):
        ctx.refuse(f"linear attention of {steps} steps, rule '{rule}'", hint=f"give at most {MAX_STEPS} steps")
    state = ctx.optional(3) or ctx.constant(np.zeros((batch, heads, size, v.type.shape[3])))
    decay = ctx.emit(Exp(), _gates(ctx, 4, heads)) if "gated" in rule else None
    rate = _gates(ctx, 5, heads) if "delta" in rule else None
    scale = ctx.constant(ctx.attr_float("scale", 0.0) or 1 / math.sqrt(size))
    results = []
    for step in range(steps):
        key, value = sliced(ctx, k, 2, step, 1), sliced(ctx, v, 2, step, 1)
        if decay is not None:
            gate = sliced(ctx, decay, 2, step, 1)
            state = ctx.emit(Mul(), state, ctx.transpose(gate, (0, 1, 3, 2)))
        if rate is not None:
            known = ctx.emit(BatchMatMul(), key, state)
            value = ctx.emit(Mul(), ctx.emit(Sub(), value, known), sliced(ctx, rate, 2, step, 1))
        state = ctx.emit(Add(), state, ctx.emit(Mul(), ctx.transpose(key, (0, 1, 3, 2)), value))
        group = sliced(ctx, q, 2, step, 1)
        query = ctx.reshape(group, (batch, heads, q_heads // heads, size))
        y = ctx.emit(Mul(), ctx.emit(BatchMatMul(), query, state), scale)
        results.append(ctx.reshape(y, (batch, 1, q_heads * v.type.shape[3])))
    return joined(ctx, results, 1), state


def _heads(ctx: Context, index: int, heads: int) -> Value:
    """[B, T, heads * D] -> [B, heads, T, D]."""
    x = ctx.operand(index)
    if x.type.rank != 3 or heads < 1 or x.type.shape[2] % heads or x.type.dtype is not F32:
        ctx.invalid(f"{heads} heads of {x.type}")
    batch, steps, features = x.type.shape
    return ctx.transpose(ctx.reshape(x, (batch, steps, heads, features // heads)), (0, 2, 1, 3))


def _gates(ctx: Context, index: int, heads: int) -> Value:
    """A number for each head and step, or for each of a head's features; one for all heads is repeated."""
    x = ctx.operand(index)
    if x.type.rank == 3 and x.type.shape[2] == 1:
        return ctx.reshape(x, (x.type.shape[0], 1, x.type.shape[1], 1))
    return _heads(ctx, index, heads)


@ONNX("SwiGLU")
def gated_unit(ctx: Context) -> Value:
    """a * sigmoid(alpha * a) * b."""
    a, b = ctx.operand(0), ctx.operand(1)
    steep = ctx.emit(Mul(), a, ctx.constant(ctx.attr_float("alpha", 1.0)))
    return ctx.emit(Mul(), ctx.emit(Mul(), a, ctx.emit(Logistic(), steep)), b)
