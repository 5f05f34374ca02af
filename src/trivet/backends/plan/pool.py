"""The constants of a plan: equal bytes are stored once, each at a multiple of 16."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Blob, Call
from trivet.backends.plan.format import ALIGNMENT
from trivet.backends.records import BLOB, FieldValue, align


class ConstantPool:
    """Bytes that grow by whole constants, in the order in which they first come."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._offsets: dict[bytes, int] = {}

    def add(self, array: Blob) -> tuple[int, int]:
        """Offset and size in bytes of the array's elements."""
        data = np.ascontiguousarray(array).tobytes()
        offset = self._offsets.get(data)
        if offset is None:
            offset = align(len(self._data), ALIGNMENT)
            self._data += bytes(offset - len(self._data)) + data
            self._offsets[data] = offset
        return offset, len(data)

    def bytes(self) -> bytes:
        return bytes(self._data)


def pack_params(call: Call, pool: ConstantPool) -> bytes:
    """The call's parameter record; its arrays go into the pool."""
    record = call.kernel.params
    assert call.params.keys() == {f.name for f in record.fields}, f"{record.name} got {list(call.params)}"
    values: dict[str, FieldValue] = {}
    for field in record.fields:
        value = call.params[field.name]
        if field.type is BLOB:
            assert field.count == 1 and (value is None or isinstance(value, np.ndarray)), f"{field.name} is an array"
            values[field.name] = (0, 0) if value is None or value.size == 0 else pool.add(value)
        else:
            assert value is not None and not isinstance(value, np.ndarray), f"{record.name}.{field.name} is a number"
            values[field.name] = value
    return record.pack(values)
