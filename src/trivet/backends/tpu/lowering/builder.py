"""What lowerings build a program with: buffers, tiles, parameters, layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trivet.backends.table import KernelTable
from trivet.backends.tpu.ir import ELEMENTS, Buffer, Layer, Port, Program, Reduce, Target, VectorLayer, View
from trivet.backends.tpu.machine import Machine
from trivet.ir.graph import Graph, State, Value
from trivet.ir.graph import Port as ModelPort
from trivet.ir.op import Array, Op
from trivet.ops import activation as a
from trivet.ops import elementwise as e
from trivet.ops import mathematics as f
from trivet.ops import movement as m
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.matmul import Dense, MatMul
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.ops.reduce import Mean
from trivet.ops.resize import ResizeNearest
from trivet.ops.softmax import Softmax

ALIGNMENT = 4
"""Of buffers, so that int32 elements are whole words of one address."""


class Builder:
    """A program under construction. Values are matched to buffers by identity; a view of a value shares its buffer."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.layers: list[Layer] = []
        self._buffers: list[Buffer] = []
        self._constants: dict[int, Array] = {}
        self._states: dict[int, Array] = {}
        self._of_value: dict[int, int] = {}
        self._values: list[Value] = []
        self._tiles: list[npt.NDArray[np.int8]] = []
        self._parameters: list[int] = []
        self._end = 0

    def buffer(self, value: Value) -> int:
        """The buffer that holds a value; a constant gets one that is filled before a run."""
        index = self._of_value.get(id(value))
        if index is None:
            index = self.define(value)
            if value.data is not None:
                self._constants[index] = value.data.reshape(-1)
        return index

    def define(self, value: Value) -> int:
        """A new buffer for a value that is about to be written."""
        dtype = value.type.dtype
        assert dtype.name in ELEMENTS, f"{value!r} cannot be in the activation memory"
        buffer = Buffer(value.name or f"v{len(self._buffers)}", dtype, value.type.elements, self._end)
        self._end = -(-buffer.end // ALIGNMENT) * ALIGNMENT
        self._buffers.append(buffer)
        self._of_value[id(value)] = len(self._buffers) - 1
        self._values.append(value)
        return len(self._buffers) - 1

    def define_state(self, state: State) -> int:
        """The buffer that a state is read from, with what it holds before the first run."""
        index = self.define(state.read)
        self._states[index] = state.initial.reshape(-1)
        return index

    def detach_from_states(self, value: Value) -> None:
        """An output must not be in a state's buffer, which holds the next state when the run has ended."""
        source = self.buffer(value)
        if source in self._states:
            view = View.matrix(source, 1, value.type.elements)
            target = Target.matrix(self.define(value), 1, view.columns)
            self.add(VectorLayer(f"{value.name}.output", view, Reduce.SUM, (), target))

    def keep_state(self, state: State, buffer: int) -> None:
        """A copy of what is written to a state into the buffer that the next run reads."""
        source = self.buffer(state.written)
        if state.written is not state.read and source != buffer:
            view = View.matrix(source, 1, state.read.type.elements)
            target = Target.matrix(buffer, 1, view.columns)
            self.add(VectorLayer(f"{state.read.name}.next", view, Reduce.SUM, (), target))

    def alias(self, value: Value, of: Value) -> None:
        """`value` is the bytes of `of` under another shape."""
        self._of_value[id(value)] = self.buffer(of)

    def flat(self, value: Value) -> View:
        """The whole of a value as one row."""
        return View.matrix(self.buffer(value), 1, value.type.elements)

    def matrix(self, value: Value, columns: int) -> View:
        """The whole of a value as rows of `columns` elements."""
        return View.matrix(self.buffer(value), value.type.elements // columns if columns else 0, columns)

    def parameters(self, words: Sequence[int] | Array) -> int:
        """The address of new words in the parameter memory."""
        at = len(self._parameters)
        self._parameters.extend(int(word) for word in words)
        return at

    def doubles(self, values: npt.NDArray[np.float64]) -> int:
        """The address of new float64 numbers, two words each, the lower one first."""
        return self.parameters(values.astype("<f8").view("<i4"))

    def tile(self, data: npt.NDArray[np.int8]) -> int:
        """The index of a new weight tile [N, N]."""
        self._tiles.append(data)
        return len(self._tiles) - 1

    def add(self, layer: Layer) -> None:
        self.layers.append(layer)

    def finish(self, graph: Graph) -> Program:
        """The program, when all nodes are lowered."""
        array = self.machine.array
        tiles = np.stack(self._tiles) if self._tiles else np.zeros((0, array, array), np.int8)
        outputs = [self._port(v, p) for v, p in zip(graph.outputs, graph.output_ports, strict=True)]
        return Program(
            self.name,
            self.machine,
            self._buffers,
            self._constants,
            self._states,
            tiles,
            np.array(self._parameters, np.int32),
            [self._port(v, p) for v, p in zip(graph.inputs, graph.input_ports, strict=True)],
            outputs,
            self.layers,
        )

    def _port(self, value: Value, port: ModelPort) -> Port:
        quant = value.type.quant
        scale, zero_point = (None, 0) if quant is None else (quant.scale, quant.zero_point)
        accepts = None if port.accepts is None else (port.accepts.lo, port.accepts.hi)
        return Port(port.name, self.buffer(value), value.type.shape, port.perm, accepts, scale, zero_point)


TABLES: tuple[type[Op], ...] = (
    a.Lookup, a.Logistic, a.Tanh, a.HardSwish, f.Abs, a.LeakyRelu, a.Elu, a.Gelu, f.Exp, f.Rsqrt, a.HardSigmoid,
    a.Clamp, Requantize,
)  # fmt: skip
"""Functions of one value, which are tables where it has 8 bits."""

Lower = Callable[[Builder], None]
"""Adds the layers of one node."""

FAMILIES: Mapping[str, Sequence[type[Op]]] = {
    "elementwise": (a.Relu, *TABLES, e.Add, e.Sub, e.Mul, e.Minimum, e.Maximum, Softmax),
    "floats": (Quantize, Dequantize),
    "movement": (m.Reshape, m.Transpose, m.Slice, m.Expand, m.Concat, m.Pad, ResizeNearest),
    "pools": (MaxPool2D, AveragePool2D, Mean),
    "products": (MatMul, Dense),
    "convolutions": (Conv2D, DepthwiseConv2D),
}
"""The operators that each file of this package lowers."""

LOWERINGS: KernelTable[Lower] = KernelTable(
    "tpu", {f"trivet.backends.tpu.lowering.{family}": ops for family, ops in FAMILIES.items()}
)
"""A kernel here raises Unsupported with its reason where the operator has a lowering that does not take this node."""
