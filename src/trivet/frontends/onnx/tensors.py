"""ONNX tensors to arrays, with every size checked before a byte is read."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx

from trivet.core import dtype as dt
from trivet.core.dtype import DType
from trivet.errors import InvalidModel
from trivet.frontends.onnx.model import Unreadable
from trivet.ir.op import Array

_PROTO = onnx.TensorProto

DTYPES: dict[int, DType] = {
    _PROTO.FLOAT: dt.F32,
    _PROTO.DOUBLE: dt.F64,
    _PROTO.FLOAT16: dt.F16,
    _PROTO.INT8: dt.I8,
    _PROTO.UINT8: dt.U8,
    _PROTO.INT16: dt.I16,
    _PROTO.UINT16: dt.U16,
    _PROTO.INT32: dt.I32,
    _PROTO.UINT32: dt.U32,
    _PROTO.INT64: dt.I64,
    _PROTO.UINT64: dt.U64,
    _PROTO.BOOL: dt.BOOL,
    getattr(_PROTO, "INT4", 22): dt.I4,
    getattr(_PROTO, "UINT4", 21): dt.U4,
}
"""ONNX's element type numbers (INT4 and UINT4 came with onnx 1.16)."""

_INT32_DATA = (dt.I8, dt.U8, dt.I16, dt.U16, dt.I32, dt.BOOL, dt.I4, dt.U4, dt.F16)


def dtype_name(number: int) -> str:
    """How ONNX calls an element type."""
    names = {value: name for name, value in _PROTO.DataType.items()}
    return str(names.get(number, f"element type {number}")).lower()


def decode_tensor(tensor: onnx.TensorProto, directory: Path) -> Array | Unreadable:
    """The elements of a tensor, one an array element; external data is read from inside `directory` only.

    Raises: InvalidModel.
    """
    where = f"tensor '{tensor.name}'"
    dtype = DTYPES.get(tensor.data_type)
    if dtype is None:
        return Unreadable(f"{where} holds {dtype_name(tensor.data_type)} elements")
    shape = tuple(int(d) for d in tensor.dims)
    if any(d < 0 for d in shape):
        raise InvalidModel(f"{where} has a negative dimension in {list(shape)}")
    elements = math.prod(shape)
    if tensor.data_location == _PROTO.EXTERNAL:
        return _from_bytes(_external_bytes(tensor, directory, where), dtype, shape, where)
    if tensor.HasField("raw_data"):
        return _from_bytes(tensor.raw_data, dtype, shape, where)
    return _from_fields(tensor, dtype, elements, where).reshape(shape)


def _from_bytes(raw: bytes, dtype: DType, shape: tuple[int, ...], where: str) -> Array:
    elements = math.prod(shape)
    expected = dtype.size_bytes(elements)
    if len(raw) != expected:
        raise InvalidModel(f"{where} of {dtype.name}{list(shape)} needs {expected} bytes, the file has {len(raw)}")
    if dtype.bits == 4:
        return _unpack_nibbles(np.frombuffer(raw, np.uint8), elements, dtype).reshape(shape)
    array = np.frombuffer(raw, dtype.numpy.newbyteorder("<")).astype(dtype.numpy)
    return array.reshape(shape)


def _from_fields(tensor: onnx.TensorProto, dtype: DType, elements: int, where: str) -> Array:
    if dtype in _INT32_DATA:
        field = np.array(tensor.int32_data, np.int64)
    elif dtype is dt.I64:
        field = np.array(tensor.int64_data, np.int64)
    elif dtype in (dt.U32, dt.U64):
        field = np.array(tensor.uint64_data, np.uint64)
    elif dtype is dt.F64:
        field = np.array(tensor.double_data, np.float64)
    else:
        field = np.array(tensor.float_data, np.float32)
    expected = (elements + 1) // 2 if dtype.bits == 4 else elements
    if field.size != expected:
        raise InvalidModel(f"{where} needs {expected} elements, the file has {field.size}")
    if dtype.bits == 4:
        return _unpack_nibbles(field.astype(np.uint8), elements, dtype)
    if dtype is dt.F16:
        return field.astype(np.uint16).view(np.float16)
    return field.astype(dtype.numpy)


def _unpack_nibbles(packed: Array, elements: int, dtype: DType) -> Array:
    """Two elements a byte, the first in the low half."""
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(-1)[:elements].astype(np.int16)
    signed = np.where(nibbles > 7, nibbles - 16, nibbles) if dtype is dt.I4 else nibbles
    return signed.astype(dtype.numpy)


def _external_bytes(tensor: onnx.TensorProto, directory: Path, where: str) -> bytes:
    """The stretch of a file beside the model that holds a tensor's data.

    Raises: InvalidModel, also for a path that leaves the model's directory.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location")
    if not isinstance(location, str) or not location or "\0" in location:
        raise InvalidModel(f"{where} has external data without a location")
    root = directory.resolve()
    path = (root / location).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise InvalidModel(
            f"{where} keeps its data in '{location}', which is no file in the model's directory",
            hint="put the data file beside the model, or save the model as one file",
        )
    size = path.stat().st_size
    offset = _number(entries.get("offset", "0"), where)
    length = _number(entries.get("length", str(max(size - offset, 0))), where)
    if offset + length > size:
        raise InvalidModel(f"{where} wants bytes {offset} to {offset + length} of '{location}', which has {size}")
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(length)


def _number(text: object, where: str) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise InvalidModel(f"{where} has external data at {text!r}, which is no byte count")
    return int(text)
