"""What the oracle computes for a graph: every named value, for inputs that try the ends of their types.

Results are remembered by operator and operands, so that running a graph again after a pass computes only what the pass
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from trivet import interp
from trivet.analysis.ranges import input_ranges
from trivet.core.dtype import BOOL, I32, I64
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Array, Arrays, full_range
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.movement import Concat, Expand, Gather, Pad, Reshape, Slice, Tile, Transpose
from trivet.ops.pool import MaxPool2D
from trivet.ops.quantize import Dequantize
from trivet.ops.reduce import ReduceMax, ReduceMin

INVOCATIONS_WITH_STATE = 3

Invocations = list[list[Array]]
"""Inputs of one invocation after another."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A value as the oracle computed it in one invocation; `step` is what one unit of its quantization is worth, also
    where it has been dequantized (0: unknown)."""

    type: TensorType
    array: Array
    step: float = 0.0


KEEPING = (Clamp, Concat, Expand, Gather, MaxPool2D, Pad, ReduceMax, ReduceMin, Reshape, Slice, Tile, Transpose)
"""Operators whose float results are elements of their operands."""

Trace = dict[str, Observed]
"""Named values of one invocation; outputs also under `output N`, in the model's axis order."""


def model_inputs(graph: Graph, seed: int, i32: Interval | None = None) -> list[Invocations]:
    """Sequences of invocations of model-order inputs: random ones, least, greatest, and both mixed.

    Integers lie in `input_ranges` for `i32`, indices inside what they choose from.
    """
    rng = np.random.default_rng(seed)
    drawn = [
        (port.type, _input_range(value, port.type, stated))
        for port, value, stated in zip(graph.input_ports, graph.inputs, input_ranges(graph, i32), strict=True)
    ]
    draws: tuple[Callable[[TensorType, Interval], Array], ...] = (
        lambda type_, range_: random_array(type_, rng, range_),
        lambda type_, range_: _filled(type_, range_, np.zeros(type_.shape, np.bool_)),
        lambda type_, range_: _filled(type_, range_, np.ones(type_.shape, np.bool_)),
        lambda type_, range_: _filled(type_, range_, rng.integers(0, 2, type_.shape).astype(np.bool_)),
    )
    count = INVOCATIONS_WITH_STATE if graph.states else 1
    return [[[draw(type_, range_) for type_, range_ in drawn] for _ in range(count)] for draw in draws]


def _input_range(value: Value, type_: TensorType, stated: Interval) -> Interval:
    if type_.dtype in (I32, I64):
        limit = index_limit(value)
        if limit is not None:
            return Interval(0, limit - 1)
    return stated if stated != full_range(value.type) else full_range(type_)


def index_limit(value: Value) -> int | None:
    """How many slices a gather chooses from with `value`, which may move on its way there; None if none does."""
    limits: list[int] = []
    pending, seen = [value], {id(value)}
    while pending:
        for use in pending.pop().uses:
            node = use.node
            if isinstance(node.op, Gather) and use.index == 1:
                limits.append(node.inputs[0].type.shape[node.op.axis])
            elif len(node.outputs) == 1 and node.output.type.dtype in (I32, I64) and id(node.output) not in seen:
                seen.add(id(node.output))
                pending.append(node.output)
    return min(limits, default=None)


def random_array(type_: TensorType, rng: np.random.Generator, range_: Interval | None = None) -> Array:
    """Uniform over `range_` (None: the whole range of an integer type), standard normal floats."""
    dtype = type_.dtype
    if dtype.is_float:
        return rng.standard_normal(type_.shape).astype(dtype.numpy)
    if dtype is BOOL:
        return rng.integers(0, 2, type_.shape).astype(np.bool_)
    range_ = range_ or full_range(type_)
    return rng.integers(range_.lo, range_.hi, type_.shape, dtype.numpy, endpoint=True)


def _filled(type_: TensorType, range_: Interval, high: Array) -> Array:
    """The greatest value of the range where `high`, the least elsewhere; -1 and 1 for floats."""
    lo, hi = (-1, 1) if type_.dtype.is_float else (range_.lo, range_.hi)
    return np.where(high, type_.dtype.numpy.type(hi), type_.dtype.numpy.type(lo)).astype(type_.dtype.numpy)


class Oracle:
    """Runs versions of one graph on one sequence of inputs, and remembers results of operators on the same arrays."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Arrays, Arrays]] = {}

    def run(
        self, graph: Graph, invocations: Invocations, expected: Sequence[Trace] = (), teach: bool = False
    ) -> list[Trace]:
        """One trace per invocation.

        Values that are equal to what is `expected` under their name are that very array, so that what follows is known.
        With `teach` the expected array takes the place of every value before others read it, equal or not.
        """
        states: list[Array] | None = None
        traces: list[Trace] = []
        for index, arrays in enumerate(invocations):
            inputs = [interp.to_storage(a, p) for a, p in zip(arrays, graph.input_ports, strict=True)]
            teacher = expected[index] if index < len(expected) else {}
            trace, states = self._run_once(graph, inputs, states, teacher, teach)
            traces.append(trace)
        return traces

    def _run_once(
        self, graph: Graph, inputs: list[Array], states: list[Array] | None, expected: Trace, teach: bool
    ) -> tuple[Trace, list[Array]]:
        trace: Trace = {}
        arrays: dict[int, Array] = {id(v): a for v, a in zip(graph.inputs, inputs, strict=True)}
        current = [s.initial for s in graph.states] if states is None else states
        arrays.update({id(s.read): a for s, a in zip(graph.states, current, strict=True)})
        steps: dict[int, float] = {}
        for node in graph.nodes:
            for value, array in zip(node.outputs, self._results(node, arrays), strict=True):
                steps[id(value)] = _step(node, value, steps)
                if value.name:
                    trace[value.name] = Observed(value.type, array, steps[id(value)])
                known = expected.get(value.name)
                arrays[id(value)] = array if known is None else _taught(value, array, known, teach)
        for index, (value, port) in enumerate(zip(graph.outputs, graph.output_ports, strict=True)):
            array = interp.to_model(_get(arrays, value), port)
            trace[f"output {index}"] = Observed(port.type, array, steps.get(id(value), 0.0))
        for state in graph.states:
            trace[f"next {state.read.name}"] = Observed(state.written.type, _get(arrays, state.written))
        return trace, [_get(arrays, s.written) for s in graph.states]

    def _results(self, node: Node, arrays: dict[int, Array]) -> Arrays:
        operands = tuple(_get(arrays, value) for value in node.inputs)
        key = (node.op, node.input_types, tuple(id(array) for array in operands))
        known = self._known.get(key)
        if known is None:
            # The operands are kept as well, so that no other array gets their identity.
            known = self._known[key] = (operands, interp.run_node(node, arrays))
        return known[1]


def _step(node: Node, value: Value, steps: dict[int, float]) -> float:
    """One unit of a quantized value, of a dequantized one, and of what only moves or compares such values."""
    if value.type.quant is not None:
        return max(value.type.quant.scales)
    if isinstance(node.op, Dequantize):
        quant = node.inputs[0].type.quant
        return 0.0 if quant is None else max(quant.scales)
    if isinstance(node.op, KEEPING):
        return max(steps.get(id(operand), 0.0) for operand in node.inputs)
    return 0.0


def _get(arrays: dict[int, Array], value: Value) -> Array:
    return value.data if value.data is not None else arrays[id(value)]


def _taught(value: Value, array: Array, known: Observed, teach: bool) -> Array:
    """The known array where it stands for the same integers, so that each layer is judged alone."""
    if known.array is array or known.type.shape != value.type.shape:
        return array
    if known.type == value.type:
        return known.array if teach or np.array_equal(known.array, array) else array
    before, after = known.type.quant, value.type.quant
    if not teach or before is None or after is None or before.scales != after.scales or len(before.zero_points) != 1:
        return array
    shift = after.zero_points[0] - before.zero_points[0]
    return (known.array.astype(np.int64) + shift).astype(value.type.dtype.numpy)
