"""Executes a plan on identities instead of numbers: every byte of every tensor has one, and the memory holds them.

What a kernel call reads follows from `Op.access`, not from the plan's own edges. So a wrong edge, a ring too shallow, a
distance too small, a lifetime too short and a step out of order all show as a byte that is not the one expected.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from trivet.ir.graph import Node, Value
from trivet.ops.movement import Concat, Slice
from trivet.planning.plan import ExecutionPlan, Step, Stream, Transfer
from trivet.planning.replay import Deadlock, Firing, firings, operand_rows, pieces, result_rows

Identities = npt.NDArray[np.int64]


def wrong_bytes(plan: ExecutionPlan) -> list[str]:
    """The first place where a step or the caller would not find what it reads; empty iff there is none."""
    try:
        _Machine(plan).run()
    except (_WrongByte, Deadlock) as problem:
        return [str(problem)]
    return []


class _WrongByte(Exception):
    """Some memory does not hold what is read from it."""


class _Machine:
    """The regions of a plan, holding identities; -1 is nobody's."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.memory = {r.name: np.full(plan.region_bytes(r.name), -1, np.int64) for r in plan.regions}
        self.contents: dict[int, Identities] = {}
        self.lasting: dict[int, Identities] = {}
        self.stream = -1
        self._next = 0

    def run(self) -> None:
        graph = self.plan.graph
        entering = [*graph.inputs, *(state.read for state in graph.states)]
        self._identify_all(entering)
        for value in entering:
            self._store(value)
        for stage in self.plan.stages:
            self._copy(stage.loads)
            for stream in stage.streams:
                self.stream += 1
                self._run_stream(stream)
            self._copy(stage.stores)
        for value in graph.outputs:
            self._expect(value, "the caller")
        for state in graph.states:
            held = self._memory_of(state.read)[self._whole(state.read)]
            self._compare(held, self.contents[id(state.written)], f"state {state.read.name}", "the next run")

    def _identify_all(self, entering: Iterable[Value]) -> None:
        for value in entering:
            self.contents[id(value)] = self._fresh(value.type.size_bytes)
        running = {id(step.node) for step in self.plan.steps()}
        for node in self.plan.graph.nodes:
            for value in node.outputs:
                size = value.type.size_bytes
                self.contents[id(value)] = self._fresh(size) if id(node) in running else self._view_contents(node)

    def _fresh(self, size: int) -> Identities:
        self._next += size
        return np.arange(self._next - size, self._next)

    def _view_contents(self, node: Node) -> Identities:
        """The bytes of a result that no step makes are bytes of its operands."""
        if any(value.is_constant for value in node.inputs):
            raise _WrongByte(f"{node!r} has no step, and reads a constant")
        operands = [self.contents[id(value)] for value in node.inputs]
        if node.op.views_input:
            return operands[0]
        if not isinstance(node.op, Concat | Slice):
            raise _WrongByte(f"{node!r} has no step")
        width = node.inputs[0].type.dtype.size_bytes(1)
        by_element = [c.reshape(*v.type.shape, width) for c, v in zip(operands, node.inputs, strict=True)]
        planes = [node.op.evaluate(tuple(c[..., k] for c in by_element), node.input_types)[0] for k in range(width)]
        return np.stack(planes, axis=-1).reshape(-1)

    def _run_stream(self, stream: Stream) -> None:
        lasting = {step.scratch for step in stream.steps if step.accumulates} | {stream.counters}
        self.lasting = {number: self._mark(number) for number in lasting if number is not None}
        for firing in firings(self.plan, stream):
            self._fire(firing)
            for number, mark in self.lasting.items():
                self._compare(self._buffer(number), mark, self.plan.buffers[number].name, firing.step.node)

    def _fire(self, firing: Firing) -> None:
        step, node = firing.step, firing.step.node
        rows = [range(0) if v.is_constant else operand_rows(self.plan, firing, i) for i, v in enumerate(node.inputs)]
        for value, read in zip(node.inputs, rows, strict=True):
            self._expect(value, node, read)
        mark = None
        if step.scratch is not None:
            mark = self.lasting[step.scratch] if step.scratch in self.lasting else self._mark(step.scratch)
        for value in node.outputs:
            self._store(value, result_rows(self.plan, firing, value))
        for value in node.outputs:
            self._expect(value, node, result_rows(self.plan, firing, value))
        if mark is not None:
            self._compare(self._buffer(step.scratch or 0), mark, "its work space", node)
        for index, (value, read) in enumerate(zip(node.inputs, rows, strict=True)):
            if not self._is_in_place(step, index):
                self._expect(value, node, read)

    def _is_in_place(self, step: Step, index: int) -> bool:
        """True iff the kernel may write its result over operand `index` as it goes."""
        op, value = step.node.op, step.node.inputs[index]
        if value.is_constant or not op.reuses_input or index > (1 if op.commutative else 0):
            return False
        result = step.node.outputs[0]
        return value.type.shape == result.type.shape and self.plan.view(value) == self.plan.view(result)

    def _mark(self, number: int) -> Identities:
        """Fresh identities for a work space, written to it."""
        mark = self._fresh(self.plan.buffers[number].size_bytes)
        self._buffer(number)[:] = mark
        return mark

    def _buffer(self, number: int) -> Identities:
        buffer = self.plan.buffers[number]
        self._check_alive(number)
        return self.memory[buffer.region][buffer.offset : buffer.offset + buffer.size_bytes]

    def _memory_of(self, value: Value) -> Identities:
        return self.memory[self.plan.buffers[self.plan.view(value).buffer].region]

    def _whole(self, value: Value) -> slice:
        return next(pieces(self.plan, value, range(self.plan.view(value).height))).memory

    def _store(self, value: Value, rows: range | None = None) -> None:
        self._check_alive(self.plan.view(value).buffer)
        memory, contents = self._memory_of(value), self.contents[id(value)]
        for piece in pieces(self.plan, value, range(self.plan.view(value).height) if rows is None else rows):
            memory[piece.memory] = contents[piece.tensor]

    def _expect(self, value: Value, reader: object, rows: range | None = None) -> None:
        """Raises: _WrongByte unless the rows of the value are where its view says."""
        if value.is_constant:
            return
        self._check_alive(self.plan.view(value).buffer)
        memory, contents = self._memory_of(value), self.contents[id(value)]
        for piece in pieces(self.plan, value, range(self.plan.view(value).height) if rows is None else rows):
            self._compare(memory[piece.memory], contents[piece.tensor], f"%{value.name}", reader)

    def _compare(self, held: Identities, expected: Identities, what: str, reader: object) -> None:
        if not np.array_equal(held, expected):
            raise _WrongByte(f"{reader!s} does not find {what} in {int((held != expected).sum())} bytes")

    def _check_alive(self, number: int) -> None:
        buffer, last = self.plan.buffers[number], sum(len(stage.streams) for stage in self.plan.stages) - 1
        now = min(max(self.stream, 0), max(last, 0))
        if not buffer.birth <= now <= buffer.death:
            raise _WrongByte(f"buffer {buffer.name} is used in stream {now}, outside its lifetime")

    def _copy(self, transfers: Iterable[Transfer]) -> None:
        for transfer in transfers:
            source, target = self.plan.buffers[transfer.source.buffer], self.plan.buffers[transfer.target.buffer]
            size = transfer.value.type.size_bytes
            start, stop = source.offset + transfer.source.offset, target.offset + transfer.target.offset
            held = self.memory[source.region][start : start + size].copy()
            self._compare(held, self.contents[id(transfer.value)], f"%{transfer.value.name}", "a transfer")
            self.memory[target.region][stop : stop + size] = held
