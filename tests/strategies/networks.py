"""Random networks that hold on purpose what normalization looks for: transposes around channels-last operators,
reshapes that split and merge axes, constants that broadcast, quantize and dequantize after some of the operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, U8, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp, LeakyRelu, Logistic, Tanh
from trivet.ops.conv import Conv2D
from trivet.ops.elementwise import Add, Maximum, Mul
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.movement import Concat, Pad, Reshape, Slice, Transpose
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.quantize import Dequantize, Quantize
from trivet.ops.reduce import Mean, ReduceMax
from trivet.ops.softmax import Softmax

SIZES = st.integers(1, 4)
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class Network:
    """A graph under construction; every value has a name, so that passes are judged value by value."""

    def __init__(self, draw: st.DataObject, quantized: bool) -> None:
        self.data = draw
        self.quantized = quantized
        self.graph = Graph()
        self.rng = np.random.default_rng(draw.draw(st.integers(0, 1 << 16)))
        self.count = 0
        self.values: list[Value] = []

    def emit(self, op: Op, *operands: Value) -> Value:
        self.count += 1
        return self.graph.emit(op, *operands, name=f"n{self.count}")

    def constant(self, shape: tuple[int, ...]) -> Value:
        return self.graph.constant(self.rng.standard_normal(shape).astype(np.float32), TensorType(F32, shape))

    def weights(self, shape: tuple[int, ...]) -> Value:
        """A float constant, or in a quantized network a dequantized one, per tensor or along axis 0."""
        if not self.quantized:
            return self.constant(shape)
        stored = self.rng.integers(-127, 128, shape).astype(np.int8)
        if self.data.draw(st.booleans()):
            scales = self.rng.uniform(0.002, 0.02, shape[0])
            quant = Quant.per_axis(scales, np.zeros(shape[0], np.int64), 0)
        else:
            quant = Quant.per_tensor(0.01, int(self.rng.integers(-20, 20)))
        return self.emit(Dequantize(), self.graph.constant(stored, TensorType(I8, shape, quant)))

    def quant(self) -> tuple[DType, Quant]:
        """An 8-bit element type, sometimes unsigned, and a scale that suits numbers near one."""
        scale = float(self.data.draw(st.sampled_from([0.02, 0.05, 0.11])))
        dtype = self.data.draw(st.sampled_from([I8, U8]))
        return dtype, Quant.per_tensor(scale, int(self.rng.integers(dtype.min + 90, dtype.max - 90)))

    def stored(self, value: Value) -> Value:
        """The value through a quantize and a dequantize."""
        dtype, quant = self.quant()
        return self.emit(Dequantize(), self.emit(Quantize(quant, dtype, Numerics.ONNX), value))

    def given(self, name: str, shape: tuple[int, ...]) -> Value:
        """A model input as a float: float, quantized at once, or quantized already."""
        if not self.quantized:
            return self.graph.add_input(name, TensorType(F32, shape))
        if self.data.draw(st.booleans()):
            return self.stored(self.graph.add_input(name, TensorType(F32, shape)))
        dtype, quant = self.quant()
        return self.emit(Dequantize(), self.graph.add_input(name, TensorType(dtype, shape, quant)))

    def result(self, value: Value) -> None:
        """A model output, sometimes quantized."""
        if self.quantized and self.data.draw(st.booleans()):
            dtype, quant = self.quant()
            value = self.emit(Quantize(quant, dtype, Numerics.ONNX), value)
        self.graph.add_output(value)

    def grow(self, steps: Sequence[Step]) -> None:
        """Append one operator on a value that is there, or a small group of them."""
        x = self.data.draw(st.sampled_from(self.values))
        step = self.data.draw(st.sampled_from(steps))
        y = step(self, x)
        if y is not None and y.type.elements <= 512:
            self.values.append(self.stored(y) if self.quantized and self.data.draw(st.booleans()) else y)


Step = Callable[[Network, Value], Value | None]


def _function(net: Network, x: Value) -> Value:
    op: Op = net.data.draw(st.sampled_from([Clamp(Bounds(0.0, 1.5)), Logistic(), Tanh(), LeakyRelu(0.25)]))
    return net.emit(op, x)


def _pair(net: Network, x: Value) -> Value:
    op: Op = net.data.draw(st.sampled_from([Add(), Mul(), Maximum()]))
    same = [value for value in net.values if value.type.shape == x.type.shape]
    return net.emit(op, x, net.data.draw(st.sampled_from(same)))


def _broadcast(net: Network, x: Value) -> Value:
    op: Op = net.data.draw(st.sampled_from([Add(), Mul()]))
    kept = net.data.draw(st.lists(st.booleans(), min_size=x.type.rank, max_size=x.type.rank))
    shape = tuple(size if keep else 1 for size, keep in zip(x.type.shape, kept, strict=True))
    first = next((axis for axis, size in enumerate(shape) if size != 1), 0)
    return net.emit(op, x, net.constant(shape[net.data.draw(st.integers(0, first)) :]))


def _transpose(net: Network, x: Value) -> Value:
    return net.emit(Transpose(tuple(net.data.draw(st.permutations(range(x.type.rank))))), x)


def _reshape(net: Network, x: Value) -> Value:
    shape: list[int] = []
    left = x.type.elements
    for _ in range(net.data.draw(st.integers(0, 3))):
        size = net.data.draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
        shape.append(size)
        left //= size
    return net.emit(Reshape((*shape, left)), x)


def _slice(net: Network, x: Value) -> Value:
    sizes = tuple(net.data.draw(st.integers(1, size)) for size in x.type.shape)
    return net.emit(Slice((0,) * x.type.rank, sizes, (1,) * x.type.rank), x)


def _concat(net: Network, x: Value) -> Value:
    same = [value for value in net.values if value.type.shape == x.type.shape]
    axis = net.data.draw(st.integers(0, x.type.rank - 1))
    return net.emit(Concat(axis), x, net.data.draw(st.sampled_from(same)))


def _reduce(net: Network, x: Value) -> Value:
    axes = tuple(sorted(net.data.draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1))))
    keep = net.data.draw(st.booleans()) or len(axes) == x.type.rank
    return net.emit(net.data.draw(st.sampled_from([Mean, ReduceMax]))(axes, keep), x)


def _softmax(net: Network, x: Value) -> Value:
    return net.emit(Softmax(net.data.draw(st.integers(0, x.type.rank - 1))), x)


def _pad(net: Network, x: Value) -> Value:
    widths = [net.data.draw(st.integers(0, 1)) for _ in x.type.shape]
    return net.emit(Pad(tuple(widths), tuple(widths[::-1])), x)


def _dense(net: Network, x: Value) -> Value:
    w = net.weights((net.data.draw(SIZES), x.type.shape[-1]))
    y = net.emit(Dense(), x, w)
    return net.emit(Add(), y, net.constant((w.type.shape[0],))) if net.data.draw(st.booleans()) else y


def _product(net: Network, x: Value) -> Value | None:
    if x.type.rank < 2:
        return None
    return net.emit(BatchMatMul(), x, net.weights((x.type.shape[-1], net.data.draw(SIZES))))


def _channels_first(operator: Callable[[Network, Value], Value]) -> Callable[[Network, Value], Value | None]:
    """A channels-last operator between transposes, as the ONNX frontend writes it; 1-D ones between reshapes too."""

    def step(net: Network, x: Value) -> Value | None:
        if x.type.rank == 3:
            n, channels, length = x.type.shape
            last = net.emit(Transpose((0, 2, 1)), x)
            y = operator(net, net.emit(Reshape((n, length, 1, channels)), last))
            n, length, _, channels = y.type.shape
            return net.emit(Transpose((0, 2, 1)), net.emit(Reshape((n, length, channels)), y))
        if x.type.rank != 4:
            return None
        return net.emit(Transpose(TO_FIRST), operator(net, net.emit(Transpose(TO_LAST), x)))

    return step


def _convolution(net: Network, x: Value) -> Value:
    channels = x.type.shape[3]
    groups = channels if net.data.draw(st.booleans()) else 1
    outputs = groups * net.data.draw(st.integers(1, 2))
    kernel = (min(2, x.type.shape[1]), 1)
    w = net.weights((outputs, *kernel, channels // groups))
    y = net.emit(Conv2D(pads=((1, 0), (0, 0)), groups=groups), x, w)
    return net.emit(Mul(), y, net.constant((outputs,))) if net.data.draw(st.booleans()) else y


def _pool(net: Network, x: Value) -> Value:
    kernel = (min(2, x.type.shape[1]), min(2, x.type.shape[2]))
    return net.emit(net.data.draw(st.sampled_from([MaxPool2D, AveragePool2D]))(kernel), x)


STEPS: list[Step] = [
    _function,
    _pair,
    _broadcast,
    _transpose,
    _reshape,
    _slice,
    _concat,
    _reduce,
    _softmax,
    _pad,
    _dense,
    _product,
    _channels_first(_convolution),
    _channels_first(_pool),
]


def random_network(data: st.DataObject, quantized: bool, steps: Sequence[Step] = ()) -> Graph:
    """One to two inputs, up to ten of `steps` (none given: all of STEPS), one or two outputs."""
    net = Network(data, quantized)
    for index in range(data.draw(st.integers(1, 2))):
        shape = tuple(data.draw(st.lists(SIZES, min_size=2, max_size=4)))
        net.values.append(net.given(f"x{index}", shape))
    for _ in range(data.draw(st.integers(1, 10))):
        net.grow(steps or STEPS)
    results = [value for value in net.values if value.producer is not None] or [net.emit(Tanh(), net.values[0])]
    net.result(results[-1])
    if data.draw(st.booleans()):
        net.result(data.draw(st.sampled_from(results)))
    assert all(math.prod(value.type.shape) for value in net.values)
    return net.graph
