"""Traffic of a plan: every byte that a kernel or a copy reads from slow memory or writes to it, each time.

An operand in slow memory is read once for each row of the result that needs it: a convolution with three kernel rows
reads every row three times. Copies read and write every byte once.
"""

from __future__ import annotations

from functools import lru_cache

from trivet.core.record import dataclass
from trivet.ir.graph import Value
from trivet.planning.plan import Edge, ExecutionPlan, Step
from trivet.planning.rows import Rows, reduces_rows, row_edge


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of slow memory that one run reads and writes."""

    read_bytes: int
    written_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.read_bytes + self.written_bytes


def traffic(plan: ExecutionPlan) -> Traffic:
    """What one run of a plan reads from its slow regions and writes to them."""
    slow = {region.name for region in plan.memories if not region.is_fast}
    read = written = 0
    for step in plan.steps():
        node = step.node
        for index, value in enumerate(node.inputs):
            if not value.is_constant and _is_in(plan, value, slow):
                read += _rows_of_operand(step, index) * _row_bytes(value)
        for value in node.outputs:
            if _is_in(plan, value, slow):
                written += _rows_made(step, value) * _row_bytes(value)
    for stage in plan.stages:
        for transfer in (*stage.loads, *stage.stores):
            size = transfer.value.type.size_bytes
            read += size if plan.buffers[transfer.source.buffer].region in slow else 0
            written += size if plan.buffers[transfer.target.buffer].region in slow else 0
    return Traffic(read, written + _constant_bytes(plan, slow))


def rows_read(edge: Edge, height: int) -> int:
    """Rows of an operand that `height` rows of a result read, counted each time."""
    if edge.stride == 0 and not edge.before:
        return height * _taps_inside(edge, 0)
    return _sliding_rows(edge, height)


@lru_cache(maxsize=4096)
def _sliding_rows(edge: Edge, height: int) -> int:
    return sum(_taps_inside(edge, row) for row in range(height))


def _taps_inside(edge: Edge, row: int) -> int:
    """How many rows of the operand one row reads."""
    first, last = edge.first(row), edge.last(row)
    return 0 if first is None or last is None else (last - first) // edge.dilation + 1


def _rows_of_operand(step: Step, index: int) -> int:
    """Rows of all images that a step reads of an operand."""
    node, value = step.node, step.node.inputs[index]
    result = node.outputs[0].type
    images = result.shape[0] if result.rank == 4 else 1
    own = value.type.shape[0] if value.type.rank == 4 else 1
    rows, height = Rows.of(value.type).height, Rows.of(result).height
    if index == 0 and reduces_rows(node):
        return rows * own
    made = height if step.rows is None else min(height, step.firings * step.rows)
    return rows_read(row_edge(node, index), made) * max(own, images)


def _rows_made(step: Step, value: Value) -> int:
    height = Rows.of(value.type).height
    images = value.type.shape[0] if value.type.rank == 4 else 1
    if step.rows is None or step.accumulates:
        return height * images
    return min(height, step.firings * step.rows) * images


def _row_bytes(value: Value) -> int:
    return Rows.of(value.type).row_bytes


def _is_in(plan: ExecutionPlan, value: Value, regions: set[str]) -> bool:
    return plan.buffers[plan.view(value).buffer].region in regions


def _constant_bytes(plan: ExecutionPlan, slow: set[str]) -> int:
    """Outputs that are constants are written by copies of their own."""
    constants = {id(v): v for v in plan.graph.outputs if v.is_constant}
    return sum(v.type.size_bytes for v in constants.values() if _is_in(plan, v, slow))
