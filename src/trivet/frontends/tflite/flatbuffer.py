"""FlatBuffers without trust: every offset is checked before it is followed, and no length is believed.

The format: a table is a position whose first four bytes lead back to its vtable; the vtable holds, per field, a 16-bit
distance from the table (0: absent). Strings, vectors and tables in fields are forward offsets.
"""

from __future__ import annotations

import struct
from typing import NoReturn, cast

from trivet.core.record import dataclass
from trivet.errors import InvalidModel

_VTABLE_HEAD = 4
_BUDGET_FACTOR = 16
_BUDGET_FLOOR = 1 << 16
_SCALARS = {form: struct.Struct("<" + form) for form in "?bBhHiIqQfd"}
"""Little-endian scalars by their `struct` code."""


class Buffer:
    """The bytes of a file, with a budget for what is read from them.

    Vectors of a valid file hardly ever share bytes; a hostile one can name the same megabyte a million times. What is
    read in total stays below sixteen times the file.
    """

    __slots__ = ("_budget", "_size", "data", "file")

    def __init__(self, data: bytes, file: str) -> None:
        self.data = memoryview(data)
        self.file = file
        self._size = len(data)
        self._budget = _BUDGET_FACTOR * len(data) + _BUDGET_FLOOR

    def corrupt(self, what: str) -> NoReturn:
        """Raises: InvalidModel."""
        raise InvalidModel(f"the file is damaged or cut short: {what}", where=self.file, hint="export or copy it again")

    def number(self, form: str, position: int) -> int | float:
        """The little-endian scalar of struct format `form` at `position`."""
        scalar = _SCALARS[form]
        if not 0 <= position <= self._size - scalar.size:
            self.corrupt(f"a field at byte {position} of {self._size}")
        value: int | float = scalar.unpack_from(self.data, position)[0]
        return value

    def offset(self, form: str, position: int) -> int:
        value = self.number(form, position)
        assert isinstance(value, int)
        return value

    def span(self, start: int, size: int) -> memoryview:
        """`size` bytes from `start`, which count against the budget."""
        if start < 0 or size < 0 or start + size > len(self.data):
            self.corrupt(f"{size} bytes at byte {start} of {len(self.data)}")
        self.charge(size)
        return self.data[start : start + size]

    def charge(self, size_bytes: int) -> None:
        """Count work that the file asks for.

        Raises: InvalidModel, when it asks for far more than its own size.
        """
        self._budget -= size_bytes
        if self._budget < 0:
            self.corrupt("it repeats its own bytes beyond reason")

    def root(self) -> Table:
        return self.table(self.offset("I", 0))

    def table(self, position: int) -> Table:
        """The table at `position`, its vtable checked."""
        vtable = position - self.offset("i", position)
        size = self.offset("H", vtable)
        if size < _VTABLE_HEAD or size % 2 or vtable + size > len(self.data):
            self.corrupt(f"a table at byte {position} has no valid field list")
        self.charge(_VTABLE_HEAD)
        return Table(self, position, vtable, (size - _VTABLE_HEAD) // 2)


@dataclass(frozen=True, slots=True)
class Table:
    """One table; fields are numbered from 0 in the order of the schema."""

    buffer: Buffer
    position: int
    vtable: int
    fields: int

    def _field(self, index: int) -> int | None:
        """Where a field's value stands, or None when the field is absent."""
        if index >= self.fields:
            return None
        distance = self.buffer.offset("H", self.vtable + _VTABLE_HEAD + 2 * index)
        return self.position + distance if distance else None

    def _target(self, index: int) -> int | None:
        at = self._field(index)
        return None if at is None else at + self.buffer.offset("I", at)

    def number(self, index: int, form: str, default: int | float) -> int | float:
        at = self._field(index)
        return default if at is None else self.buffer.number(form, at)

    def integer(self, index: int, form: str, default: int = 0) -> int:
        return cast(int, self.number(index, form, default))

    def table(self, index: int) -> Table | None:
        target = self._target(index)
        return None if target is None else self.buffer.table(target)

    def vector(self, index: int, item_size: int) -> memoryview | None:
        """The bytes of a vector, None when absent."""
        target = self._target(index)
        if target is None:
            return None
        return self.buffer.span(target + 4, self.buffer.offset("I", target) * item_size)

    def numbers(self, index: int, form: str) -> tuple[int | float, ...]:
        """A vector of scalars, empty when absent."""
        size = _SCALARS[form].size
        data = self.vector(index, size)
        return () if data is None else struct.unpack(f"<{len(data) // size}{form}", data)

    def integers(self, index: int, form: str = "i") -> tuple[int, ...]:
        return cast(tuple[int, ...], self.numbers(index, form))

    def tables(self, index: int) -> list[Table]:
        """A vector of tables, empty when absent."""
        target = self._target(index)
        if target is None:
            return []
        count = self.buffer.offset("I", target)
        offsets: tuple[int, ...] = struct.unpack(f"<{count}I", self.buffer.span(target + 4, count * 4))
        return [self.buffer.table(target + 4 + 4 * i + offset) for i, offset in enumerate(offsets)]

    def text(self, index: int) -> str:
        data = self.vector(index, 1)
        return "" if data is None else bytes(data).decode("utf-8", "replace")
