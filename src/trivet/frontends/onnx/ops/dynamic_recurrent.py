"""Microsoft's LSTM with quantized weights, whose operand and states are quantized at run time: step by step."""

from __future__ import annotations

import numpy as np

from trivet.core.record import dataclass
from trivet.frontends.onnx.context import MICROSOFT, Context, Converters
from trivet.frontends.onnx.ops.dynamic import dynamic_product
from trivet.ir.graph import Value
from trivet.ir.op import Array, Op
from trivet.ops.activation import Logistic, Relu, Tanh
from trivet.ops.elementwise import Add, Mul
from trivet.ops.movement import Concat, Slice

ONNX = Converters()

MAX_STEPS = 64
"""Longer sequences would make too long a plan."""

_FUNCTIONS: dict[str, type[Op]] = {"sigmoid": Logistic, "tanh": Tanh, "relu": Relu}


@dataclass(frozen=True, slots=True)
class _Weights:
    """Stored integers [K, 4H] with zero points and scales, one or one for each column."""

    data: Array
    zeros: Array
    scales: Array

    def times(self, ctx: Context, a: Value) -> Value:
        return dynamic_product(ctx, a, self.data, self.zeros, self.scales)


@ONNX("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(ctx: Context) -> tuple[Value, ...]:
    """x [T, N, I], W [D, I, 4H], R [D, H, 4H], B [D, 8H], lengths, h, c [D, N, H], P, then scale, zero of W, of R."""
    x, shape = ctx.operand(0), ctx.operand(2).type.shape
    if ctx.attr_text("direction", "forward") != "forward" or len(shape) != 3 or shape[0] != 1:
        ctx.refuse("directions other than forward", hint="quantize statically, or compile the float model")
    if ctx.has(4) or ctx.has(7) or ctx.attr_flag("input_forget") or ctx.attr_float("clip", 0.0):
        ctx.refuse("sequence lengths, peepholes, input_forget or clip", hint="compile the float model")
    steps, batch, _ = x.type.shape
    hidden = shape[1]
    if steps > MAX_STEPS:
        ctx.refuse(
            f"{steps} steps, at most {MAX_STEPS} are taken", hint="quantize statically, or compile the float model"
        )
    names = ctx.node.attributes.get("activations", ("sigmoid", "tanh", "tanh"))
    functions = [_FUNCTIONS.get(str(name).lower()) for name in names] if isinstance(names, tuple) else []
    if len(functions) != 3 or None in functions:
        ctx.refuse(f"the activations {names}", hint="use Sigmoid, Tanh or Relu")
    made = [function() for function in functions if function is not None]
    operand, state = _weights(ctx, 1, 8), _weights(ctx, 2, 10)
    bias = np.asarray(ctx.known(3, "the bias") if ctx.has(3) else np.zeros((1, 8 * hidden)), np.float32).ravel()
    zeros = ctx.constant(np.zeros((batch, hidden)))
    h, cell = (ctx.reshape(v, (batch, hidden)) if (v := ctx.optional(i)) is not None else zeros for i in (5, 6))
    sums = operand.times(ctx, x)
    results = []
    for step in range(steps):
        gates = _cut(ctx, ctx.reshape(sums, (steps * batch, 4 * hidden)), 0, step * batch, batch)
        gates = ctx.emit(Add(), gates, state.times(ctx, h))
        gates = ctx.emit(Add(), gates, ctx.constant(bias[: 4 * hidden] + bias[4 * hidden :]))
        i, o, f, c = (_cut(ctx, gates, 1, gate * hidden, hidden) for gate in range(4))
        kept = ctx.emit(Mul(), ctx.emit(made[0], f), cell)
        cell = ctx.emit(Add(), kept, ctx.emit(Mul(), ctx.emit(made[0], i), ctx.emit(made[1], c)))
        h = ctx.emit(Mul(), ctx.emit(made[0], o), ctx.emit(made[2], cell))
        results.append(ctx.reshape(h, (1, 1, batch, hidden)))
    y = results[0] if steps == 1 else ctx.emit(Concat(0), *results)
    return y, ctx.reshape(h, (1, batch, hidden)), ctx.reshape(cell, (1, batch, hidden))


def _weights(ctx: Context, weights: int, scale: int) -> _Weights:
    data = ctx.known(weights, "the weights")[0]
    zeros, scales = ctx.known(scale + 1, "the zero point"), ctx.known(scale, "the scale")
    if zeros.size not in (1, data.shape[1]) or scales.size not in (1, data.shape[1]):
        ctx.invalid(f"{scales.size} scales and {zeros.size} zero points do not suit {list(data.shape)}")
    return _Weights(data, zeros, scales.astype(np.float32).ravel())


def _cut(ctx: Context, x: Value, axis: int, start: int, size: int) -> Value:
    """`size` indices of an axis of a matrix."""
    if x.type.shape[axis] == size:
        return x
    starts = (start, 0) if axis == 0 else (0, start)
    sizes = (size, x.type.shape[1]) if axis == 0 else (x.type.shape[0], size)
    return ctx.emit(Slice(starts, sizes, (1, 1)), x)
