"""The instrument that catches a pass which computes something else than the program before it.

Before the first pass the oracle runs the graph on seeded and corner inputs and keeps every named value. After each pass
that changed something it runs again, and every value that survives by name must be what it was, as far as the pass
declares to preserve it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet import interp
from trivet.core.dtype import BOOL, I32, I64
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Array
from trivet.ir.text.printer import print_graph
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.movement import Concat, Expand, Gather, Pad, Reshape, Slice, Tile, Transpose
from trivet.ops.pool import MaxPool2D
from trivet.ops.quantize import Dequantize
from trivet.ops.reduce import ReduceMax, ReduceMin
from trivet.passes.base import Exact, Pass, Preserves, Relative, Steps
from trivet.passes.manager import Instrument, PassRun, PassVerifyError

INVOCATIONS_WITH_STATE = 3


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


class VerifyEach(Instrument):
    """Compares the program after every pass with the program before the first.

    `seed` draws the random inputs; `allowed` collects what inexact passes were granted.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._inputs: list[list[Array]] = []
        self._baseline: list[list[Trace]] = []
        self._text = ""
        self.allowed: list[tuple[str, Preserves]] = []

    def begin(self, graph: Graph) -> None:
        self._inputs = model_inputs(graph, self._seed)
        self._baseline = [run_sequence(graph, arrays) for arrays in self._inputs]

    def before(self, pass_: Pass, graph: Graph) -> None:
        self._text = print_graph(graph)

    def after(self, run: PassRun, graph: Graph) -> None:
        if not run.changed:
            return
        preserves = run.pass_.preserves
        teach = isinstance(preserves, Steps)
        traces = []
        for arrays, expected in zip(self._inputs, self._baseline, strict=True):
            actual = run_sequence(graph, arrays, expected if teach else None)
            for before, after in zip(expected, actual, strict=True):
                difference = first_difference(before, after, preserves)
                if difference is not None:
                    raise PassVerifyError(run.pass_.name, difference, self._text, print_graph(graph))
            traces.append(actual)
        if not isinstance(preserves, Exact):
            self.allowed.append((run.pass_.name, preserves))
        # Also after an exact pass: the values that it introduced by name are compared and taught from here on.
        self._baseline = [run_sequence(graph, arrays) for arrays in self._inputs] if teach else traces


def model_inputs(graph: Graph, seed: int) -> list[list[Array]]:
    """Sequences of model-order inputs, flattened over invocations: random ones, then the corners of each type."""
    invocations = INVOCATIONS_WITH_STATE if graph.states else 1
    rng = np.random.default_rng(seed)
    random = [random_array(port.type, rng) for _ in range(invocations) for port in graph.input_ports]
    corners = []
    for corner in (0, 1):
        corners.append([_corner(port.type, corner) for _ in range(invocations) for port in graph.input_ports])
    limits = [index_limit(value) for value in graph.inputs] * invocations
    return [
        [
            array if limit is None else array % array.dtype.type(limit)
            for array, limit in zip(arrays, limits, strict=True)
        ]
        for arrays in (random, *corners)
    ]


def index_limit(value: Value) -> int | None:
    """How many slices a gather chooses from with `value`, which may move on its way there; None if none does."""
    limits: list[int] = []
    for use in value.uses:
        node = use.node
        if isinstance(node.op, Gather) and use.index == 1:
            limits.append(node.inputs[0].type.shape[node.op.axis])
        elif len(node.outputs) == 1 and node.output.type.dtype in (I32, I64):
            limit = index_limit(node.output)
            limits += [] if limit is None else [limit]
    return min(limits, default=None)


def random_array(type_: TensorType, rng: np.random.Generator) -> Array:
    """Uniform over the whole range of an integer type, standard normal floats."""
    dtype = type_.dtype
    if dtype.is_float:
        return rng.standard_normal(type_.shape).astype(dtype.numpy)
    if dtype is BOOL:
        return rng.integers(0, 2, type_.shape).astype(np.bool_)
    return rng.integers(dtype.min, dtype.max, type_.shape, dtype.numpy, endpoint=True)


def _corner(type_: TensorType, corner: int) -> Array:
    if type_.dtype.is_float:
        return np.full(type_.shape, (-1.0, 1.0)[corner], type_.dtype.numpy)
    return np.full(type_.shape, (type_.dtype.min, type_.dtype.max)[corner], type_.dtype.numpy)


def run_sequence(graph: Graph, arrays: Sequence[Array], teacher: Sequence[Trace] | None = None) -> list[Trace]:
    """One trace per invocation; a `teacher` trace replaces each value that it knows before others read it."""
    states: list[Array] | None = None
    traces: list[Trace] = []
    count = len(graph.inputs)
    for start in range(0, max(len(arrays), 1), max(count, 1)):
        inputs = [
            interp.to_storage(a, p) for a, p in zip(arrays[start : start + count], graph.input_ports, strict=True)
        ]
        index = len(traces)
        trace, states = _run_once(graph, inputs, states, teacher[index] if teacher is not None else None)
        traces.append(trace)
    return traces


def _run_once(
    graph: Graph, inputs: list[Array], states: list[Array] | None, teacher: Trace | None
) -> tuple[Trace, list[Array]]:
    trace: Trace = {}
    arrays: dict[int, Array] = {id(v): a for v, a in zip(graph.inputs, inputs, strict=True)}
    current = [s.initial for s in graph.states] if states is None else states
    arrays.update({id(s.read): a for s, a in zip(graph.states, current, strict=True)})
    steps: dict[int, float] = {}
    for node in graph.nodes:
        for value, array in zip(node.outputs, interp.run_node(node, arrays), strict=True):
            steps[id(value)] = _step(node, value, steps)
            if value.name:
                trace[value.name] = Observed(value.type, array, steps[id(value)])
            arrays[id(value)] = _taught(value, array, teacher)
    for index, (value, port) in enumerate(zip(graph.outputs, graph.output_ports, strict=True)):
        array = interp.to_model(_get(arrays, value), port)
        trace[f"output {index}"] = Observed(port.type, array, steps.get(id(value), 0.0))
    return trace, [_get(arrays, s.written) for s in graph.states]


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


def _taught(value: Value, array: Array, teacher: Trace | None) -> Array:
    """The teacher's array where it stands for the same integers, so that each layer is judged alone."""
    known = teacher.get(value.name) if teacher is not None and value.name else None
    if known is None or known.type.shape != value.type.shape:
        return array
    if known.type == value.type:
        return known.array
    before, after = known.type.quant, value.type.quant
    if before is None or after is None or before.scales != after.scales or len(before.zero_points) != 1:
        return array
    shift = after.zero_points[0] - before.zero_points[0]
    return (known.array.astype(np.int64) + shift).astype(value.type.dtype.numpy)


def first_difference(before: Trace, after: Trace, preserves: Preserves) -> str | None:
    """A sentence on the first value, in order of computation, that is not preserved."""
    for name, actual in after.items():
        expected = before.get(name)
        if expected is None or expected.type.shape != actual.type.shape:
            continue
        found = _difference(expected, actual, preserves)
        if found is not None:
            return f"%{name} {found}"
    return None


def _difference(expected: Observed, actual: Observed, preserves: Preserves) -> str | None:
    if expected.type.dtype is not actual.type.dtype and not (expected.type.quant and actual.type.quant):
        return None
    match preserves:
        case Exact() if expected.type.dtype is actual.type.dtype:
            wrong = ~_same_bits(expected.array, actual.array)
        case Exact():
            wrong = _real(expected) != _real(actual)
        case Steps(count):
            step = max(expected.step, actual.step) or _float_step(expected)
            wrong = np.abs(_real(expected) - _real(actual)) > count * step * 1.0001
        case Relative(epsilon):
            reference = _real(expected)
            largest = float(np.max(np.abs(reference), initial=0.0))
            wrong = np.abs(reference - _real(actual)) > epsilon * max(largest, 1e-30)
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    was, now = expected.array[index], actual.array[index]
    return f"at {list(index)} was {was} and is {now} ({int(wrong.sum())} of {wrong.size} elements differ)"


def _same_bits(a: Array, b: Array) -> Array:
    same: Array = (a == b) | ((a != a) & (b != b))
    return same


def _float_step(observed: Observed) -> float:
    """A float computed from quantized layers may move by a 1/64 of its largest magnitude."""
    return float(np.max(np.abs(observed.array), initial=0.0)) / 64 if observed.type.dtype.is_float else 1.0


def _real(observed: Observed) -> Array:
    quant = observed.type.quant
    if quant is None:
        return observed.array.astype(np.float64)
    shape = [1] * observed.array.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    zeros = np.array(quant.zero_points, np.float64).reshape(shape if quant.axis is not None else ())
    scales = np.array(quant.scales, np.float64).reshape(shape if quant.axis is not None else ())
    return np.asarray((observed.array.astype(np.float64) - zeros) * scales)
