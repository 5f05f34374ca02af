"""Small int8 networks for the planner's tests: builders, and Hypothesis strategies for random graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from trivet.core.access import Reduced
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.interp import run
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.block import Block
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.dense_rows import DenseOfRows
from trivet.ops.elementwise import Add
from trivet.ops.matmul import Dense
from trivet.ops.movement import Concat, Reshape, Slice
from trivet.ops.pool import MaxPool2D
from trivet.ops.reduce import Mean
from trivet.ops.resize import ResizeNearest
from trivet.planning.rows import Rows

QUANT = Quant.per_tensor(0.05, 3)
FULL = Bounds(-128, 127)


class Builder:
    """Adds int8 operators to a graph; every tensor has the same quantization, weights are seeded."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph()
        self.random = np.random.default_rng(seed)

    def input(self, *shape: int) -> Value:
        return self.graph.add_input(f"in{len(self.graph.inputs)}", TensorType(I8, shape, QUANT))

    def weight(self, *shape: int) -> Value:
        data = self.random.integers(-127, 128, shape).astype(np.int8)
        return self.graph.constant(data, TensorType(I8, shape, Quant.per_tensor(0.01, 0)))

    def emit(self, op: object, *inputs: Value) -> Value:
        return self.graph.emit(op, *inputs, name=f"v{len(self.graph.nodes)}")

    def conv(
        self, x: Value, channels: int, kernel: int = 3, stride: int = 1, dilation: int = 1, pad: bool = True
    ) -> Value:
        extent = (kernel - 1) * dilation + 1
        pads = same(x, extent, stride) if pad else ((0, 0), (0, 0))
        w = self.weight(channels, kernel, kernel, x.type.shape[3])
        op = Conv2D((stride, stride), (dilation, dilation), pads, 1, FULL, QUANT, Numerics.TFLM)
        return self.emit(op, x, w)

    def depthwise(self, x: Value, kernel: int = 3, stride: int = 1) -> Value:
        w = self.weight(kernel, kernel, x.type.shape[3])
        op = DepthwiseConv2D((stride, stride), (1, 1), same(x, kernel, stride), FULL, QUANT, Numerics.TFLM)
        return self.emit(op, x, w)

    def pool(self, x: Value) -> Value:
        return self.emit(MaxPool2D((2, 2), (2, 2)), x)

    def add(self, a: Value, b: Value) -> Value:
        return self.emit(Add(FULL, QUANT, Numerics.TFLM), a, b)

    def clamp(self, x: Value) -> Value:
        return self.emit(Clamp(Bounds(-50, 60), False, QUANT, Numerics.TFLM), x)

    def concat(self, axis: int, *values: Value) -> Value:
        return self.emit(Concat(axis), *values)

    def slice_rows(self, x: Value, start: int, size: int) -> Value:
        sizes = (x.type.shape[0], size, *x.type.shape[2:])
        return self.emit(Slice((0, start, 0, 0), sizes, (1, 1, 1, 1)), x)

    def reshape(self, x: Value, *shape: int) -> Value:
        return self.emit(Reshape(shape), x)

    def resize(self, x: Value) -> Value:
        return self.emit(ResizeNearest((2 * x.type.shape[1], 2 * x.type.shape[2])), x)

    def mean(self, x: Value) -> Value:
        return self.emit(Mean((1, 2), True, QUANT, Numerics.TFLM), x)

    def dense(self, x: Value, features: int) -> Value:
        return self.emit(Dense(FULL, QUANT, Numerics.TFLM), x, self.weight(features, x.type.shape[-1]))

    def finish(self, *outputs: Value) -> Graph:
        for value in outputs:
            self.graph.add_output(value)
        return self.graph


def same(x: Value, extent: int, stride: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Padding as TensorFlow's SAME."""

    def side(size: int) -> tuple[int, int]:
        total = max(0, (-(-size // stride) - 1) * stride + extent - size)
        return total // 2, total - total // 2

    return side(x.type.shape[1]), side(x.type.shape[2])


class Kernels:
    """Needs as a backend states them: everything computes rows; depthwise and sums want work space."""

    def scratch_bytes(self, node: Node, rows: int) -> int:
        if isinstance(node.op, Mean):
            return 4 * node.output.type.shape[-1]
        if isinstance(node.op, DenseOfRows):
            return 4 * node.output.type.elements if rows < node.inputs[0].type.shape[1] else 0
        return 24 if isinstance(node.op, DepthwiseConv2D | Block) else 0

    def overwrites(self, node: Node) -> bool:
        return isinstance(node.op, Conv2D) and node.inputs[1].type.shape[1:3] == (1, 1)

    def keeps_scratch(self, node: Node) -> bool:
        return isinstance(node.op, Block) and node.op.keeps_lines and node.op.expand is not None

    def over_sums(self, node: Node) -> bool:
        return isinstance(node.op, DenseOfRows)

    def runs(self, node: Node) -> bool:
        return True

    def adopt(self, node: Node, other: Node) -> None:
        pass

    def computes_rows(self, node: Node) -> bool:
        rule = node.op.access(node.input_types)[0][1] if node.inputs[0].type.rank == 4 else None
        return isinstance(rule, Reduced) or node.output.type.rank == 4 or Rows.of(node.output.type).height == 1


def random_inputs(graph: Graph, seed: int = 1) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.integers(-128, 128, v.type.shape).astype(np.int8) for v in graph.inputs]


def expected(graph: Graph, inputs: list[Array]) -> list[Array]:
    return run(graph, inputs)[0]


def random_graph(seed: int, max_ops: int = 9, max_size: int = 9) -> Graph:
    """A connected network with forks, joins, views and strides; the same seed gives the same network."""
    random = np.random.default_rng(seed)
    b = Builder(seed)
    height, width, channels = random.integers(2, max_size + 1), random.integers(1, 5), 4 * random.integers(1, 3)
    live = [b.input(1, int(height), int(width), int(channels))]
    for _ in range(random.integers(1, max_ops + 1)):
        live.append(_grow(random, b, live))
    made = [v for v in live if v.producer is not None]
    outputs = [v for v in made if not v.uses]
    if random.integers(2):
        outputs.append(made[random.integers(len(made))])
    return b.finish(*dict.fromkeys(outputs))


def _grow(random: np.random.Generator, b: Builder, live: list[Value]) -> Value:
    """One more operator on values that exist, mostly the newest."""
    x = live[-1] if random.integers(3) else live[random.integers(len(live))]
    height, width = x.type.shape[1:3]
    alike = [v for v in live if v.type.shape == x.type.shape]
    other = alike[random.integers(len(alike))]
    channels = 4 * int(random.integers(1, 3))
    match random.choice(["conv", "depthwise", "clamp", "add", "concat", "slice", "reshape", "resize", "pool", "mean"]):
        case "conv":
            kernel = int(random.choice([1, 2, 3, 5]))
            return b.conv(x, channels, kernel, int(random.integers(1, 4)), int(random.integers(1, 3)))
        case "depthwise":
            return b.depthwise(x, 3, int(random.integers(1, 3)))
        case "add":
            return b.add(x, other)
        case "concat":
            return b.concat(int(random.choice([1, 3])), x, other)
        case "slice" if height > 2:
            return b.slice_rows(x, int(random.integers(2)), height - 1 - int(random.integers(2)))
        case "reshape":
            return b.reshape(x, 1, height, 1, width * x.type.shape[3])
        case "resize" if height < 10:
            return b.resize(x)
        case "pool" if min(height, width) >= 2:
            return b.pool(x)
        case "mean" if random.integers(3) == 0:
            return b.mean(x)
    return b.clamp(x)


SEEDS = st.integers(0, 1 << 20)
"""Seeds of `random_graph`, which shrink and print better than graphs."""
