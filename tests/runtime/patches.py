"""Plans with single fields changed, and what the C loader says of them."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import trivet
from trivet.backends.plan import format as f
from trivet.backends.plan.host import aligned
from trivet.backends.plan.writer import seal
from trivet.backends.records import Record, align

_STATUS_H = Path(trivet.__file__).parent / "runtime/include/trivet/status.h"
STATUSES = re.findall(r"X\((\w+), \"", _STATUS_H.read_text())

Change = int | Callable[[int], int]
Patch = tuple[str, int, str, Change]
"""Section (or "header"), index of the record, field (a number after a colon: element of an array), new value."""

Body = Callable[[bytes], bytes]
"""New bytes of a section from the old ones."""
Options = dict[str, int]


def section(data: bytes, name: str) -> tuple[int, int]:
    """Offset and count of a section."""
    at = f.HEADER.offset_of(name)
    return int.from_bytes(data[at : at + 4], "little"), int.from_bytes(data[at + 4 : at + 8], "little")


def record_of(name: str) -> Record:
    if name == "header":
        return f.HEADER
    record = next(s.record for s in f.SECTIONS if s.name == name)
    assert record is not None, name
    return record


def patched(data: bytes, *patches: Patch, sealed: bool = True) -> bytes:
    """The plan with the fields changed and, if `sealed`, the right checksum."""
    changed = bytearray(data)
    for name, index, field, change in patches:
        record = record_of(name)
        start = 0 if name == "header" else section(data, name)[0] + index * record.size_bytes
        field, _, element = field.partition(":")
        offset, declared = next((o, d) for o, d in record.layout() if d.name == field)
        size = declared.type.size_bytes // declared.type.numbers
        at = start + offset + int(element or 0) * size
        old = int.from_bytes(changed[at : at + size], "little")
        new = change if isinstance(change, int) else change(old)
        changed[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
    return seal(bytes(changed)) if sealed else bytes(changed)


def rebuilt(data: bytes, bodies: Mapping[str, Body]) -> bytes:
    """The plan with sections of other bytes; all sections stand where they have to."""
    if not bodies:
        return data
    result = bytearray(data[: f.HEADER.size_bytes])
    for part in f.SECTIONS:
        offset, count = section(data, part.name)
        body = bodies.get(part.name, bytes)(data[offset : offset + count * part.item_bytes])
        result += bytes(align(len(result), f.ALIGNMENT) - len(result))
        at = f.HEADER.offset_of(part.name)
        result[at : at + 8] = struct.pack("<II", len(result), len(body) // part.item_bytes)
        result += body
    result += bytes(align(len(result), f.ALIGNMENT) - len(result))
    return patched(bytes(result), ("header", 0, "size_bytes", len(result)))


@dataclass(frozen=True)
class Runtime:
    """The functions of the library that open, bind and run."""

    library: ctypes.CDLL

    def status(self, data: bytes, *, misaligned: int = 0) -> str:
        """The first status that is not OK of opening, binding and running."""
        plan = aligned(len(data) + misaligned, 16)[misaligned:]
        plan[: len(data)] = np.frombuffer(data, np.uint8)
        model = aligned(self.library.trivet_host_model_bytes(), 16)
        pointer = ctypes.c_void_p(model.ctypes.data)
        opened = self.library.trivet_open(pointer, ctypes.c_void_p(plan.ctypes.data), ctypes.c_size_t(len(data)))
        return STATUSES[opened or self.bind_and_run(pointer)]

    def bind_and_run(self, pointer: ctypes.c_void_p) -> int:
        sizes = [
            (self.library.trivet_region_bytes(pointer, r), self.library.trivet_region_alignment(pointer, r))
            for r in range(self.library.trivet_region_count(pointer))
        ]
        memories = [aligned(size, alignment) for size, alignment in sizes]
        places = (ctypes.c_size_t * (2 * len(memories)))(*[n for m in memories for n in (m.ctypes.data, m.size)])
        return int(self.library.trivet_bind(pointer, places, len(memories)) or self.library.trivet_run(pointer))
