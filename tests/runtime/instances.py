"""Nodes of every operator, drawn from the strategies of the generic tests, as the kernels take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from plans import sequential

from strategies import STRATEGIES
from strategies.operands import Instance
from trivet.backends.plan.format import DTYPES
from trivet.backends.plan.kernels.table import REQUIRES
from trivet.backends.plan.reader import read
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.writer import write
from trivet.backends.table import NO_FEATURES
from trivet.core.dtype import F32, I8, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Node
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType
from trivet.ops.block import Block
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.elementwise import Div, Mul, SquaredDifference
from trivet.ops.matmul import Dense
from trivet.ops.reduce import Mean
from trivet.ops.softmax import Softmax

EXAMPLES = 40
"""Instances of each operator that plans are chosen from."""
LARGEST = 4096
"""Bytes of a plan that is worth mutating."""
FEATURES = (NO_FEATURES, *dict.fromkeys(REQUIRES.values()))
"""Targets whose kernels differ."""


@dataclass(frozen=True)
class NodeCase:
    """A graph of one node, and arrays for its inputs."""

    graph: Graph
    arrays: tuple[Array, ...]

    @property
    def node(self) -> Node:
        return self.graph.nodes[0]


S8 = TensorType(I8, (1, 4, 3, 2), Quant.per_tensor(0.1, 3))
W8 = Quant.per_tensor(0.01, 0)
X8 = TensorType(I8, (1, 6, 5, 4), S8.quant)
_POINTWISE = Conv2D(out=S8.quant, numerics=Numerics.TFLM)
_DEPTHWISE = DepthwiseConv2D(pads=((1, 1), (1, 1)), out=S8.quant, numerics=Numerics.TFLM)
BLOCK = Block(_POINTWISE, _DEPTHWISE, _POINTWISE, (1, 1, 1))
RARE: tuple[tuple[Op, tuple[TensorType, ...]], ...] = (
    (Softmax(3, out=Quant.per_tensor(1 / 256, -128), dtype=I8, numerics=Numerics.TFLM), (S8,)),
    (Mean((1, 2), True, out=S8.quant, numerics=Numerics.TFLM), (S8,)),
    (Mean((1, 2), True), (TensorType(F32, (2, 4, 3, 2)),)),
    (Div(out=S8.quant, numerics=Numerics.TFLM), (S8, S8)),
    (SquaredDifference(out=S8.quant, numerics=Numerics.ONNX), (S8, S8)),
    (SquaredDifference(out=S8.quant, numerics=Numerics.TFLM), (S8, S8)),
    (Mul(out=S8.quant, numerics=Numerics.TFLM), (S8, S8)),
    (ConvTranspose2D(stride=(2, 2)), (TensorType(F32, (1, 3, 3, 2)), TensorType(F32, (2, 2, 2, 2)))),
    (_POINTWISE, (X8, TensorType(I8, (8, 1, 1, 4), W8))),
    (_DEPTHWISE, (TensorType(I8, (1, 3, 3, 16), S8.quant), TensorType(I8, (3, 3, 16), W8))),
    (Dense(out=S8.quant, numerics=Numerics.TFLM), (TensorType(I8, (1, 20), S8.quant), TensorType(I8, (5, 20), W8))),
    (BLOCK, (X8, TensorType(I8, (8, 1, 1, 4), W8), TensorType(I8, (3, 3, 8), W8), TensorType(I8, (4, 1, 1, 8), W8))),
)
"""Operators and operands whose kernels random instances seldom reach."""


def in_memory(dtype: DType) -> bool:
    """True iff tensors of that type can lie in a plan's memory."""
    return dtype in DTYPES


def node_cases(instance: Instance) -> Iterator[NodeCase]:
    """The node with its first operand variable and the others constant, and with all operands variable."""
    if not all(in_memory(type_.dtype) for type_ in instance.types):
        return
    for constants in dict.fromkeys((len(instance.types) > 1, False)):
        graph = Graph()
        values, arrays = [], []
        for index, (type_, array) in enumerate(zip(instance.types, instance.arrays, strict=True)):
            if constants and index > 0:
                values.append(graph.constant(array, type_))
            else:
                values.append(graph.add_input(f"x{index}", type_))
                arrays.append(array)
        for value in graph.append(instance.op, values, ["y"]).outputs:
            graph.add_output(value)
        yield NodeCase(graph, tuple(arrays))


@cache
def kernel_plans() -> dict[str, list[bytes]]:
    """For every kernel that an operator's instances reach, a small plan and a larger one."""
    found: dict[str, dict[int, bytes]] = {}
    for strategy in STRATEGIES.values():

        @settings(
            max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(strategy)
        def collect(instance: Instance) -> None:
            for case in node_cases(instance):
                for features in FEATURES:
                    data = plan_of(case, features)
                    if data is not None and len(data) <= LARGEST:
                        found.setdefault(read(data).steps[0].kernel, {})[len(data)] = data

        collect()
    for op, types in RARE:
        zeros = tuple(np.zeros(type_.shape, type_.dtype.numpy) for type_ in types)
        for features in FEATURES:
            made = [plan_of(case, features) for case in node_cases(Instance(op, types, zeros))]
            assert any(made), op
            for data in filter(None, made):
                found.setdefault(read(data).steps[0].kernel, {})[len(data)] = data
    return {kernel: [plans[min(plans)], plans[max(plans)]] for kernel, plans in found.items()}


def plan_of(case: NodeCase, features: frozenset[str] = NO_FEATURES) -> bytes | None:
    """The plan of one node for a target with these features, None where no kernel takes it."""
    selection = Selection(features)
    if case.node.op.views_input or selection.find(case.node) is None:
        return None
    return write(sequential(case.graph, selection), selection)
