"""LSTM, GRU and RNN: one operator a direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trivet.core.record import dataclass
from trivet.frontends.onnx.context import Context, Converters
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ops.elementwise import Add
from trivet.ops.movement import Concat, Slice
from trivet.ops.recurrent import CellFunction, Gru, Lstm, Rnn

ONNX = Converters()

_FUNCTIONS: dict[str, tuple[CellFunction, float, float]] = {
    "sigmoid": (CellFunction.SIGMOID, 0.0, 0.0),
    "tanh": (CellFunction.TANH, 0.0, 0.0),
    "relu": (CellFunction.RELU, 0.0, 0.0),
    "affine": (CellFunction.AFFINE, 1.0, 0.0),
    "leakyrelu": (CellFunction.LEAKY_RELU, 0.01, 0.0),
    "thresholdedrelu": (CellFunction.THRESHOLDED_RELU, 1.0, 0.0),
    "scaledtanh": (CellFunction.SCALED_TANH, 1.0, 1.0),
    "hardsigmoid": (CellFunction.HARD_SIGMOID, 0.2, 0.5),
    "elu": (CellFunction.ELU, 1.0, 0.0),
    "softsign": (CellFunction.SOFTSIGN, 0.0, 0.0),
    "softplus": (CellFunction.SOFTPLUS, 0.0, 0.0),
}
"""By lower-case name, with the defaults of alpha and beta."""

_WITH_ALPHA = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
_WITH_BETA = ("affine", "scaledtanh", "hardsigmoid")


@dataclass(frozen=True, slots=True)
class Options:
    """What one direction needs: the fields that all recurrent operators have."""

    functions: tuple[CellFunction, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    reverse: bool
    clip: float


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with its operands in time-major order: x [T, N, I], states [D, N, H]."""

    x: Value
    w: Value
    r: Value
    bias: Value
    states: tuple[Value, ...]
    peepholes: Value | None = None


Cell = Callable[[Options], Op]


@ONNX("LSTM")
def lstm(ctx: Context) -> tuple[Value, ...]:
    """x, W [D, 4H, I], R [D, 4H, H], B [D, 8H], lengths, h [D, N, H], c [D, N, H], P [D, 3H] -> Y, Y_h, Y_c."""
    forget = ctx.attr_flag("input_forget")

    def cell(o: Options) -> Op:
        return Lstm(o.functions, o.alphas, o.betas, o.reverse, o.clip, input_forget=forget)

    return _layer(ctx, _operands(ctx, 2, 7), cell, ("sigmoid", "tanh", "tanh"), _summed)


@ONNX("GRU")
def gru(ctx: Context) -> tuple[Value, ...]:
    """x, W [D, 3H, I], R [D, 3H, H], B [D, 6H], lengths, h [D, N, H] -> Y, Y_h."""
    before = ctx.attr_flag("linear_before_reset")

    def cell(o: Options) -> Op:
        return Gru(o.functions, o.alphas, o.betas, o.reverse, o.clip, linear_before_reset=before)

    return _layer(ctx, _operands(ctx, 1, None), cell, ("sigmoid", "tanh"), _gru_bias)


@ONNX("RNN")
def rnn(ctx: Context) -> tuple[Value, ...]:
    """x, W [D, H, I], R [D, H, H], B [D, 2H], lengths, h [D, N, H] -> Y, Y_h."""

    def cell(o: Options) -> Op:
        return Rnn(o.functions, o.alphas, o.betas, o.reverse, o.clip)

    return _layer(ctx, _operands(ctx, 1, None), cell, ("tanh",), _summed)


def _operands(ctx: Context, states: int, peepholes: int | None) -> Layer:
    x, w, r = ctx.operand(0), ctx.operand(1), ctx.operand(2)
    if x.type.rank != 3 or w.type.rank != 3 or r.type.rank != 3 or 0 in r.type.shape:
        ctx.invalid(f"its operands {x.type}, {w.type} and {r.type} must have three axes")
    batch_first = ctx.attr_flag("layout")
    if batch_first:
        x = ctx.transpose(x, (1, 0, 2))
    directions, rows, hidden = r.type.shape
    steps, batch, _ = x.type.shape
    if "hidden_size" in ctx and ctx.attr_int("hidden_size") != hidden:
        ctx.invalid(f"hidden_size {ctx.attr_int('hidden_size')} does not suit {r.type}")
    if ctx.has(4) and any(length != steps for length in ctx.known_ints(4, "the sequence lengths")):
        ctx.refuse("sequences of different lengths", hint="feed sequences of one length, without sequence_lens")
    bias = ctx.optional(3)
    if bias is None:
        bias = ctx.constant(np.zeros((directions, 2 * rows)))
    first: list[Value] = []
    for index in range(5, 5 + states):
        state = ctx.optional(index)
        if state is None:
            state = ctx.constant(np.zeros((directions, batch, hidden)))
        elif batch_first:
            state = ctx.transpose(state, (1, 0, 2))
        first.append(state)
    return Layer(x, w, r, bias, tuple(first), None if peepholes is None else ctx.optional(peepholes))


def _layer(
    ctx: Context,
    layer: Layer,
    cell: Cell,
    functions: Sequence[str],
    bias: Callable[[Context, Value], Value],
) -> tuple[Value, ...]:
    """Every direction on its own, then side by side."""
    count = {"forward": 1, "reverse": 1, "bidirectional": 2}.get(ctx.attr_text("direction", "forward"))
    directions = layer.r.type.shape[0]
    if count != directions:
        ctx.invalid(f"direction '{ctx.attr_text('direction', 'forward')}' does not suit weights {layer.r.type}")
    chosen = _functions(ctx, functions, directions)
    results = []
    for d in range(directions):
        options = chosen(d, d == 1 or ctx.attr_text("direction", "forward") == "reverse")
        operands = [layer.x, _part(ctx, layer.w, d), _part(ctx, layer.r, d), bias(ctx, _part(ctx, layer.bias, d))]
        operands += [_part(ctx, state, d) for state in layer.states]
        if layer.peepholes is not None:
            operands.append(_part(ctx, layer.peepholes, d))
        results.append(ctx.emit_all(cell(options), *operands))
    batch_first = ctx.attr_flag("layout")
    y = _joined(ctx, [ctx.reshape(r[0], (*r[0].type.shape[:1], 1, *r[0].type.shape[1:])) for r in results], 1)
    last = [
        _joined(ctx, [ctx.reshape(r[i], (1, *r[i].type.shape)) for r in results], 0)
        for i in range(1, 1 + len(layer.states))
    ]
    if batch_first:
        return (ctx.transpose(y, (2, 0, 1, 3)), *(ctx.transpose(state, (1, 0, 2)) for state in last))
    return (y, *last)


def _joined(ctx: Context, parts: list[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else ctx.emit(Concat(axis), *parts)


def _part(ctx: Context, x: Value, index: int) -> Value:
    """x[index]."""
    shape = x.type.shape
    if index >= shape[0]:
        ctx.invalid(f"{x.type} has no direction {index}")
    if shape[0] > 1:
        starts = (index, *(0 for _ in shape[1:]))
        x = ctx.emit(Slice(starts, (1, *shape[1:]), (1,) * len(shape)), x)
    return ctx.reshape(x, shape[1:])


def _cut(ctx: Context, x: Value, start: int, stop: int) -> Value:
    return ctx.emit(Slice((start,), (stop - start,), (1,)), x)


def _summed(ctx: Context, bias: Value) -> Value:
    """The biases of operand and state add up."""
    half = bias.type.shape[0] // 2
    return ctx.emit(Add(), _cut(ctx, bias, 0, half), _cut(ctx, bias, half, 2 * half))


def _gru_bias(ctx: Context, bias: Value) -> Value:
    """[Wz, Wr, Wh, Rz, Rr, Rh] -> [Wz + Rz, Wr + Rr, Wh, Rh]."""
    n = bias.type.shape[0] // 6
    gates = ctx.emit(Add(), _cut(ctx, bias, 0, 2 * n), _cut(ctx, bias, 3 * n, 5 * n))
    return ctx.emit(Concat(0), gates, _cut(ctx, bias, 2 * n, 3 * n), _cut(ctx, bias, 5 * n, 6 * n))


def _functions(ctx: Context, defaults: Sequence[str], directions: int) -> Callable[[int, bool], Options]:
    """The functions of every direction; alphas and betas are listed for those that take one, in order."""
    listed = ctx.node.attributes.get("activations", tuple(defaults) * directions)
    count = len(defaults)
    if not isinstance(listed, tuple) or len(listed) != count * directions:
        ctx.invalid(f"activations {listed} for {directions} directions of {count}")
    names = [str(name).lower() for name in listed]
    for name in names:
        if name not in _FUNCTIONS:
            ctx.refuse(f"the activation '{name}'", hint=f"one of {', '.join(sorted(_FUNCTIONS))}")
    alphas = _parameters(ctx, "activation_alpha", names, _WITH_ALPHA, 1)
    betas = _parameters(ctx, "activation_beta", names, _WITH_BETA, 2)
    clip = ctx.attr_float("clip", 0.0)

    def options(direction: int, reverse: bool) -> Options:
        own = slice(direction * count, (direction + 1) * count)
        kinds = tuple(_FUNCTIONS[name][0] for name in names[own])
        return Options(kinds, alphas[own], betas[own], reverse, clip)

    return options


def _parameters(
    ctx: Context, attribute: str, names: Sequence[str], takers: Sequence[str], place: int
) -> tuple[float, ...]:
    given = list(ctx.attr_floats(attribute)) if attribute in ctx else []
    values = []
    for name in names:
        taken = given.pop(0) if given and name in takers else _FUNCTIONS[name][place]
        assert isinstance(taken, float)
        values.append(taken)
    return tuple(values)
