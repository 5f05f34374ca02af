"""Executes a plan on identities instead of numbers: every byte of every tensor has one, and the memory holds them.

What a kernel call reads follows from `Op.access`, not from the plan's own edges. So a wrong edge, a ring too shallow, a
distance too small, a lifetime too short and a step out of order all show as bytes that are not the ones expected. Bytes
that follow each other are kept as runs, so that the size of a tensor costs nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ops.movement import Concat, Slice
from trivet.planning.plan import ExecutionPlan, Step, Stream, Transfer
from trivet.planning.replay import Deadlock, Firing, Piece, firings, operand_rows, pieces, result_rows


def wrong_bytes(plan: ExecutionPlan) -> list[str]:
    """The first place where a step or the caller would not find what it reads; empty iff there is none."""
    try:
        _Machine(plan).run()
    except (_WrongByte, Deadlock) as problem:
        return [str(problem)]
    return []


class _WrongByte(Exception):
    """Some memory does not hold what is read from it."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Bytes start <= p < stop: byte p of a tensor is byte p + shift of tensor `tag`, which somebody made."""

    start: int
    stop: int
    tag: int
    shift: int

    def within(self, span: slice) -> _Run:
        return _Run(max(self.start, span.start), min(self.stop, span.stop), self.tag, self.shift)


Contents = tuple[_Run, ...]


class _Memory:
    """A region as runs: byte p from `starts[i]` to the next start holds byte p + shift of a tag."""

    def __init__(self) -> None:
        self.starts = [0]
        self.held = [(-1, 0)]

    def write(self, start: int, stop: int, tag: int, shift: int) -> None:
        if start >= stop:
            return
        first, last = self._cut(start), self._cut(stop)
        if first > 0 and self.held[first - 1] == (tag, shift):
            del self.starts[first:last], self.held[first:last]
        else:
            self.starts[first:last], self.held[first:last] = [start], [(tag, shift)]

    def holds(self, start: int, stop: int, tag: int, shift: int) -> bool:
        index = bisect_right(self.starts, start) - 1
        while start < stop and index < len(self.starts) and self.starts[index] < stop:
            if self.held[index] != (tag, shift):
                return False
            index += 1
        return True

    def _cut(self, at: int) -> int:
        """The index of the run that starts at `at`, which is made if need be."""
        index = bisect_right(self.starts, at) - 1
        if self.starts[index] == at:
            return index
        self.starts.insert(index + 1, at)
        self.held.insert(index + 1, self.held[index])
        return index + 1


class _Machine:
    """The regions of a plan, holding identities; tag -1 is nobody's."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.memory = {region.name: _Memory() for region in plan.regions}
        self.contents: dict[int, Contents] = {}
        self.lasting: dict[int, int] = {}
        self.stream = -1
        self._tags = 0

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
            at = self._everything(state.read)
            self._compare(state.read, at, self.contents[id(state.written)], f"state {state.read.name}", "the next run")

    def _identify_all(self, entering: Iterable[Value]) -> None:
        for value in entering:
            self.contents[id(value)] = self._fresh(value)
        running = {id(step.node) for step in self.plan.steps()}
        for node in self.plan.graph.nodes:
            for value in node.outputs:
                self.contents[id(value)] = self._fresh(value) if id(node) in running else self._view_contents(node)

    def _fresh(self, value: Value) -> Contents:
        return (_Run(0, value.type.size_bytes, self._new_tag(), 0),)

    def _new_tag(self) -> int:
        self._tags += 1
        return self._tags

    def _view_contents(self, node: Node) -> Contents:
        """The bytes of a result that no step makes are bytes of its operands."""
        if any(value.is_constant for value in node.inputs):
            raise _WrongByte(f"{node!r} has no step, and reads a constant")
        match node.op:
            case Concat() if math.prod(node.output.type.shape[: node.op.axis]) == 1:
                return tuple(_joined([self.contents[id(value)] for value in node.inputs], node.inputs))
            case Slice():
                return tuple(_parts(node, node.op, self.contents[id(node.inputs[0])]))
            case op if op.views_input:
                return self.contents[id(node.inputs[0])]
        raise _WrongByte(f"{node!r} has no step")

    def _run_stream(self, stream: Stream) -> None:
        lasting = {step.scratch for step in stream.steps if step.accumulates or step.keeps_scratch} | {stream.counters}
        self.lasting = {number: self._mark(number) for number in lasting if number is not None}
        for firing in firings(self.plan, stream):
            self._fire(firing)
            if firing.step.accumulates and firing.is_last:
                self.lasting.pop(firing.step.scratch if firing.step.scratch is not None else -1, None)
            for number, mark in self.lasting.items():
                self._expect_mark(number, mark, firing.step.node)

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
        if mark is not None and not (firing.is_last and self._is_over_sums(step)):
            self._expect_mark(step.scratch or 0, mark, node)
        for index, (value, read) in enumerate(zip(node.inputs, rows, strict=True)):
            if not self._is_in_place(step, index):
                self._expect(value, node, read)

    def _is_over_sums(self, step: Step) -> bool:
        """True iff the results of an accumulation begin no later than its sums, over which they may lie."""
        if not step.over_sums or step.scratch is None:
            return False
        sums, buffers = self.plan.buffers[step.scratch], self.plan.buffers
        views = [self.plan.view(value) for value in step.node.outputs]
        return all(buffers[v.buffer].offset + v.offset <= sums.offset for v in views)

    def _is_in_place(self, step: Step, index: int) -> bool:
        """True iff the kernel may write its result over operand `index` as it goes."""
        op, value = step.node.op, step.node.inputs[index]
        last = 1 if op.reuses_input and op.commutative else 0
        if value.is_constant or not (op.reuses_input or step.overwrites) or index > last:
            return False
        result = step.node.outputs[0]
        return value.type.shape == result.type.shape and self.plan.view(value) == self.plan.view(result)

    def _mark(self, number: int) -> int:
        """A fresh tag, written all over a work space."""
        buffer, tag = self.plan.buffers[number], self._new_tag()
        self._check_alive(number)
        self.memory[buffer.region].write(buffer.offset, buffer.offset + buffer.size_bytes, tag, 0)
        return tag

    def _expect_mark(self, number: int, tag: int, reader: object) -> None:
        buffer = self.plan.buffers[number]
        if not self.memory[buffer.region].holds(buffer.offset, buffer.offset + buffer.size_bytes, tag, 0):
            raise _WrongByte(f"{reader!s} does not find {buffer.name}")

    def _pieces(self, value: Value, rows: range | None) -> Iterator[Piece]:
        return pieces(self.plan, value, range(self.plan.view(value).height) if rows is None else rows)

    def _everything(self, value: Value) -> Piece:
        return next(self._pieces(value, None))

    def _memory_of(self, value: Value) -> _Memory:
        return self.memory[self.plan.buffers[self.plan.view(value).buffer].region]

    def _store(self, value: Value, rows: range | None = None) -> None:
        self._check_alive(self.plan.view(value).buffer)
        for piece in self._pieces(value, rows):
            rise = piece.memory.start - piece.tensor.start
            for run in _cut(self.contents[id(value)], piece.tensor):
                self._memory_of(value).write(run.start + rise, run.stop + rise, run.tag, run.shift - rise)

    def _expect(self, value: Value, reader: object, rows: range | None = None) -> None:
        """Raises: _WrongByte unless the rows of the value are where its view says."""
        if value.is_constant:
            return
        self._check_alive(self.plan.view(value).buffer)
        for piece in self._pieces(value, rows):
            self._compare(value, piece, self.contents[id(value)], f"%{value.name}", reader)

    def _compare(self, value: Value, piece: Piece, contents: Contents, what: str, reader: object) -> None:
        rise = piece.memory.start - piece.tensor.start
        for run in _cut(contents, piece.tensor):
            if not self._memory_of(value).holds(run.start + rise, run.stop + rise, run.tag, run.shift - rise):
                raise _WrongByte(f"{reader!s} does not find {what}")

    def _check_alive(self, number: int) -> None:
        buffer, last = self.plan.buffers[number], sum(len(stage.streams) for stage in self.plan.stages) - 1
        now = min(max(self.stream, 0), max(last, 0))
        if not buffer.birth <= now <= buffer.death:
            raise _WrongByte(f"buffer {buffer.name} is used in stream {now}, outside its lifetime")

    def _copy(self, transfers: Iterable[Transfer]) -> None:
        """Contents move as they are; that the source holds the value is expected."""
        for transfer in transfers:
            source, target = self.plan.buffers[transfer.source.buffer], self.plan.buffers[transfer.target.buffer]
            start, stop = source.offset + transfer.source.offset, target.offset + transfer.target.offset
            for run in self.contents[id(transfer.value)]:
                if not self.memory[source.region].holds(
                    run.start + start, run.stop + start, run.tag, run.shift - start
                ):
                    raise _WrongByte(f"a transfer does not find %{transfer.value.name}")
                self.memory[target.region].write(run.start + stop, run.stop + stop, run.tag, run.shift - stop)


def _cut(contents: Contents, span: slice) -> Iterator[_Run]:
    """The runs of a tensor's bytes inside a span."""
    for run in contents:
        inside = run.within(span)
        if inside.start < inside.stop:
            yield inside


def _joined(parts: list[Contents], values: Iterable[Value]) -> Iterator[_Run]:
    """Tensors one after the other."""
    at = 0
    for contents, value in zip(parts, values, strict=True):
        for run in contents:
            yield _Run(run.start + at, run.stop + at, run.tag, run.shift - at)
        at += value.type.size_bytes


def _parts(node: Node, op: Slice, contents: Contents) -> Iterator[_Run]:
    """The bytes of a slice: its elements by their number in the operand, neighbours together."""
    x = node.inputs[0].type
    numbers = op.evaluate((np.arange(x.elements).reshape(x.shape),), (x,))[0].reshape(-1)
    width = x.dtype.size_bytes(1)
    breaks = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    for first, last in pairwise(breaks):
        if first == last:
            continue
        at, source = first * width, int(numbers[first]) * width
        for run in _cut(contents, slice(source, source + (last - first) * width)):
            rise = at - source
            yield _Run(run.start + rise, run.stop + rise, run.tag, run.shift - rise)
