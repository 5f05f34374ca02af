"""Single layers of every shape: sizes 1 to 17, strides, dilations, asymmetric pads, channels 1 to 67."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Value
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.elementwise import Add, Mul
from trivet.ops.matmul import Dense
from trivet.ops.pool import AveragePool2D, MaxPool2D

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 36, 48, 63, 64, 65, 67)
CONTRACTS = (Numerics.TFLM, Numerics.TFLM, Numerics.TFLM, Numerics.LITERT)


class Drawn:
    """What a case is made of, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.graph = Graph(f"case {seed}")
        self.words: list[str] = []

    def pick(self, *choices: int) -> int:
        return int(self.random.choice(choices))

    def quant(self) -> Quant:
        return Quant.per_tensor(float(self.random.uniform(0.01, 0.1)), self.pick(-128, -128, -3, 0, 17, 127))

    def input(self, *shape: int) -> Value:
        self.words.append(f"x {list(shape)}")
        return self.graph.add_input(f"x{len(self.graph.inputs)}", TensorType(I8, shape, self.quant()))

    def weights(self, shape: tuple[int, ...], axis: int) -> Value:
        data = self.random.integers(-127 if self.pick(0, 0, 1) == 0 else -128, 128, shape).astype(np.int8)
        scales = self.random.uniform(0.002, 0.02, shape[axis]).tolist()
        return self.graph.constant(data, TensorType(I8, shape, Quant.per_axis(scales, [0] * shape[axis], axis)))

    def bias(self, channels: int) -> Value:
        return self.graph.constant(
            self.random.integers(-9000, 9000, channels).astype(np.int32), TensorType(I32, (channels,))
        )

    def out(self, terms: int) -> tuple[Quant, Bounds]:
        """A scale at which most results are inside of int8, and ReLU or nothing."""
        quant = Quant.per_tensor(0.02 * terms**0.5, self.pick(-128, -128, 0, 11))
        return quant, Bounds(quant.zero_point, 127) if self.pick(0, 1) else UNBOUNDED

    def numerics(self) -> Numerics:
        return CONTRACTS[self.pick(0, 1, 2, 3)]

    def pads(self, size: tuple[int, int], extent: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """At least wide enough for one window."""
        sides = []
        for have, need in zip(size, extent, strict=True):
            before = self.pick(0, 0, 1, (need - 1) // 2, need - 1) if need > 1 else self.pick(0, 0, 0, 1)
            lacking = max(0, need - have - before)
            sides.append((before, max(lacking, self.pick(0, 1, need // 2))))
        return sides[0], sides[1]

    def finish(self, value: Value) -> tuple[str, Graph]:
        self.graph.add_output(value)
        return ", ".join(self.words), self.graph


def convolution(seed: int) -> tuple[str, Graph]:
    d = Drawn(seed)
    size = (d.pick(*range(1, 18)), d.pick(*range(1, 18)))
    kernel = [(1, 1), (3, 3), (1, 3), (3, 1), (5, 5), (2, 2), (10, 4), (1, 7)][d.pick(0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7)]
    channels, results = d.pick(*CHANNELS), d.pick(*CHANNELS)
    stride, dilation = (d.pick(1, 1, 2, 3), d.pick(1, 1, 2, 3)), (d.pick(1, 1, 1, 2), d.pick(1, 1, 1, 3))
    pads = d.pads(size, tuple((k - 1) * t + 1 for k, t in zip(kernel, dilation, strict=True)))
    x = d.input(1, *size, channels)
    w = d.weights((results, *kernel, channels), 0)
    out, clamp = d.out(channels * kernel[0] * kernel[1])
    op = Conv2D(stride, dilation, pads, 1, clamp, out, d.numerics())
    d.words += [f"w {list(w.type.shape)}", f"stride {stride}", f"dilation {dilation}", f"pads {pads}", str(op.numerics)]
    return d.finish(d.graph.emit(op, x, w, d.bias(results), name="y"))


def depthwise(seed: int) -> tuple[str, Graph]:
    d = Drawn(seed)
    size = (d.pick(*range(1, 18)), d.pick(*range(1, 18)))
    kernel = [(3, 3), (5, 5), (1, 3), (3, 1), (2, 2), (1, 1), (7, 4)][d.pick(0, 0, 0, 0, 1, 2, 3, 4, 5, 6)]
    channels, multiplier = d.pick(*CHANNELS), d.pick(1, 1, 1, 1, 2, 3)
    stride, dilation = (d.pick(1, 1, 2, 3), d.pick(1, 1, 2, 3)), (d.pick(1, 1, 1, 2), d.pick(1, 1, 1, 3))
    pads = d.pads(size, tuple((k - 1) * t + 1 for k, t in zip(kernel, dilation, strict=True)))
    x = d.input(1, *size, channels)
    w = d.weights((*kernel, channels * multiplier), 2)
    out, clamp = d.out(kernel[0] * kernel[1])
    op = DepthwiseConv2D(stride, dilation, pads, clamp, out, d.numerics())
    d.words += [f"w {list(w.type.shape)}", f"stride {stride}", f"dilation {dilation}", f"pads {pads}", str(op.numerics)]
    return d.finish(d.graph.emit(op, x, w, d.bias(channels * multiplier), name="y"))


def dense(seed: int) -> tuple[str, Graph]:
    d = Drawn(seed)
    rows, features, results = d.pick(1, 1, 1, 2, 5), d.pick(*CHANNELS, 128, 250), d.pick(*CHANNELS)
    x = d.input(rows, features)
    w = d.weights((results, features), 0)
    out, clamp = d.out(features)
    return d.finish(d.graph.emit(Dense(clamp, out, d.numerics()), x, w, d.bias(results), name="y"))


def pool(seed: int) -> tuple[str, Graph]:
    d = Drawn(seed)
    size = (d.pick(*range(1, 18)), d.pick(*range(1, 18)))
    window = (d.pick(1, 2, 3), d.pick(1, 2, 3))
    x = d.input(1, *size, d.pick(*CHANNELS))
    pads = tuple((0, max(0, need - have)) for have, need in zip(size, window, strict=True))
    stride = (d.pick(1, 2, 3), d.pick(1, 2, 3))
    largest = MaxPool2D(window, stride, pads=(pads[0], pads[1]))
    average = AveragePool2D(window, stride, (pads[0], pads[1]), out=x.type.quant, numerics=d.numerics())
    op = largest if d.pick(0, 1) else average
    d.words += [op.name, f"window {window}"]
    return d.finish(d.graph.emit(op, x, name="y"))


def binary(seed: int) -> tuple[str, Graph]:
    d = Drawn(seed)
    shape = (1, d.pick(*range(1, 9)), d.pick(*range(1, 9)), d.pick(*CHANNELS))
    a, b = d.input(*shape), d.input(*shape)
    kind = Add if d.pick(0, 1) else Mul
    d.words.append(kind.__name__)
    out, clamp = d.out(40)
    return d.finish(d.graph.emit(kind(clamp, out, Numerics.TFLM), a, b, name="y"))


LAYERS: dict[str, Callable[[int], tuple[str, Graph]]] = {
    "convolution": convolution, "depthwise": depthwise, "dense": dense, "pool": pool, "binary": binary,
}  # fmt: skip


def drawn(kind: str, count: int) -> dict[str, Graph]:
    """So many layers of a kind by what they are."""
    return {f"{kind} {seed}: {words}": graph for seed in range(count) for words, graph in [LAYERS[kind](seed)]}
