"""Which values share memory: views of the same bytes, and results that overwrite an operand that dies."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trivet.analysis.liveness import Lifetime, Runs, activations, lifetimes
from trivet.core.dtype import BOOL
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.ops.border import Receive, Send
from trivet.ops.movement import Concat, Slice

VIEW_ALIGNMENT = 4
"""A part of a tensor is used in place only where it starts at a multiple of this, as kernels may load words."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """What may share memory beside reshapes: `in_place` results, `parts` of concatenated and sliced tensors.

    `keep_inputs`: the graph's inputs hold their contents to the end. `overwriting`: ids of nodes whose result may lie
    over the first operand although the operator does not say so. `slow`: ids of values in another memory than the rest,
    which share nothing with it.
    """

    in_place: bool = True
    parts: bool = True
    keep_inputs: bool = False
    overwriting: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """A value's bytes: from `offset` on in storage number `storage`."""

    storage: int
    offset: int


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory for the values in it, which may overlap."""

    values: tuple[Value, ...]
    size_bytes: int
    lifetime: Lifetime

    @property
    def held_bytes(self) -> int:
        """Bytes of the plan's memory: none, where rows come from or go to the caller."""
        return 0 if any(is_callers(value) for value in self.values) else self.size_bytes


@dataclass(frozen=True, slots=True)
class StorageMap:
    """Where every activation lies, by id(value), and the ids of the nodes that have nothing left to do."""

    storages: tuple[Storage, ...]
    places: dict[int, Place]
    idle: frozenset[int]

    def of(self, value: Value) -> Storage:
        return self.storages[self.places[id(value)].storage]


def is_callers(value: Value) -> bool:
    """True iff the value lies in the caller's memory, as it is received or sent row by row."""
    sent = value.producer is not None and isinstance(value.producer.op, Send)
    return sent or any(isinstance(use.node.op, Receive) for use in value.uses)


def share_storage(graph: Graph, runs: Runs, sharing: Sharing | None = None) -> StorageMap:
    """Storage for every activation when the runs, which hold all nodes, follow each other."""
    sharer = _Sharer(graph, runs, sharing or Sharing())
    sharer.share_views()
    if sharer.sharing.parts:
        sharer.share_parts()
    if sharer.sharing.in_place:
        sharer.share_in_place()
    return sharer.result()


class _Sharer:
    """Groups of values with relative offsets; a group becomes a storage."""

    def __init__(self, graph: Graph, runs: Runs, sharing: Sharing) -> None:
        self.graph, self.runs, self.sharing = graph, runs, sharing
        self.lifetimes = lifetimes(graph, runs)
        if sharing.keep_inputs:
            for value in graph.inputs:
                self.lifetimes[id(value)] = Lifetime(-1, len(runs))
        self.idle: set[int] = set()
        self._offset = {id(value): 0 for value in activations(graph)}
        self._group = {id(value): [value] for value in activations(graph)}
        self._states = {id(state.read) for state in graph.states}

    def share_views(self) -> None:
        for node in self._nodes():
            if node.op.views_input and not node.inputs[0].is_constant:
                self._join(node.output, node.inputs[0], 0)
                self.idle.add(id(node))

    def share_parts(self) -> None:
        for run in self.runs:
            if len(run) == 1:
                self._share_part(run[0])

    def _nodes(self) -> Iterator[Node]:
        for run in self.runs:
            yield from run

    def _share_part(self, node: Node) -> None:
        if len(node.outputs) != 1 or (node.output.type.dtype.bits % 8 and node.output.type.dtype is not BOOL):
            return
        match node.op:
            case Concat():
                self._share_concat(node, node.op.axis)
            case Slice():
                self._share_slice(node, node.op)
            case _:
                pass

    def share_in_place(self) -> None:
        for index, run in enumerate(self.runs):
            for node in run:
                if id(node) not in self.idle:
                    self._share_operand(index, node)

    def _share_operand(self, index: int, node: Node) -> None:
        for operand in overwritable(node, self.sharing.overwriting):
            if self._may_overwrite(index, node, operand):
                self._join(node.output, operand, 0)
                return

    def result(self) -> StorageMap:
        places: dict[int, Place] = {}
        storages: list[Storage] = []
        for value in activations(self.graph):
            if id(value) in places:
                continue
            group = self._group[id(value)]
            for member in group:
                places[id(member)] = Place(len(storages), self._offset[id(member)])
            storages.append(self._storage(group))
        return StorageMap(tuple(storages), places, frozenset(self.idle))

    def _storage(self, group: list[Value]) -> Storage:
        whole = self.lifetimes[id(group[0])]
        for member in group:
            whole |= self.lifetimes[id(member)]
        if any(id(member) in self._states for member in group):
            whole = Lifetime(-1, len(self.runs))
        return Storage(tuple(group), self._size(group), whole)

    def _size(self, group: list[Value]) -> int:
        return max(self._offset[id(v)] + v.type.size_bytes for v in group)

    def _join(self, value: Value, other: Value, offset: int) -> None:
        """Let `value` start `offset` bytes after `other`, whose groups become one."""
        ours, theirs = self._group[id(value)], self._group[id(other)]
        assert ours is not theirs
        shift = self._offset[id(other)] + offset - self._offset[id(value)]
        for member in ours:
            self._offset[id(member)] += shift
        theirs.extend(ours)
        for member in ours:
            self._group[id(member)] = theirs
        lowest = min(self._offset[id(member)] for member in theirs)
        for member in theirs:
            self._offset[id(member)] -= lowest

    def _fills(self, value: Value) -> bool:
        """True iff the value is all of its group's memory, and no state's."""
        group = self._group[id(value)]
        is_all = self._offset[id(value)] == 0 and self._size(group) == value.type.size_bytes
        return is_all and not any(id(member) in self._states for member in group)

    def _share_concat(self, node: Node, axis: int) -> None:
        """Operands are computed where the result wants them, if they follow each other in memory."""
        result = node.output
        if math.prod(result.type.shape[:axis]) != 1 or any(v.is_constant or not self._fills(v) for v in node.inputs):
            return
        groups = {id(self._group[id(v)]) for v in (*node.inputs, result)}
        if not self._in_one_memory(*node.inputs, result):
            return
        offsets = [0]
        for operand in node.inputs:
            offsets.append(offsets[-1] + operand.type.size_bytes)
        if len(groups) != len(node.inputs) + 1 or any(offset % VIEW_ALIGNMENT for offset in offsets[:-1]):
            return
        for operand, offset in zip(node.inputs, offsets, strict=False):
            self._join(operand, result, offset)
        self.idle.add(id(node))

    def _share_slice(self, node: Node, op: Slice) -> None:
        """A slice without gaps is part of its operand."""
        operand = node.inputs[0]
        offset = contiguous_offset(op, operand)
        if operand.is_constant or offset is None or offset % VIEW_ALIGNMENT:
            return
        if not self._in_one_memory(operand, node.output):
            return
        if self._group[id(node.output)] is self._group[id(operand)] or not self._fills(node.output):
            return
        self._join(node.output, operand, offset)
        self.idle.add(id(node))

    def _may_overwrite(self, index: int, node: Node, operand: Value) -> bool:
        """True iff the result of a node of run `index` may be written over `operand`, element by element."""
        result = node.output
        group = self._group[id(operand)]
        if not self._fills(operand) or group is self._group[id(result)] or not self._in_one_memory(operand, result):
            return False
        if any(v is not operand and self._shares(v, operand) for v in node.inputs):
            return False
        return self._is_last_use(index, node, group) and self._is_first_write(index, result)

    def _is_last_use(self, index: int, node: Node, group: list[Value]) -> bool:
        """True iff nobody reads the group once `node` has written a row of it.

        In a run of several nodes others may lag behind, so there must be no reader but the node and those whose own
        results already lie in the group, and the group must not exist before the run.
        """
        if any(self.lifetimes[id(v)].death > index for v in group):
            return False
        if len(self.runs[index]) == 1:
            return True
        readers = {id(use.node) for v in group for use in v.uses} - self.idle
        writers = {id(v.producer) for v in group if v.producer is not None}
        return readers - writers == {id(node)} and all(self.lifetimes[id(v)].birth == index for v in group)

    def _is_first_write(self, index: int, result: Value) -> bool:
        """True iff nothing is in the bytes of `result` before run `index`."""
        start = self._offset[id(result)]
        members = self._overlapping(result, start, start + result.type.size_bytes)
        return all(self.lifetimes[id(v)].birth >= index for v in members)

    def _overlapping(self, value: Value, start: int, stop: int) -> Iterator[Value]:
        """Members of the value's group that have bytes in [start, stop)."""
        for member in self._group[id(value)]:
            offset = self._offset[id(member)]
            if offset < stop and start < offset + member.type.size_bytes:
                yield member

    def _in_one_memory(self, *values: Value) -> bool:
        return len({id(value) in self.sharing.slow for value in values}) == 1

    def _shares(self, value: Value, operand: Value) -> bool:
        return not value.is_constant and self._group[id(value)] is self._group[id(operand)]


def overwritable(node: Node, overwriting: frozenset[int]) -> tuple[Value, ...]:
    """The operands over which the node's result may be written as it is made, best first."""
    if len(node.outputs) != 1 or not (node.op.reuses_input or id(node) in overwriting):
        return ()
    count = 2 if node.op.reuses_input and node.op.commutative else 1
    return tuple(
        value
        for value in node.inputs[:count]
        if not value.is_constant
        and not any(value is other for other in node.inputs[count:])
        and value.type.shape == node.output.type.shape
        and value.type.size_bytes == node.output.type.size_bytes
    )


def contiguous_offset(op: Slice, operand: Value) -> int | None:
    """Where a slice starts in its operand's bytes, or None if its elements do not follow each other.

    Elements are whole bytes.
    """
    shape = operand.type.shape
    if any(step != 1 and size > 1 for step, size in zip(op.steps, op.sizes, strict=True)):
        return None
    partial = [axis for axis, size in enumerate(op.sizes) if size != shape[axis]]
    if partial and any(op.sizes[axis] != 1 for axis in range(partial[-1])):
        return None
    elements = sum(start * math.prod(shape[axis + 1 :]) for axis, start in enumerate(op.starts))
    return operand.type.dtype.size_bytes(elements)
