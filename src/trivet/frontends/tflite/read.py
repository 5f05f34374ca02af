"""A TFLite file as plain records: what it says, checked for being a file of this kind, not for making sense.

Nothing outside this module and `flatbuffer` reads bytes of the file.
"""

from __future__ import annotations

import math
from pathlib import Path

from trivet.core.dtype import DType
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.frontends.options import contents
from trivet.frontends.tflite.flatbuffer import Buffer, Table
from trivet.frontends.tflite.schema import ELEMENT_TYPES, IDENTIFIER, OPERATORS, SECOND_UNION, Field, layout
from trivet.frontends.tflite.sparse import Sparsity, read_sparsity

_MAX_RANK = 8

Option = int | float | str | tuple[int, ...]
"""The value of an operator's option."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Scales and zero points as the file lists them, not yet checked; `axis` is the file's quantized dimension."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a subgraph. `shape` holds 1 where `free` says that the model leaves an axis open."""

    name: str
    type_name: str
    dtype: DType | None
    shape: tuple[int, ...]
    free: tuple[int, ...]
    quantization: Quantization | None
    data: memoryview | None
    sparsity: Sparsity | None


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `kind` is its name in the schema, or `CUSTOM:name`; -1 among `inputs` is an absent operand.

    `custom` are the option bytes of a custom operator, `intermediates` tensors that only say how it computes.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Option]
    custom: bytes = b""
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subgraph:
    """One computation of the file."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """All of a file. `charge` counts bytes of constants that are decoded, so that a small file cannot ask for much."""

    file: str
    subgraphs: tuple[Subgraph, ...]
    buffer: Buffer


def read_model(path: Path) -> Model:
    """The records of a file.

    Raises: InvalidModel.
    """
    file = path.name
    try:
        data = contents(path)
    except OSError as error:
        raise InvalidModel(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    if data[4:8] != IDENTIFIER:
        found = "it is empty" if not data else f"bytes 4 to 8 are {data[4:8]!r}, not {IDENTIFIER!r}"
        raise InvalidModel(f"this is not a TFLite model: {found}", where=file)
    buffer = Buffer(data, file)
    root = buffer.root()
    version = root.integer(0, "I")
    if version != 3:
        raise InvalidModel(f"schema version {version}, expected 3", where=file)
    buffers = [_contents(table) for table in root.tables(4)]
    kinds = [_kind(table) for table in root.tables(1)]
    subgraphs = tuple(_subgraph(table, buffers, kinds) for table in root.tables(2))
    if not subgraphs:
        raise InvalidModel("the file holds no subgraph", where=file)
    return Model(file, subgraphs, buffer)


def _contents(table: Table) -> memoryview | None:
    """A buffer's bytes: inside the table, or elsewhere in a file that is too large for 32-bit offsets."""
    start, size = table.integer(1, "Q"), table.integer(2, "Q")
    if start > 1:
        return table.buffer.span(start, size)
    data = table.vector(0, 1)
    return data if data is not None and len(data) else None


def _kind(table: Table) -> str:
    """The operator's name; the older one-byte code field and the newer one hold the same number where it fits."""
    code = max(table.integer(0, "b"), table.integer(3, "i"))
    if not 0 <= code < len(OPERATORS):
        table.buffer.corrupt(f"operator code {code} is not in the schema")
    name = OPERATORS[code]
    return f"CUSTOM:{table.text(1)}" if name == "CUSTOM" else name


def _subgraph(table: Table, buffers: list[memoryview | None], kinds: list[str]) -> Subgraph:
    tensors = tuple(_tensor(entry, buffers) for entry in table.tables(0))
    limit = len(tensors)
    return Subgraph(
        table.text(4),
        tensors,
        _indices(table, 1, limit),
        _indices(table, 2, limit),
        tuple(_operator(entry, kinds, limit) for entry in table.tables(3)),
    )


def _indices(table: Table, field: int, limit: int, lowest: int = 0) -> tuple[int, ...]:
    """A vector of tensor numbers below `limit`."""
    indices = table.integers(field)
    for index in indices:
        if not lowest <= index < limit:
            table.buffer.corrupt(f"tensor {index} of {limit}")
    return indices


def _tensor(table: Table, buffers: list[memoryview | None]) -> Tensor:
    name = table.text(3)
    code, number = table.integer(1, "b"), table.integer(2, "I")
    if not 0 <= code < len(ELEMENT_TYPES):
        table.buffer.corrupt(f"tensor '{name}' has element type {code}, which is not in the schema")
    if number >= max(len(buffers), 1):
        table.buffer.corrupt(f"tensor '{name}' is in buffer {number} of {len(buffers)}")
    type_name, dtype = ELEMENT_TYPES[code]
    shape, free = _shape(table, name)
    data = buffers[number] if buffers else None
    found = table.table(6)
    sparsity = None if found is None else read_sparsity(found)
    return Tensor(name, type_name, dtype, shape, free, _quantization(table), data, sparsity)


def _shape(table: Table, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape with open axes as 1, and the list of open axes."""
    shape, signature = table.integers(0), table.integers(7)
    if len(shape) > _MAX_RANK or any(d < -1 for d in shape):
        table.buffer.corrupt(f"tensor '{name}' has shape {list(shape)}")
    declared = signature if len(signature) == len(shape) else shape
    free = tuple(i for i, (d, s) in enumerate(zip(shape, declared, strict=True)) if -1 in (d, s))
    return tuple(1 if d == -1 else d for d in shape), free


def _quantization(table: Table) -> Quantization | None:
    found = table.table(4)
    if found is None:
        return None
    scales = found.numbers(2, "f")
    return Quantization(scales, found.integers(3, "q"), found.integer(6, "i")) if scales else None


def _operator(table: Table, kinds: list[str], limit: int) -> Operator:
    code = table.integer(0, "I")
    if code >= len(kinds):
        table.buffer.corrupt(f"operator kind {code} of {len(kinds)}")
    inputs = _indices(table, 1, limit, lowest=-1)
    custom = bytes(table.vector(5, 1) or b"") if kinds[code].startswith("CUSTOM:") else b""
    outputs, intermediates = _indices(table, 2, limit), _indices(table, 8, limit)
    return Operator(kinds[code], inputs, outputs, _options(table, kinds[code]), custom, intermediates)


def _options(table: Table, kind: str) -> dict[str, Option]:
    """The operator's options by name, with the schema's defaults where the file leaves them out."""
    expected = layout(kind)
    if expected is None:
        return {}
    slot = 11 if kind in SECOND_UNION else 3
    tag, options = table.integer(slot, "B"), table.table(slot + 1)
    if tag not in (0, expected.tag):
        table.buffer.corrupt(f"the options of {kind} are of another operator")
    return {name: _option(options if tag else None, field) for name, field in expected.fields.items()}


def _option(table: Table | None, field: Field) -> Option:
    if field.form == "s":
        return "" if table is None else table.text(field.slot)
    if field.form == "v":
        return () if table is None else table.integers(field.slot)
    value = field.default if table is None else table.number(field.slot, field.form, field.default)
    if table is not None and not math.isfinite(value):
        table.buffer.corrupt(f"an option is {value}")
    return value
