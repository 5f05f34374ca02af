"""Tensors as rows, and which rows of its operands a row of a node's result needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trivet.analysis.storage import StorageMap
from trivet.core.access import AxisRule, Blocked, Broadcast, Reduced, Shifted, Sliding, Upsampled
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.types import TensorType
from trivet.planning.plan import Edge

ROW_AXIS = 1
"""The axis of the rows in a tensor of rank 4: [N, H, W, C]."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor of `height` rows of `row_bytes` each. Tensors of a rank other than 4 are one row."""

    height: int
    row_bytes: int

    @staticmethod
    def of(type_: TensorType) -> Rows:
        if type_.rank != 4:
            return Rows(1, type_.size_bytes)
        _, height, width, channels = type_.shape
        return Rows(height, type_.dtype.size_bytes(width * channels))


@dataclass(frozen=True, slots=True)
class Task:
    """A step of a stream: it counts `counted` rows, of its result, or of its operand if it accumulates.

    `height` and `row_bytes` are its result's; `storage` identifies the memory that it writes.
    """

    node: Node
    counted: int
    height: int
    row_bytes: int
    storage: int
    accumulates: bool
    edges: tuple[Edge, ...]


def stream_tasks(nodes: Sequence[Node], shared: StorageMap) -> tuple[Task, ...]:
    """The tasks of a run whose nodes all compute by rows; idle nodes have none."""
    tasks: list[Task] = []
    makers: dict[int, int] = {}
    for node in nodes:
        if id(node) in shared.idle:
            _pass_on(node, makers)
            continue
        edges = tuple(
            _edge(node, index, tasks, makers) for index, value in enumerate(node.inputs) if not value.is_constant
        )
        rows = Rows.of(node.output.type)
        accumulates = reduces_rows(node)
        tasks.append(
            Task(
                node=node,
                counted=Rows.of(node.inputs[0].type).height if accumulates else rows.height,
                height=rows.height,
                row_bytes=rows.row_bytes,
                storage=shared.places[id(node.output)].storage,
                accumulates=accumulates,
                edges=edges,
            )
        )
        makers[id(node.output)] = len(tasks) - 1
    return tuple(tasks)


def reduces_rows(node: Node) -> bool:
    """True iff the node accumulates over the rows of its first operand."""
    operand = node.inputs[0].type
    return operand.rank == 4 and isinstance(node.op.access(node.input_types)[0][ROW_AXIS], Reduced)


def counted_rows(node: Node) -> int:
    """The rows that firings of a node go through: of its result, or of its operand if it accumulates."""
    accumulates = bool(node.inputs) and reduces_rows(node)
    return Rows.of((node.inputs if accumulates else node.outputs)[0].type).height


def _pass_on(node: Node, makers: dict[int, int]) -> None:
    """A view is made by the step that makes its operand."""
    source = makers.get(id(node.inputs[0]))
    if source is not None:
        makers[id(node.output)] = source


def _edge(node: Node, operand: int, tasks: Sequence[Task], makers: dict[int, int]) -> Edge:
    value = node.inputs[operand]
    rows = Rows.of(value.type)
    source = makers.get(id(value))
    edge = row_edge(node, operand)
    if source is not None and (tasks[source].height, tasks[source].row_bytes) != (rows.height, rows.row_bytes):
        height = tasks[source].height
        edge = Edge(operand, None, height, stride=0, taps=height)
    return replace(edge, source=source)


def row_edge(node: Node, operand: int) -> Edge:
    """The rows of an operand that a row of the result needs (of an accumulation: that a firing takes)."""
    value: Value = node.inputs[operand]
    height = Rows.of(value.type).height
    if value.type.rank != 4 or any(result.type.rank != 4 for result in node.outputs) or len(node.outputs) != 1:
        if value.type.rank == 4 and len(node.outputs) == 1 and reduces_rows(node) and operand == 0:
            return Edge(operand, None, height)
        return Edge(operand, None, height, stride=0, taps=height)
    return _from_rule(node.op.access(node.input_types)[operand][ROW_AXIS], operand, height)


def _from_rule(rule: AxisRule, operand: int, height: int) -> Edge:
    match rule:
        case Sliding(out_axis=1):
            return Edge(operand, None, height, rule.stride, rule.before, rule.kernel, rule.dilation)
        case Upsampled(out_axis=1):
            return Edge(operand, None, height, rule.num, -rule.offset, rule.taps, divisor=rule.den, clamped=True)
        case Shifted(out_axis=1):
            return Edge(operand, None, height, before=rule.offset)
        case Blocked(out_axis=1, num=1):
            return Edge(operand, None, height, divisor=rule.den)
        case Blocked(out_axis=1, den=1):
            return Edge(operand, None, height, stride=rule.num, taps=rule.num)
        case Reduced():
            return Edge(operand, None, height)
        case Broadcast():
            return Edge(operand, None, height, stride=0)
        case _:
            return Edge(operand, None, height, stride=0, taps=height)
