"""The types and constant data of a file's tensors in Trivet's terms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trivet.core.dtype import I4, I8, I16, U8, DType
from trivet.core.quant import Quant
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.flatbuffer import Buffer
from trivet.frontends.tflite.read import Quantization, Tensor
from trivet.frontends.tflite.sparse import Sparsity, scatter
from trivet.ir.op import Array
from trivet.ir.types import TensorType

UINT8_OFFSET = 128
"""Stored uint8 values, and their zero points, minus this are the int8 form of the same numbers."""

_QUANTIZED = (I4, I8, U8, I16)
_MAX_ELEMENTS = 1 << 26
_SPARSE_FACTOR = 64
"""Elements of sparse tensors for each one that is stored, at least on average."""

_MAX_SCALE = 2.0**40
"""Larger scales, or smaller ones where something is divided by them, belong to no network; products stay finite."""


def model_type(tensor: Tensor) -> TensorType:
    """The type that the file declares, its quantization checked.

    Raises: InvalidModel, Unsupported.
    """
    if tensor.dtype is None:
        raise Unsupported(f"tensor '{tensor.name}' has element type {tensor.type_name}")
    check_size(tensor.name, tensor.shape)
    return TensorType(tensor.dtype, tensor.shape, quantization(tensor, tensor.dtype))


def check_size(name: str, shape: tuple[int, ...]) -> None:
    """Raises: InvalidModel, for tensors that are too large for any network that Trivet is for."""
    if math.prod(shape) > _MAX_ELEMENTS:
        raise InvalidModel(f"tensor '{name}' {list(shape)} has more than {_MAX_ELEMENTS:,} elements")


def quantization(tensor: Tensor, dtype: DType, kinds: tuple[DType, ...] = _QUANTIZED) -> Quant | None:
    """Checked parameters of a tensor whose element type is one of `kinds`.

    A quantization whose only scale is zero is none. The file's quantized dimension counts on tensors of two axes and
    more only: runtimes ignore it on vectors, and files in use carry any value there.

    Raises: InvalidModel.
    """
    found = tensor.quantization
    if found is None or dtype not in kinds or found.scales == (0.0,):
        return None
    zero_points = _zero_points(found)
    if len(zero_points) != len(found.scales):
        raise InvalidModel(f"tensor '{tensor.name}' has {len(found.scales)} scales and {len(zero_points)} zero points")
    wrong = next((scale for scale in found.scales if not 0 <= scale <= _MAX_SCALE), None)
    if wrong is not None:
        raise InvalidModel(f"tensor '{tensor.name}' has the scale {wrong:g}, possible is 0 to {_MAX_SCALE:g}")
    for zero in (min(zero_points), max(zero_points)):
        if not dtype.min <= zero <= dtype.max:
            raise InvalidModel(f"tensor '{tensor.name}' has the zero point {zero}, which is no {dtype.name}")
    if len(found.scales) == 1:
        return Quant(found.scales, zero_points)
    axis = 0 if len(tensor.shape) == 1 else found.axis
    if not 0 <= axis < len(tensor.shape) or tensor.shape[axis] != len(found.scales):
        count = len(found.scales)
        raise InvalidModel(f"tensor '{tensor.name}' {list(tensor.shape)} has {count} scales along axis {axis}")
    return Quant(found.scales, zero_points, axis)


def check_divisor(quant: Quant | None, name: str) -> None:
    """Raises: InvalidModel, for the quantization of a computed tensor whose scale is next to zero."""
    if quant is not None and min(quant.scales) * _MAX_SCALE < 1:
        raise InvalidModel(f"tensor '{name}' has the scale {min(quant.scales):g}")


def _zero_points(found: Quantization) -> tuple[int, ...]:
    """One per scale; none listed means zero, one listed means the same for all."""
    zero_points = found.zero_points or (0,)
    return zero_points * len(found.scales) if len(zero_points) == 1 else zero_points


def restated(type_: TensorType) -> TensorType:
    """The type of the value that stands for a tensor: quantized uint8 is int8 with moved zero points, int4 is int8."""
    if type_.dtype is I4:
        return replace(type_, dtype=I8)
    if type_.dtype is U8 and type_.quant is not None:
        return TensorType(I8, type_.shape, type_.quant.shifted(-UINT8_OFFSET))
    return type_


def constant_data(tensor: Tensor, type_: TensorType, buffer: Buffer) -> Array:
    """The tensor's elements, in the form of `restated(type_)`.

    Raises: InvalidModel, Unsupported.
    """
    assert tensor.data is not None
    if tensor.sparsity is not None:
        return _dense(tensor, type_, tensor.sparsity, buffer)
    if len(tensor.data) != type_.size_bytes:
        raise InvalidModel(f"tensor '{tensor.name}' {type_} needs {type_.size_bytes} bytes, has {len(tensor.data)}")
    buffer.charge(len(tensor.data))
    if type_.dtype is I4:
        return _unpack_nibbles(tensor.data, type_.elements).reshape(type_.shape)
    data = np.frombuffer(tensor.data, type_.dtype.numpy.newbyteorder("<")).reshape(type_.shape)
    if type_.dtype is U8 and type_.quant is not None:
        return (data ^ np.uint8(UINT8_OFFSET)).view(np.int8)
    return data.astype(type_.dtype.numpy, copy=False)


def _dense(tensor: Tensor, type_: TensorType, sparsity: Sparsity, buffer: Buffer) -> Array:
    assert tensor.data is not None
    if type_.dtype.bits % 8 or (type_.dtype is U8 and type_.quant is not None):
        raise Unsupported(f"tensor '{tensor.name}' {type_} is stored sparse", hint="store the weights dense")
    element = type_.dtype.numpy.newbyteorder("<")
    if len(tensor.data) % element.itemsize:
        raise InvalidModel(f"tensor '{tensor.name}' {type_} holds {len(tensor.data)} bytes")
    buffer.charge(type_.size_bytes // _SPARSE_FACTOR)
    stored = np.frombuffer(tensor.data, element)
    return scatter(stored, sparsity, type_.shape, tensor.name).astype(type_.dtype.numpy, copy=False)


def _unpack_nibbles(data: memoryview, elements: int) -> Array:
    """Two elements a byte, the low nibble first, sign-extended: [elements]."""
    packed = np.frombuffer(data, np.int8)
    pairs = np.stack([(packed << 4).astype(np.int8) >> 4, packed >> 4], axis=-1)
    return np.ascontiguousarray(pairs.reshape(-1)[:elements])
