"""How a binary record is declared: named fields of fixed width, little endian, each at its natural alignment.

One declaration gives the packer, the unpacker, the C struct and the rows of the docs table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from trivet.core.record import dataclass

Scalar: TypeAlias = int | float
FieldValue: TypeAlias = Scalar | tuple[Scalar, ...]
"""One number, or one for each element of an array field; a `Pair` field is two numbers."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A fixed-width number, or a pair of u32: its C name, `struct` code, alignment and how many numbers it holds."""

    name: str
    c_name: str
    code: str
    alignment: int
    numbers: int = 1

    @property
    def size_bytes(self) -> int:
        return struct.calcsize("<" + self.code)


U8 = FieldType("u8", "uint8_t", "B", 1)
I8 = FieldType("i8", "int8_t", "b", 1)
U16 = FieldType("u16", "uint16_t", "H", 2)
I16 = FieldType("i16", "int16_t", "h", 2)
U32 = FieldType("u32", "uint32_t", "I", 4)
I32 = FieldType("i32", "int32_t", "i", 4)
F32 = FieldType("f32", "float", "f", 4)
BLOB = FieldType("blob", "trivet_blob", "II", 4, numbers=2)
"""Bytes of the constants section: offset and size, both in bytes. Size 0: absent."""
SECTION = FieldType("section", "trivet_section", "II", 4, numbers=2)
"""Records of the file: offset in bytes and count."""


@dataclass(frozen=True, slots=True)
class Field:
    """`count` numbers of one type (more than one: an array), and what they mean.

    `limits` are the least and the largest number that the runtime accepts; for a blob, in any of its elements.
    """

    name: str
    type: FieldType
    doc: str = ""
    count: int = 1
    limits: tuple[float, float] | None = None

    @property
    def size_bytes(self) -> int:
        return self.type.size_bytes * self.count


@dataclass(frozen=True)  # without slots: what is derived from the fields is kept
class Record:
    """Fields in file order; gaps for alignment are zero bytes, and the size is a multiple of 4."""

    name: str
    fields: tuple[Field, ...]
    doc: str = ""

    @cached_property
    def _places(self) -> tuple[tuple[int, Field], ...]:
        places, offset = [], 0
        for field in self.fields:
            offset = align(offset, field.type.alignment)
            places.append((offset, field))
            offset += field.size_bytes
        return tuple(places)

    @cached_property
    def limited(self) -> tuple[Field, ...]:
        """The fields with limits."""
        return tuple(field for field in self.fields if field.limits is not None)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields)

    @cached_property
    def _struct(self) -> struct.Struct:
        """All fields, with the gaps between them."""
        form, end = "<", 0
        for offset, field in self._places:
            form += "x" * (offset - end) + field.type.code * field.count
            end = offset + field.size_bytes
        return struct.Struct(form + "x" * (self.size_bytes - end))

    def layout(self) -> Iterator[tuple[int, Field]]:
        """Each field with its byte offset."""
        return iter(self._places)

    @cached_property
    def size_bytes(self) -> int:
        end = max((offset + field.size_bytes for offset, field in self._places), default=0)
        return align(end, 4)

    def offset_of(self, name: str) -> int:
        return next(offset for offset, field in self.layout() if field.name == name)

    def pack(self, values: Mapping[str, FieldValue]) -> bytes:
        """The record's bytes; every field must be given, and nothing else."""
        assert values.keys() == self._names, f"{self.name} has fields {sorted(self._names)}, got {list(values)}"
        numbers: list[Scalar] = []
        for field in self.fields:
            value = values[field.name]
            given = (value,) if isinstance(value, (int, float)) else value
            assert len(given) == field.count * field.type.numbers, f"{self.name}.{field.name}: {len(given)} numbers"
            numbers += given
        try:
            return self._struct.pack(*numbers)
        except struct.error as error:
            raise AssertionError(f"{self.name} does not hold {values}: {error}") from error

    def unpack(self, data: bytes | memoryview, start: int = 0) -> dict[str, FieldValue]:
        """The fields of the record at `start`; single numbers as such, arrays and pairs as tuples."""
        values: dict[str, FieldValue] = {}
        for offset, field in self.layout():
            numbers = struct.unpack_from("<" + field.type.code * field.count, data, start + offset)
            values[field.name] = numbers[0] if len(numbers) == 1 else numbers
        return values


def align(offset: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment
