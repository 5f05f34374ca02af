"""What exporters write around operators, one function each: what the rewrites of passes wait for."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from strategies.networks import SIZES, STEPS, Network, Step
from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I4, I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Value
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp, Tanh
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.elementwise import Add, Maximum, Minimum, Mul
from trivet.ops.mathematics import Erf, Neg
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import Concat, Expand, Pad, Reshape, Slice, SpaceToDepth, Transpose
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.quantize import Dequantize, Quantize
from trivet.ops.reduce import ReduceMax
from trivet.ops.softmax import Softmax


def number(net: Network, x: Value, value: float, shape: tuple[int, ...] | None = None) -> Value:
    """One float, as a constant with unit axes, or filling `shape`."""
    shape = shape or (1,) * x.type.rank
    return net.graph.constant(np.full(shape, value, np.float32), TensorType(F32, shape))


def image(net: Network, x: Value, channels: int) -> Value:
    """The elements of `x` as rows of one image."""
    return net.emit(Reshape((1, x.type.elements // channels, 1, channels)), x)


def two_clamps(net: Network, x: Value) -> Value:
    return net.emit(Clamp(Bounds(-1.0, 1.0)), net.emit(Clamp(Bounds(0.0, 2.0)), x))


def extrema_with_numbers(net: Network, x: Value) -> Value:
    return net.emit(Minimum(), net.emit(Maximum(), x, number(net, x, -0.5)), number(net, x, 0.75))


def padded_convolution(net: Network, x: Value) -> Value:
    padded = net.emit(Pad((0, 1, 0, 0), (0, 1, 0, 0)), image(net, x, 1))
    return net.emit(Conv2D(), padded, net.weights((2, 2, 1, 1)))


def padded_pool(net: Network, x: Value) -> Value:
    pool, fill = net.data.draw(st.sampled_from([(MaxPool2D, -math.inf), (AveragePool2D, 0.0)]))
    padded = net.emit(Pad((0, 1, 0, 0), (0, 1, 0, 0), fill), image(net, x, 1))
    return net.emit(pool((2, 1)), padded)


def depthwise_of_one_channel(net: Network, x: Value) -> Value:
    w = net.constant((1, 1, net.data.draw(SIZES)))
    return net.emit(DepthwiseConv2D(), image(net, x, 1), w)


def grouped_convolution(net: Network, x: Value) -> Value:
    channels = x.type.shape[-1]
    return net.emit(Conv2D(groups=channels), image(net, x, channels), net.constant((channels, 1, 1, 1)))


def spread_hard_swish(net: Network, x: Value) -> Value:
    gate = net.emit(Clamp(Bounds(0.0, 6.0)), net.emit(Add(), x, number(net, x, 3.0)))
    return net.emit(Mul(), net.emit(Mul(), x, gate), number(net, x, 1 / 6))


def spread_gelu(net: Network, x: Value) -> Value:
    # Beside a large element: what is left of 1 + erf(x) near -1 is rounding, small against the tensor's largest alone.
    x = net.emit(Concat(x.type.rank - 1), x, number(net, x, 3.0, x.type.shape))
    gate = net.emit(Add(), net.emit(Erf(), net.emit(Mul(), x, number(net, x, math.sqrt(0.5)))), number(net, x, 1.0))
    return net.emit(Mul(), net.emit(Mul(), x, gate), number(net, x, 0.5))


def expanded(net: Network, x: Value) -> Value:
    largest = net.emit(ReduceMax((x.type.rank - 1,), True), x)
    return net.emit(Add(), x, net.emit(Expand(x.type.shape), largest))


def convolved(net: Network, x: Value) -> Value:
    """One image of two channels: [1, elements of x, 1, 2]."""
    return net.emit(Conv2D(), image(net, x, 1), net.weights((2, 1, 1, 1)))


def turned_twice(net: Network, x: Value) -> Value:
    """Two turns around a function, which are one other turn, or none."""
    order = (0, 3, 1, 2)
    back = net.data.draw(st.sampled_from([order, (0, 2, 3, 1)]))
    inner = net.emit(Tanh(), net.emit(Transpose(order), convolved(net, x)))
    return net.emit(Softmax(3), net.emit(Transpose(back), inner))


def cut_to_nothing(net: Network, x: Value) -> Value:
    rank = x.type.rank
    nothing = net.emit(Slice((0,) * rank, (*x.type.shape[:-1], 0), (1,) * rank), x)
    return net.emit(Neg(), net.emit(Concat(rank - 1), nothing, x))


def clamped_sum(net: Network, x: Value) -> Value:
    return net.emit(Clamp(Bounds(0.0, 6.0)), net.emit(Add(), x, net.emit(Tanh(), x)))


def turned_weights(net: Network, x: Value) -> Value:
    stored = net.rng.integers(-127, 128, (x.type.shape[-1], 3)).astype(np.int8)
    w = net.graph.constant(stored, TensorType(I8, stored.shape, Quant.per_tensor(0.01, 0)))
    return net.emit(Dense(), x, net.emit(Transpose((1, 0)), net.emit(Dequantize(), w)))


def equal_constants(net: Network, x: Value) -> Value:
    data = net.rng.standard_normal(x.type.shape[-1:]).astype(np.float32)
    first, second = (net.graph.constant(data, TensorType(F32, data.shape)) for _ in range(2))
    return net.emit(Mul(), net.emit(Mul(), x, first), second)


def nibbles(net: Network, x: Value) -> Value:
    stored = net.rng.integers(-8, 8, (2, x.type.shape[-1])).astype(np.int8)
    w = net.graph.constant(stored, TensorType(I4, stored.shape, Quant.per_tensor(0.1, 0)))
    return net.emit(Dense(), x, net.emit(Dequantize(), w))


def state_without_change(net: Network, x: Value) -> Value:
    net.count += 1
    data = net.rng.standard_normal(x.type.shape).astype(np.float32)
    return net.emit(Add(), x, net.graph.add_state(f"s{net.count}", x.type, data))


def known_operand(net: Network, x: Value) -> Value:
    return net.emit(Mul(), net.emit(Tanh(), net.constant(x.type.shape)), x)


def flattened(net: Network, x: Value) -> Value:
    turned = net.emit(Transpose((0, 3, 1, 2)), convolved(net, x))
    flat = net.emit(Reshape((1, turned.type.elements)), turned)
    return net.emit(Dense(), flat, net.constant((2, turned.type.elements)))


def product_with_transposed(net: Network, x: Value) -> Value | None:
    if x.type.rank < 2:
        return None
    order = (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)
    return net.emit(BatchMatMul(), x, net.emit(Transpose(order), net.emit(Tanh(), x)))


def stored_twice(net: Network, x: Value) -> Value:
    quant = Quant.per_tensor(0.03, 4)
    for _ in range(2):
        x = net.emit(Dequantize(), net.emit(Quantize(quant, I8, Numerics.ONNX), x))
    return x


def movement_stored(net: Network, x: Value) -> Value:
    turned = net.emit(Transpose((0, 3, 1, 2)), net.emit(Softmax(3), convolved(net, x)))
    return net.emit(Mul(), net.stored(net.emit(SpaceToDepth(1), turned)), number(net, turned, 1.5))


IDIOMS: list[Step] = [
    two_clamps,
    clamped_sum,
    cut_to_nothing,
    extrema_with_numbers,
    padded_convolution,
    padded_pool,
    depthwise_of_one_channel,
    spread_hard_swish,
    spread_gelu,
    expanded,
    turned_twice,
    turned_weights,
    equal_constants,
    nibbles,
    state_without_change,
    known_operand,
    flattened,
    product_with_transposed,
    stored_twice,
    movement_stored,
    grouped_convolution,
    *STEPS,
]
