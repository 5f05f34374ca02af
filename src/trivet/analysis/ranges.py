"""Intervals of every integer value of a graph, from the ranges of its inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from trivet.analysis.accumulators import INT32, PRODUCTS, Sums, accumulates_in_32_bits, accumulator_sums
from trivet.core.dtype import I32
from trivet.core.interval import Interval
from trivet.core.numerics import Overflow
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import full_range
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul

DEFAULT_I32 = Interval(-(1 << 20), 1 << 20)
"""What i32 inputs of exact programs are assumed to hold."""


@dataclass(frozen=True, slots=True)
class Overflowing:
    """An operator whose exact arithmetic may leave its type, or whose sums may leave int32.

    `interval` shows it; `chain` is how inputs get there.
    """

    node: Node
    interval: Interval
    chain: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """`of` maps id(value) to its interval; `sums` maps id(node) to the ranges of its accumulators.

    `overflowing` holds the first operators that may overflow: what reads their results is not judged.
    """

    of: dict[int, Interval]
    sums: dict[int, Sums]
    overflowing: tuple[Overflowing, ...]

    def interval(self, value: Value) -> Interval:
        return self.of[id(value)]


def analyze_ranges(graph: Graph, i32: Interval | None = None) -> Ranges:
    """Intervals of all values; inputs lie in `input_ranges`, constants are exact."""
    of: dict[int, Interval] = {}
    sums: dict[int, Sums] = {}
    overflowing = []
    broken: set[int] = set()
    for value, interval in zip(graph.inputs, input_ranges(graph, i32), strict=True):
        of[id(value)] = interval
    for state in graph.states:
        of[id(state.read)] = full_range(state.read.type)
    for value in graph.constants():
        of[id(value)] = _constant_range(value)
    for node in graph.nodes:
        exact = _visit(node, of, sums)
        follows = any(id(value) in broken for value in node.inputs)
        overflows = exact is not None and not exact.within(limits_of(node))
        if overflows and exact is not None and not follows:
            overflowing.append(Overflowing(node, exact, _shortest_chain(node)))
        if follows or overflows:
            broken.update(id(value) for value in node.outputs)
    return Ranges(of, sums, tuple(overflowing))


def input_ranges(graph: Graph, i32: Interval | None = None) -> list[Interval]:
    """What each input is assumed to hold.

    That is all of its type, but for i32 inputs of exact programs: `i32`, or what their ports accept, or DEFAULT_I32.
    """
    narrow = assumes_range(graph)
    assumed = []
    for value, port in zip(graph.inputs, graph.input_ports, strict=True):
        is_assumed = narrow and value.type.dtype is I32 and value.type.quant is None
        stated = (i32 if is_assumed else None) or port.accepts
        assumed.append(stated or (DEFAULT_I32 if is_assumed else full_range(value.type)))
    return assumed


def assumes_range(graph: Graph) -> bool:
    """True iff i32 inputs hold no more than was stated: the graph is an exact program, as `.tiny` writes them."""
    return any(is_exact(node) for node in graph.nodes) or all(isinstance(node.op, Relu) for node in graph.nodes)


def is_exact(node: Node) -> bool:
    """True iff the operator's arithmetic must be proved to stay inside its type."""
    return isinstance(node.op, MatMul) or (isinstance(node.op, Add) and node.op.overflow is Overflow.EXACT)


def limits_of(node: Node) -> Interval:
    """What the arithmetic of an operator that must be proved has room for."""
    return INT32 if isinstance(node.op, PRODUCTS) else full_range(node.output.type)


def _visit(node: Node, of: dict[int, Interval], sums: dict[int, Sums]) -> Interval | None:
    """Record the results' intervals; the interval that must stay inside `limits_of`, if there is one."""
    operands = tuple(of[id(value)] for value in node.inputs)
    found = accumulator_sums(node, operands)
    if found is not None:
        sums[id(node)] = found
    results = node.op.bound(operands, node.input_types)
    if isinstance(node.op, MatMul) and found is not None:
        total = found.total
        results = (total.clamp(0, max(total.hi, 0)) if node.op.relu else total,)
    for value, interval in zip(node.outputs, results, strict=True):
        of[id(value)] = _representable(interval, full_range(value.type))
    if found is not None:
        return found.worst if accumulates_in_32_bits(node) else None
    return results[0] if is_exact(node) else None


def _representable(interval: Interval, limits: Interval) -> Interval:
    """What a value can hold; beyond that the program is rejected, or the operator wraps anywhere."""
    return interval if interval.within(limits) else limits


def _constant_range(value: Value) -> Interval:
    data = value.data
    assert data is not None
    if value.type.dtype.is_float or data.size == 0:
        return Interval(0, 0)
    return Interval(int(data.min()), int(data.max()))


def _shortest_chain(node: Node) -> tuple[Node, ...]:
    """Producers from one that reads only inputs and constants down to `node`, as few as possible."""
    reader: dict[int, Node | None] = {id(node): None}
    pending = deque([node])
    while pending:
        step = pending.popleft()
        producers = [value.producer for value in step.inputs if value.producer is not None]
        if not producers:
            return tuple(_downwards(step, reader))
        for producer in producers:
            if id(producer) not in reader:
                reader[id(producer)] = step
                pending.append(producer)
    return (node,)


def _downwards(first: Node, reader: dict[int, Node | None]) -> Iterator[Node]:
    step: Node | None = first
    while step is not None:
        yield step
        step = reader[id(step)]
