"""MatMul and Gemm."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import F32, I32
from trivet.frontends.onnx.context import MICROSOFT, Context, Converters
from trivet.frontends.onnx.ops.movement import joined, sliced
from trivet.ir.graph import Value
from trivet.ops.elementwise import Add, Mul
from trivet.ops.matmul import BatchMatMul, Dense, MatMul
from trivet.ops.movement import Expand

ONNX = Converters()

MAX_MATRICES = 64
"""Products of integer matrices are written out; more would make too long a plan."""


@ONNX("MatMul")
def matmul(ctx: Context) -> Value:
    """a: [..., M, K] or [K], b: [..., K, N] or [K] -> numpy's matmul."""
    return product(ctx, ctx.operand(0), ctx.operand(1))


def product(ctx: Context, a: Value, b: Value) -> Value:
    """numpy's matmul; operands of rank 1 are rows (a) and columns (b) whose axis of one goes away again."""
    if min(a.type.rank, b.type.rank) == 0:
        ctx.invalid(f"its operands are {a.type} and {b.type}")
    row, column = a.type.rank == 1, b.type.rank == 1
    if row:
        a = ctx.reshape(a, (1, *a.type.shape))
    if column:
        b = ctx.reshape(b, (*b.type.shape, 1))
    y = _exact(ctx, a, b) if a.type.dtype is I32 and a.type.quant is None else ctx.emit(BatchMatMul(), a, b)
    shape = y.type.shape
    return ctx.reshape(y, (*shape[:-2], *shape[-2:-1][row:], *shape[-1:][column:]))


def _exact(ctx: Context, a: Value, b: Value) -> Value:
    """Integers [..., M, K] and [..., K, N]: one product for each matrix."""
    first = np.broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    count = math.prod(first)
    if not 1 <= count <= MAX_MATRICES:
        ctx.refuse(f"{count} products of integer matrices", hint=f"1 to {MAX_MATRICES} are taken; use float32")
    wide = []
    for x in (a, b):
        shape = (*first, *x.type.shape[-2:])
        x = x if x.type.shape == shape else ctx.emit(Expand(shape), x)
        wide.append(ctx.reshape(x, (count, *shape[-2:])))
    parts = []
    for index in range(count):
        pair = [ctx.reshape(sliced(ctx, x, 0, index, 1), x.type.shape[1:]) for x in wide]
        y = ctx.emit(MatMul(), *pair)
        parts.append(ctx.reshape(y, (1, *y.type.shape)))
    y = joined(ctx, parts, 0)
    return ctx.reshape(y, (*first, *y.type.shape[1:]))


@ONNX("FusedMatMul", domain=MICROSOFT)
def fused_matmul(ctx: Context) -> Value:
    """alpha * a' b', each transposed in its last two axes or not."""
    a, b = ctx.operand(0), ctx.operand(1)
    if ctx.attr_flag("transBatchA") or ctx.attr_flag("transBatchB"):
        ctx.refuse("transBatchA and transBatchB", hint="write the transposition as Transpose")
    a = _transposed(ctx, a, ctx.attr_flag("transA"))
    b = _transposed(ctx, b, ctx.attr_flag("transB"))
    return _scaled(ctx, product(ctx, a, b), ctx.attr_float("alpha", 1.0))


def _transposed(ctx: Context, x: Value, swap: bool) -> Value:
    rank = x.type.rank
    return ctx.transpose(x, (*range(rank - 2), rank - 1, rank - 2)) if swap and rank >= 2 else x


@ONNX("Gemm")
def gemm(ctx: Context) -> Value:
    """a: [M, K], b: [K, N], c: broadcasts to [M, N] (optional) -> alpha * a b + beta * c."""
    return general_product(ctx, ctx.operand(0), ctx.operand(1), ctx.optional(2), ctx.attr_float("beta", 1.0))


def general_product(ctx: Context, a: Value, b: Value, c: Value | None, beta: float) -> Value:
    """alpha * a' b' + beta * c, as a dense layer where b is a weight."""
    if a.type.rank != 2 or b.type.rank != 2:
        ctx.invalid(f"its operands are {a.type} and {b.type}, matrices are needed")
    alpha = ctx.attr_float("alpha", 1.0)
    a = ctx.transpose(a, (1, 0)) if ctx.attr_flag("transA") else a
    transposed = ctx.attr_flag("transB")
    if ctx.constant_data(b) is None:
        y = ctx.emit(BatchMatMul(), a, ctx.transpose(b, (1, 0)) if transposed else b)
        return _plus(ctx, _scaled(ctx, y, alpha), c, beta)
    weights = b if transposed else ctx.stored_as(b, (1, 0))
    if alpha != 1.0:
        weights = _scaled(ctx, weights, alpha)
    bias = _bias(ctx, c, weights.type.shape[0], beta)
    if bias is None:
        return _plus(ctx, ctx.emit(Dense(), a, weights), c, beta)
    return ctx.emit(Dense(), a, weights, bias)


def _bias(ctx: Context, c: Value | None, channels: int, beta: float) -> Value | None:
    """`beta * c` as a dense layer's bias, where c is the same constant for every row."""
    if c is None or ctx.constant_data(c) is None or c.type.shape not in ((channels,), (1, channels)):
        return None
    vector = ctx.stored_in_shape(c, (channels,))
    return vector if beta == 1.0 else _scaled(ctx, vector, beta)


def _plus(ctx: Context, y: Value, c: Value | None, beta: float) -> Value:
    return y if c is None or beta == 0.0 else ctx.emit(Add(), y, _scaled(ctx, c, beta))


def _scaled(ctx: Context, x: Value, factor: float) -> Value:
    if factor == 1.0:
        return x
    if x.type.dtype is not F32 and not float(factor).is_integer():
        ctx.refuse(f"a factor {factor} on {x.type.dtype.name} values")
    return ctx.emit(Mul(), x, ctx.constant(np.asarray(factor), x.type.dtype))
