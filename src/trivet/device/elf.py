"""What a linked program holds, read from its ELF file: sections and symbols of 32-bit little-endian machines."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from trivet.core.record import dataclass

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION = struct.Struct("<IIIIIIIIII")
_SYMBOL = struct.Struct("<IIIBBH")
_ALLOCATED, _NO_BITS, _SYMBOLS, _FUNCTION = 0x2, 8, 2, 2


@dataclass(frozen=True, slots=True)
class Section:
    """A section that is in memory when the program runs; `is_stored` also takes flash."""

    name: str
    address: int
    size_bytes: int
    is_stored: bool


@dataclass(frozen=True, slots=True)
class Program:
    """Sections by address, addresses by symbol, and functions in the order of their addresses."""

    sections: tuple[Section, ...]
    symbols: Mapping[str, int]
    functions: tuple[tuple[int, str], ...]

    def function_at(self, address: int) -> str:
        """The function that an instruction belongs to."""
        index = bisect.bisect_right(self.functions, (address, "\uffff")) - 1
        return self.functions[index][1] if index >= 0 else "?"

    def bytes_of(self, name: str) -> int:
        """Bytes of all sections of that name, or below it."""
        return sum(s.size_bytes for s in self.sections if s.name == name or s.name.startswith(f"{name}."))


def read_program(path: Path) -> Program:
    """The program in a file that a linker has just made."""
    data = path.read_bytes()
    header = _HEADER.unpack_from(data)
    offset, size, count, names_index = header[6], header[11], header[12], header[13]
    assert data[:6] == b"\x7fELF\x01\x01", "the linker made no 32-bit little-endian program"
    raw = [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    names = raw[names_index][4]
    sections = tuple(
        Section(_text(data, names + r[0]), r[3], r[5], r[1] != _NO_BITS) for r in raw if r[2] & _ALLOCATED and r[5]
    )
    symbols: dict[str, int] = {}
    functions: set[tuple[int, str]] = set()
    for name, value, kind in _symbols(data, raw):
        symbols[name] = value
        if kind == _FUNCTION:
            functions.add((value & ~1, name))
    return Program(sections, symbols, tuple(sorted(functions)))


def _symbols(data: bytes, raw: list[tuple[int, ...]]) -> Iterator[tuple[str, int, int]]:
    """Name, value and kind of every symbol; bit 0 of a function's value says that it is Thumb code."""
    for section in raw:
        if section[1] != _SYMBOLS:
            continue
        strings = raw[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, value, _, info, _, _ = _SYMBOL.unpack_from(data, at)
            text = _text(data, strings + name)
            if text and not text.startswith("$"):
                yield text, value, info & 0xF


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", "replace")
