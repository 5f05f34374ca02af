"""Runs a plan byte by byte in a poisoned arena, with the operators' own meaning in place of kernels.

An overlap that matters, a ring too shallow or a step too early puts garbage into the result, so comparing with the
interpreter shows it. Work spaces are filled with garbage whenever a kernel might write them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trivet.core.access import Span
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array, Region
from trivet.planning.plan import ExecutionPlan, Transfer
from trivet.planning.replay import Firing, firings, operand_rows, pieces, result_rows

Bytes = npt.NDArray[np.uint8]


def simulate(
    plan: ExecutionPlan, inputs: Sequence[Array], states: Sequence[Array] | None = None, seed: int = 0
) -> tuple[list[Array], list[Array]]:
    """Outputs and next states for `inputs` (storage order), as the interpreter gives them.

    Raises: Deadlock.
    """
    machine = _Machine(plan, seed)
    graph = plan.graph
    current = [state.initial for state in graph.states] if states is None else states
    for value, array in zip(graph.inputs, inputs, strict=True):
        machine.write(value, array)
    for state, array in zip(graph.states, current, strict=True):
        machine.write(state.read, array)
    for stage in plan.stages:
        machine.copy(stage.loads)
        for stream in stage.streams:
            for firing in firings(plan, stream):
                machine.fire(firing)
        machine.copy(stage.stores)
    return [machine.result(v) for v in graph.outputs], [machine.result(state.read) for state in graph.states]


class _Machine:
    """The regions of a plan as bytes, poisoned at first."""

    def __init__(self, plan: ExecutionPlan, seed: int) -> None:
        self.plan = plan
        self.random = np.random.default_rng(seed)
        self.memory: dict[str, Bytes] = {r.name: self._garbage(plan.region_bytes(r.name)) for r in plan.regions}
        self.collected: dict[int, Array] = {}

    def fire(self, firing: Firing) -> None:
        """One kernel call: read, scribble over the work space, write."""
        step, node = firing.step, firing.step.node
        if step.accumulates:
            self._collect(firing)
            operands = [self.collected[id(node)], *(self._read(v) for v in node.inputs[1:])]
        else:
            operands = [
                self._read(v, None if v.is_constant else operand_rows(self.plan, firing, i))
                for i, v in enumerate(node.inputs)
            ]
        if step.scratch is not None:
            buffer = self.plan.buffers[step.scratch]
            span = slice(buffer.offset, buffer.offset + buffer.size_bytes)
            self.memory[buffer.region][span] = self._garbage(buffer.size_bytes)
        if step.accumulates and not firing.is_last:
            return
        rows = result_rows(self.plan, firing, node.outputs[0])
        for value, array in zip(node.outputs, compute(node, operands, rows), strict=True):
            self.write(value, array, rows)

    def write(self, value: Value, array: Array, rows: range | None = None) -> None:
        """Put rows of a tensor (all: None) where its view says; `array` is the whole tensor."""
        data = to_bytes(value, array)
        for piece in pieces(self.plan, value, range(self.plan.view(value).height) if rows is None else rows):
            self._memory_of(value)[piece.memory] = data[piece.tensor]

    def result(self, value: Value) -> Array:
        return self._read(value)

    def copy(self, transfers: Sequence[Transfer]) -> None:
        for transfer in transfers:
            size = transfer.value.type.size_bytes
            source, target = self.plan.buffers[transfer.source.buffer], self.plan.buffers[transfer.target.buffer]
            start, stop = source.offset + transfer.source.offset, target.offset + transfer.target.offset
            self.memory[target.region][stop : stop + size] = self.memory[source.region][start : start + size].copy()

    def _read(self, value: Value, rows: range | None = None) -> Array:
        """A whole tensor, of which `rows` (all: None) come from memory and the rest is garbage."""
        if value.data is not None:
            return value.data
        data = self._garbage(value.type.size_bytes)
        for piece in pieces(self.plan, value, range(self.plan.view(value).height) if rows is None else rows):
            data[piece.tensor] = self._memory_of(value)[piece.memory]
        return from_bytes(value, data)

    def _collect(self, firing: Firing) -> None:
        """Remember the rows that an accumulating step has seen."""
        node = firing.step.node
        if firing.start == 0:
            self.collected[id(node)] = np.zeros(node.inputs[0].type.shape, node.inputs[0].type.dtype.numpy)
        rows = operand_rows(self.plan, firing, 0)
        seen = self._read(node.inputs[0], rows)
        self.collected[id(node)][:, rows.start : rows.stop] = seen[:, rows.start : rows.stop]

    def _memory_of(self, value: Value) -> Bytes:
        return self.memory[self.plan.buffers[self.plan.view(value).buffer].region]

    def _garbage(self, size: int) -> Bytes:
        return self.random.integers(0, 256, size, np.uint8)


def compute(node: Node, operands: Sequence[Array], rows: range) -> tuple[Array, ...]:
    """Whole results of a node of which only `rows` matter; the operator's own tile does it where there is one."""
    shape = node.outputs[0].type.shape
    if len(shape) == 4 and len(rows) < shape[1] and len(node.outputs) == 1:
        region = (Span(0, shape[0]), Span(rows.start, rows.stop), Span(0, shape[2]), Span(0, shape[3]))
        tiled = _compute_tile(node, operands, region)
        if tiled is not None:
            whole = np.zeros(shape, tiled.dtype)
            whole[:, rows.start : rows.stop] = tiled
            return (whole,)
    return node.op.evaluate(tuple(operands), node.input_types)


def _compute_tile(node: Node, operands: Sequence[Array], region: Region) -> Array | None:
    tile = node.op.tile(node.input_types, region)
    if tile is None or any(span.size == 0 for spans in tile.regions for span in spans):
        return None
    cut = [
        np.ascontiguousarray(array[tuple(slice(span.start, span.stop) for span in spans)])
        for array, spans in zip(operands, tile.regions, strict=True)
    ]
    types = tuple(t.with_shape(a.shape) for t, a in zip(node.input_types, cut, strict=True))
    return tile.op.evaluate(tuple(cut), types)[0]


def to_bytes(value: Value, array: Array) -> Bytes:
    """The bytes of a tensor as they lie in memory; elements under 8 bits are packed, the low half first."""
    flat = np.ascontiguousarray(array, value.type.dtype.numpy).reshape(-1)
    if value.type.dtype.bits != 4:
        return flat.view(np.uint8)
    nibbles = np.append(flat.view(np.uint8) & 15, np.zeros(flat.size % 2, np.uint8)).reshape(-1, 2)
    packed: Bytes = nibbles[:, 0] | nibbles[:, 1] << 4
    return packed


def from_bytes(value: Value, data: Bytes) -> Array:
    """The inverse of `to_bytes`."""
    dtype, shape = value.type.dtype, value.type.shape
    if dtype.bits == 1:
        return (data & 1).astype(np.bool_).reshape(shape)
    if dtype.bits != 4:
        return data.view(dtype.numpy).reshape(shape)
    nibbles = np.stack([data & 15, data >> 4], axis=1).reshape(-1)[: value.type.elements].astype(np.int8)
    signed = np.where(nibbles > 7, nibbles - 16, nibbles) if dtype.min < 0 else nibbles
    return signed.astype(dtype.numpy).reshape(shape)
