"""Makes small TensorFlow Lite models in memory, over the `tflite` package's schema, and runs them in the references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import flatbuffers
import numpy as np
import tflite

TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.float16): tflite.TensorType.FLOAT16,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
    np.dtype(np.int16): tflite.TensorType.INT16,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.int64): tflite.TensorType.INT64,
    np.dtype(np.bool_): tflite.TensorType.BOOL,
}
"""Tensor types by array type; pass `type_code` for those that numpy lacks (INT4)."""

FieldValue = int | float | bool | Sequence[int]


@dataclass
class _Tensor:
    name: str
    shape: tuple[int, ...]
    type_code: int
    data: bytes | None
    scales: np.ndarray | None
    zero_points: np.ndarray | None
    axis: int
    variable: bool


@dataclass
class _Operator:
    code: int
    version: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: str | None
    fields: dict[str, FieldValue]
    custom_code: str | None
    custom_options: bytes | None
    intermediates: Sequence[int]


@dataclass
class ModelBuilder:
    """One subgraph. Add tensors and operators, then `finish`; ids are tensor indices, -1 an absent operand.

    >>> m = ModelBuilder()
    >>> x, y = m.tensor("x", (1, 4), np.int8, scale=0.1), m.tensor("y", (1, 4), np.int8, scale=0.1)
    >>> m.operator("RELU", [x], [y])
    >>> model = m.finish([x], [y])
    """

    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        *,
        scale: float | np.ndarray | None = None,
        zero_point: int | np.ndarray = 0,
        axis: int = 0,
        data: np.typing.ArrayLike | None = None,
        variable: bool = False,
        type_code: int | None = None,
    ) -> int:
        """Add a tensor, with `data` a constant; several scales quantize per `axis`."""
        scales = None if scale is None else np.atleast_1d(np.asarray(scale, np.float32))
        zeros = None if scales is None else np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
        content = None if data is None else np.ascontiguousarray(data, dtype).tobytes()
        code = TYPES[np.dtype(dtype)] if type_code is None else type_code
        self.tensors.append(_Tensor(name, tuple(shape), code, content, scales, zeros, axis, variable))
        return len(self.tensors) - 1

    def operator(
        self,
        code: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None = None,
        *,
        version: int = 1,
        custom_code: str | None = None,
        custom_options: bytes | None = None,
        intermediates: Sequence[int] = (),
        **fields: FieldValue,
    ) -> None:
        """Add an operator: `options` names the option table, keywords its fields in snake case."""
        number = getattr(tflite.BuiltinOperator, code)
        self.operators.append(
            _Operator(number, version, inputs, outputs, options, fields, custom_code, custom_options, intermediates)
        )

    def finish(self, inputs: Sequence[int], outputs: Sequence[int], called: Sequence[Subgraph] = ()) -> bytes:
        """The model as the bytes of a .tflite file; `called` are its subgraphs from number 1 on."""
        b = flatbuffers.Builder(4096)
        buffers = [_buffer(b, None)]
        everything: list[Subgraph] = [(self, inputs, outputs), *called]
        operators = [operator for part, _, _ in everything for operator in part.operators]
        codes = [_operator_code(b, operator) for operator in operators]
        graphs, first = [], 0
        for part, starts, ends in everything:
            graphs.append(part.subgraph(b, buffers, first, starts, ends))
            first += len(part.operators)
        model = _table(
            b,
            "Model",
            Version=3,
            OperatorCodes=_offsets(b, codes),
            Subgraphs=_offsets(b, graphs),
            Buffers=_offsets(b, buffers),
            Description=b.CreateString("made by a test"),
        )
        b.Finish(model, b"TFL3")
        return bytes(b.Output())

    def subgraph(
        self, b: flatbuffers.Builder, buffers: list[int], first: int, inputs: Sequence[int], outputs: Sequence[int]
    ) -> int:
        """This computation as a table; contents join `buffers`, operator kinds are numbered from `first` on."""
        tensors = []
        for tensor in self.tensors:
            if tensor.data is not None:
                buffers.append(_buffer(b, tensor.data))
            tensors.append(_tensor(b, tensor, 0 if tensor.data is None else len(buffers) - 1))
        operators = [_operator(b, first + index, operator) for index, operator in enumerate(self.operators)]
        return _table(
            b,
            "SubGraph",
            Tensors=_offsets(b, tensors),
            Operators=_offsets(b, operators),
            Inputs=_ints(b, inputs),
            Outputs=_ints(b, outputs),
        )


Subgraph = tuple[ModelBuilder, Sequence[int], Sequence[int]]
"""A computation with the tensors that enter and leave it."""


def _table(b: flatbuffers.Builder, name: str, **fields: FieldValue) -> int:
    """One table; offsets among `fields` must have been made before."""
    getattr(tflite, f"{name}Start")(b)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(b, value)
    return getattr(tflite, f"{name}End")(b)


def _offsets(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _ints(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    return b.CreateNumpyVector(np.asarray(values, np.int32))


def _buffer(b: flatbuffers.Builder, data: bytes | None) -> int:
    """Tensor contents start at multiples of 16, as the schema demands."""
    if data is None:
        return _table(b, "Buffer")
    b.StartVector(1, len(data), 16)
    b.head = b.head - len(data)
    b.Bytes[b.head : b.head + len(data)] = data
    return _table(b, "Buffer", Data=b.EndVector())


def _tensor(b: flatbuffers.Builder, tensor: _Tensor, buffer: int) -> int:
    fields: dict[str, FieldValue] = {
        "Name": b.CreateString(tensor.name),
        "Shape": _ints(b, tensor.shape),
        "Type": tensor.type_code,
        "Buffer": buffer,
        "IsVariable": tensor.variable,
    }
    if tensor.scales is not None:
        scales, zeros = b.CreateNumpyVector(tensor.scales), b.CreateNumpyVector(tensor.zero_points)
        fields["Quantization"] = _table(
            b, "QuantizationParameters", Scale=scales, ZeroPoint=zeros, QuantizedDimension=tensor.axis
        )
    return _table(b, "Tensor", **fields)


def _operator_code(b: flatbuffers.Builder, operator: _Operator) -> int:
    fields: dict[str, FieldValue] = {
        "DeprecatedBuiltinCode": min(operator.code, 127),
        "BuiltinCode": operator.code,
        "Version": operator.version,
    }
    if operator.custom_code is not None:
        fields["CustomCode"] = b.CreateString(operator.custom_code)
    return _table(b, "OperatorCode", **fields)


def _operator(b: flatbuffers.Builder, index: int, operator: _Operator) -> int:
    fields: dict[str, FieldValue] = {
        "OpcodeIndex": index,
        "Inputs": _ints(b, operator.inputs),
        "Outputs": _ints(b, operator.outputs),
    }
    if operator.intermediates:
        fields["Intermediates"] = _ints(b, operator.intermediates)
    if operator.custom_options is not None:
        fields["CustomOptions"] = b.CreateByteVector(operator.custom_options)
    if operator.options is not None:
        values = {
            "".join(word.capitalize() for word in key.split("_")): value
            if isinstance(value, int | float)
            else _ints(b, value)
            for key, value in operator.fields.items()
        }
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, operator.options)
        fields["BuiltinOptions"] = _table(b, operator.options, **values)
    return _table(b, "Operator", **fields)
