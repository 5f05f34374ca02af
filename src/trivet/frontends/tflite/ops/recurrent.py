"""Recurrent layers, whose states are variable tensors of the file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I16, I32, I64
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.activations import RELU, RELU6, RELU_N1_TO_1
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.tensors import model_type
from trivet.ir.graph import Value
from trivet.ir.types import TensorType
from trivet.ops.movement import Concat, Reshape, Transpose
from trivet.ops.recurrent import CellFunction, Lstm
from trivet.ops.recurrent_stored import QuantizedLstm, Svdf

_INPUTS, _STATES, _PEEPHOLES, _BIASES = range(1, 5), range(5, 9), range(9, 12), range(12, 16)
"""Operands of gates in the order input, forget, candidate, output."""
_PROJECTION, _HIDDEN, _CELL, _NORMS = (16, 17), 18, 19, range(20, 24)
_FILE_ORDER, _FLOAT_ORDER = (0, 1, 2, 3), (0, 3, 1, 2)
_FUNCTIONS = {0: CellFunction.AFFINE, 1: CellFunction.RELU, 4: CellFunction.TANH, 6: CellFunction.SIGMOID}
_RELUS = {0: (-math.inf, math.inf), RELU: (0.0, math.inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
_HINT = "export the layer without it, or as a plain graph (Keras: unroll=True)"


def sequence_lstm(op: Conversion) -> None:
    """x: [N, T, I], or [T, N, I] with `time_major`; four gates, each with weights for the operand and the state."""
    for indices, what in ((_PROJECTION, "a projection"), (_NORMS, "layer normalization")):
        if any(op.optional(i) is not None for i in indices):
            raise Unsupported(f"an LSTM with {what}", hint=_HINT)
    if op.optional(1) is None or op.optional(5) is None:
        raise Unsupported("an LSTM whose input and forget gates are coupled", hint=_HINT)
    x = op.operand(0)
    if x.type.rank != 3 or x.type.elements == 0:
        raise InvalidModel(f"x must be [N, T, I] or [T, N, I], got {x.type}")
    hidden, cell = state(op, _HIDDEN), state(op, _CELL)
    sequence = x if op.flag("time_major") else _swapped(op, x)
    layer = _float_lstm if x.type.dtype is F32 else _stored_lstm
    y, next_hidden, next_cell = layer(op, sequence, hidden, cell)
    keep(op, hidden, next_hidden)
    keep(op, cell, next_cell)
    op.result(y if op.flag("time_major") else _swapped(op, y))


def _swapped(op: Conversion, x: Value) -> Value:
    """The first two axes in the other order."""
    batch, steps, features = x.type.shape
    if min(batch, steps) == 1:
        return op.emit(Reshape((steps, batch, features)), x)
    return op.emit(Transpose((1, 0, 2)), x)


def state(op: Conversion, index: int) -> Value:
    """A variable tensor as a state, which starts as real zeros.

    Raises: InvalidModel.
    """
    if index >= len(op.record.inputs) or op.record.inputs[index] < 0:
        raise InvalidModel(f"operand {index} (a state) is missing")
    number = op.record.inputs[index]
    found = op.scope.values.get(number)
    if found is None:
        tensor = op.scope.subgraph.tensors[number]
        type_ = model_type(tensor)
        zero = 0 if type_.quant is None else type_.quant.zero_point
        data = np.full(type_.shape, zero, type_.dtype.numpy)
        found = op.scope.values[number] = op.scope.graph.add_state(tensor.name, type_, data)
    return found


def keep(op: Conversion, before: Value, after: Value) -> None:
    """Let a state hold `after` when the next invocation starts.

    Raises: Unsupported.
    """
    if not any(entry.read is before and entry.written is before for entry in op.scope.graph.states):
        raise Unsupported(f"the state '{before.name}' has two writers", hint=_HINT)
    op.scope.graph.set_state(before, after)


def _float_lstm(op: Conversion, x: Value, hidden: Value, cell: Value) -> tuple[Value, ...]:
    code = op.integer("activation")
    if code not in _FUNCTIONS:
        raise Unsupported(f"activation {code} of an LSTM; accepted are TANH, SIGMOID, RELU and none")
    if any(op.operand(i).type.dtype is not F32 for i in (*_INPUTS, *_STATES)):
        raise Unsupported("LSTM weights of another type than the activations", hint="convert without quantization")
    function = _FUNCTIONS[code]
    functions = (CellFunction.SIGMOID, function, function)
    alphas = (0.0, *(1.0 if function is CellFunction.AFFINE else 0.0 for _ in range(2)))
    limit = _clip(op)
    lstm = Lstm(functions, alphas, (0.0, 0.0, 0.0), cell_clip=limit)
    operands = [x, *(_joined(op, indices, _FLOAT_ORDER) for indices in (_INPUTS, _STATES, _BIASES)), hidden, cell]
    if any(op.optional(i) is not None for i in _PEEPHOLES):
        operands.append(_joined(op, _PEEPHOLES, (0, 2, 1)))
    return op.emit_all(lstm, *operands)


def _clip(op: Conversion) -> float:
    limit = op.real("cell_clip")
    if limit < 0 or op.real("proj_clip") < 0:
        raise InvalidModel(f"cell_clip {limit}")
    return limit


def _joined(op: Conversion, indices: Sequence[int], order: Sequence[int]) -> Value:
    """Operands one after the other along their first axis."""
    return op.emit(Concat(0), *(op.operand(indices[place]) for place in order))


def _stored_lstm(op: Conversion, x: Value, hidden: Value, cell: Value) -> tuple[Value, ...]:
    if any(op.optional(i) is not None for i in _PEEPHOLES):
        raise Unsupported("a quantized LSTM with peepholes", hint=_HINT)
    if cell.type.dtype is not I16 or x.type.dtype not in (I8, I16) or hidden.type.quant is None:
        raise Unsupported(f"an LSTM of {x.type} with a cell of {cell.type}", hint="quantize to int8 or int16")
    numerics = Numerics.LITERT if op.contract.is_litert and x.type.dtype is I8 else Numerics.TFLM
    out = hidden.type.quant
    if numerics is Numerics.LITERT and len(op.record.intermediates) > 4:
        declared = model_type(op.scope.subgraph.tensors[op.record.intermediates[4]]).quant
        out = out if declared is None else declared
    lstm = QuantizedLstm(out, numerics, _clip(op))
    weights = [_stored_weights(op, indices) for indices in (_INPUTS, _STATES)]
    return op.emit_all(lstm, x, *weights, _stored_bias(op), hidden, cell)


def _stored_weights(op: Conversion, indices: Sequence[int]) -> Value:
    """int8 weights of all gates, each row with its gate's scale."""
    gates = [op.operand(index) for index in indices]
    data = np.concatenate([op.constant(index) for index in indices])
    scales: list[float] = []
    for gate in gates:
        if gate.type.dtype is not I8 or gate.type.quant is None or not gate.type.quant.is_per_tensor:
            raise Unsupported(f"LSTM weights '{gate.name}' {gate.type}", hint="quantize weights to int8 with one scale")
        scales += [gate.type.quant.scale] * gate.type.shape[0]
    quant = Quant.per_axis(scales, [0] * len(scales), 0)
    return op.plain(data, TensorType(I8, data.shape, quant), gates[0].name)


def _stored_bias(op: Conversion) -> Value:
    parts = [op.constant(index) for index in _BIASES]
    if len({part.dtype for part in parts}) != 1 or parts[0].dtype not in (I32.numpy, I64.numpy):
        raise Unsupported("LSTM biases that are no int32 or int64")
    data = np.concatenate(parts)
    dtype = I32 if data.dtype == I32.numpy else I64
    return op.plain(data, TensorType(dtype, data.shape))


def svdf(op: Conversion) -> None:
    """x: [N, I], filters over features [F, I], filters over time [F, M], bias [F/rank] (optional), state [N, F*M]."""
    x, features, times = op.operand(0), op.operand(1), op.operand(2)
    rank, memory = op.integer("rank"), state(op, 4)
    if rank < 1 or times.type.rank != 2 or times.type.shape[0] % rank:
        raise InvalidModel(f"rank {rank} with filters {times.type}")
    code = op.integer("activation")
    if code not in _RELUS:
        raise Unsupported(f"activation {code} of SVDF; accepted are RELU, RELU6, RELU_N1_TO_1 and none")
    units = times.type.shape[0] // rank
    is_float = x.type.dtype is F32
    if is_float and features.type.dtype is not F32:
        raise Unsupported("SVDF filters of another type than the activations", hint="convert without quantization")
    bias = op.optional(3)
    if bias is None:
        dtype = F32 if is_float else I32
        bias = op.plain(np.zeros(units, dtype.numpy), TensorType(dtype, (units,)))
    elif bias.type.quant is not None:
        bias = op.retyped(bias, TensorType(bias.type.dtype, bias.type.shape))
    flat = x if x.type.rank == 2 else op.emit(Reshape((memory.type.shape[0], features.type.shape[-1])), x)
    if is_float:
        layer = Svdf(rank, Bounds(*_RELUS[code]))
    else:
        layer = Svdf(rank, out=op.out, numerics=Numerics.LITERT if op.contract.is_litert else Numerics.TFLM)
    y, after = op.emit_all(layer, flat, features, times, bias, memory)
    keep(op, memory, after)
    op.result(y)


CONVERTERS: dict[str, Converter] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": sequence_lstm, "SVDF": svdf}
