"""The functional simulator: what a program computes, pass by pass, exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from trivet.backends.tpu.epilogue import Epilogue, MachineTrap, within_int32
from trivet.backends.tpu.ir import (
    ACC,
    EPILOGUE,
    FIRST,
    ROW,
    ROWS,
    TILE,
    ArrayLayer,
    DequantizeLayer,
    Ints,
    K,
    Layer,
    N,
    Program,
    QuantizeLayer,
    QuotientLayer,
    Reduce,
    SoftmaxLayer,
    VectorLayer,
)
from trivet.backends.tpu.memory import Memory
from trivet.backends.tpu.scalar import dequantized, quantized, quotients, softmax
from trivet.errors import InvalidModel
from trivet.ir.op import Array

WHOLE_VIEW_ELEMENTS = 1 << 21
"""Views up to this size are gathered once for all passes of a layer."""

BLOCK_ELEMENTS = 1 << 20
"""Elements that the vector unit's simulation holds at a time."""

Observe = Callable[[Layer, Array], None]
"""Gets every layer and the whole of the buffer that it has written to."""


def execute(program: Program, inputs: Sequence[Array], observe: Observe | None = None) -> list[Array]:
    """Outputs of a first run for inputs, both in storage order.

    Raises: InvalidModel where an input has the wrong shape or type, MachineTrap where a value leaves its type.
    """
    return run(program, inputs, None, observe)[0]


def run(
    program: Program, inputs: Sequence[Array], states: Mapping[int, Array] | None, observe: Observe | None = None
) -> tuple[list[Array], dict[int, Array]]:
    """Outputs for inputs, and what the state buffers hold afterwards; `states` None: a first run.

    Raises: InvalidModel where an input has the wrong shape or type, MachineTrap where a value leaves its type.
    """
    memory = Memory(program, states)
    _put_inputs(program, memory, inputs)
    for index, layer in enumerate(program.layers):
        try:
            _run_layer(program, memory, layer)
        except MachineTrap as trap:
            raise MachineTrap(trap.message, where=f"layer {index} '{layer.name}'") from None
        if observe is not None:
            observe(layer, memory.array(layer.target.buffer).copy())
    outputs = [memory.array(port.buffer).reshape(port.shape).copy() for port in program.outputs]
    return outputs, {index: memory.array(index).copy() for index in program.states}


def _put_inputs(program: Program, memory: Memory, inputs: Sequence[Array]) -> None:
    if len(inputs) != len(program.inputs):
        raise InvalidModel(f"the schedule has {len(program.inputs)} inputs, got {len(inputs)}", where=program.name)
    for port, array in zip(program.inputs, inputs, strict=True):
        wanted = program.buffers[port.buffer].dtype
        if array.shape != port.shape or array.dtype != wanted.numpy:
            raise InvalidModel(
                f"input '{port.name}' is {wanted.name}{list(port.shape)}, got {array.dtype}{list(array.shape)}"
            )
        memory.array(port.buffer)[:] = array.reshape(-1)


def _run_layer(program: Program, memory: Memory, layer: Layer) -> None:
    match layer:
        case ArrayLayer():
            _ArrayRun(program, memory, layer).run()
        case VectorLayer():
            _run_vector(program, memory, layer)
        case SoftmaxLayer() | QuotientLayer():
            _run_softmax(program, memory, layer)
        case QuantizeLayer():
            x = memory.gather(layer.a, slice(None), slice(None))
            _store(memory, layer, 0, 0, quantized(x, layer, program.buffers[layer.target.buffer].dtype))
        case DequantizeLayer():
            memory.put(layer.target, dequantized(memory.gather(layer.a, slice(None), slice(None)), layer))


def _run_softmax(program: Program, memory: Memory, layer: SoftmaxLayer | QuotientLayer) -> None:
    powers = program.parameters[layer.table : layer.table + 256].astype(np.int64)
    block = max(1, BLOCK_ELEMENTS // layer.columns)
    for row in range(0, layer.a.rows, block):
        x = memory.gather(layer.a, slice(row, row + block), slice(None)).astype(np.int64)
        if isinstance(layer, SoftmaxLayer):
            y = softmax(x, powers)
        else:
            y = quotients(x, powers, layer, program.buffers[layer.target.buffer].dtype)
        _store(memory, layer, row, 0, y)


def _store(memory: Memory, layer: Layer, row: int, column: int, values: Ints) -> None:
    if not memory.store(layer.target, row, column, values):
        raise MachineTrap("a result does not fit the element type of its buffer")


def _run_vector(program: Program, memory: Memory, layer: VectorLayer) -> None:
    view = layer.a
    epilogue = Epilogue(program, memory, layer.epilogue, layer.columns)
    block = max(1, BLOCK_ELEMENTS // max(1, view.columns))
    for row in range(0, view.rows, block):
        count = min(block, view.rows - row)
        taps = memory.gather(view, slice(row, row + count), slice(None)).reshape(count, view.taps, view.channels)
        wide = taps.astype(np.int64)
        values = wide.sum(axis=1) if layer.reduce is Reduce.SUM else wide.max(axis=1)
        within_int32(values, "a sum over a window")
        _store(memory, layer, row, 0, epilogue.apply(values, row, 0))


class _ArrayRun:
    """One layer on the array.

    A product of two bytes has 14 bits, so float32 adds up to N of them exactly.
    """

    def __init__(self, program: Program, memory: Memory, layer: ArrayLayer) -> None:
        self.layer, self.memory, self.size = layer, memory, program.machine.array
        self.accumulators = np.zeros((program.machine.accumulator_rows, self.size), np.int64)
        self.epilogue = Epilogue(program, memory, layer.epilogue, layer.columns)
        small = layer.a.rows * layer.a.columns <= WHOLE_VIEW_ELEMENTS
        self.a = memory.gather(layer.a, slice(None), slice(None)).astype(np.float32) if small else None
        self.tiles = self._tiles(program)
        passes = len(layer.passes)
        self.may_overflow = passes * self.size << 14 > np.iinfo(np.int32).max

    def run(self) -> None:
        for step in self.layer.passes.tolist():
            row, rows = step[ROW], step[ROWS]
            sums = self._accumulate(step) if step[K] >= 0 else np.zeros((rows, self.size), np.int64)
            if step[EPILOGUE]:
                column = step[N]
                lanes = min(self.size, self.layer.columns - column)
                _store(self.memory, self.layer, row, column, self.epilogue.apply(sums[:, :lanes], row, column))

    def _accumulate(self, step: list[int]) -> Ints:
        k, rows = step[K], slice(step[ROW], step[ROW] + step[ROWS])
        a = self.a[rows, k : k + self.size] if self.a is not None else self._part(rows, k)
        tile = self.tiles[step[TILE]] if step[TILE] >= 0 else self._tile_of_b(k, step[N])
        product = (a @ tile[: a.shape[1]]).astype(np.int64)
        sums = self.accumulators[step[ACC] : step[ACC] + step[ROWS]]
        if step[FIRST]:
            sums[:] = product
        else:
            sums += product
            if self.may_overflow:
                within_int32(sums, "an accumulator")
        return sums

    def _part(self, rows: slice, k: int) -> Array:
        return self.memory.gather(self.layer.a, rows, slice(k, k + self.size)).astype(np.float32)

    def _tiles(self, program: Program) -> Array:
        """The tiles of the layer's passes, at their own indices."""
        used = self.layer.passes[:, TILE]
        stop = int(used.max(initial=-1)) + 1
        start = int(used[used >= 0].min(initial=stop))
        tiles = np.zeros((stop, self.size, self.size), np.float32)
        tiles[start:] = program.tiles[start:stop]
        return tiles

    def _tile_of_b(self, k: int, n: int) -> Array:
        """The tile of B at (k, n), zeros beyond its edges."""
        assert self.layer.b is not None
        part = self.memory.gather(self.layer.b, slice(k, k + self.size), slice(n, n + self.size))
        tile = np.zeros((self.size, self.size), np.float32)
        tile[: part.shape[0], : part.shape[1]] = part
        return tile
