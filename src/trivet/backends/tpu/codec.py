"""Values of the Tile IR as JSON and back, from the types of their fields; and the JSON Schema of the same."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from trivet.backends.tpu.ir import ELEMENTS, PASS_FIELDS
from trivet.core.dtype import DType
from trivet.errors import InvalidModel

MAX_INT = (1 << 53) - 1
"""Integers that every JSON reader keeps exactly."""

MAX_TEXT = 4096

Json = Any


def encode(kind: Any, value: Any) -> Json:
    """A value of type `kind`: members of a union are tagged with the name of their class as `kind`."""
    if kind is DType:
        return value.name
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, IntEnum):
        return value.name.lower()
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        kinds = args[:1] * len(value) if args[-1] is Ellipsis else args
        return [encode(item, part) for item, part in zip(kinds, value, strict=True)]
    if origin in (Union, types.UnionType):
        plain = [member for member in args if member is not type(None)]
        if value is None or len(plain) == 1:
            return None if value is None else encode(plain[0], value)
        return {"kind": tag(type(value)), **_encode_fields(type(value), value)}
    return _encode_fields(kind, value) if is_dataclass(value) else value


def _encode_fields(kind: type, value: Any) -> dict[str, Json]:
    return {name: encode(hint, getattr(value, name)) for name, hint in _hints(kind).items()}


def tag(kind: type) -> str:
    return kind.__name__.removesuffix("Layer").lower()


@cache
def _hints(kind: type) -> dict[str, Any]:
    every = get_type_hints(kind)
    return {field.name: every[field.name] for field in fields(kind)}


def decode(kind: Any, data: Json, where: str) -> Any:
    """A value of type `kind`.

    Raises: InvalidModel that names the place.
    """
    if kind is int:
        if type(data) is not int or abs(data) > MAX_INT:
            raise _wrong(where, "an integer", data)
        return data
    if kind is float:
        if type(data) not in (int, float) or not abs(data) < 1e300:
            raise _wrong(where, "a finite number", data)
        return float(data)
    if kind is bool:
        if type(data) is not bool:
            raise _wrong(where, "true or false", data)
        return data
    if kind is str:
        if type(data) is not str or len(data) > MAX_TEXT or _is_broken(data):
            raise _wrong(where, f"a text of up to {MAX_TEXT} characters", data)
        return data
    return _decode_composed(kind, data, where)


def _is_broken(text: str) -> bool:
    """True iff it holds half of a surrogate pair, which JSON can write and nobody can print."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _decode_composed(kind: Any, data: Json, where: str) -> Any:
    origin = get_origin(kind)
    if kind is DType:
        if type(data) is not str or data not in ELEMENTS:
            raise _wrong(where, f"one of {', '.join(ELEMENTS)}", data)
        return ELEMENTS[data]
    if origin is np.ndarray:
        return _decode_table(data, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind), data, where)
    if origin in (Union, types.UnionType):
        members = get_args(kind)
        if type(None) in members:
            (member,) = (m for m in members if m is not type(None))
            return None if data is None else decode(member, data, where)
        return _decode_tagged(members, data, where)
    if issubclass(kind, IntEnum):
        names = {member.name.lower(): member for member in kind}
        if type(data) is not str or data not in names:
            raise _wrong(where, f"one of {', '.join(names)}", data)
        return names[data]
    return _decode_object(kind, data, where, ())


def _decode_tuple(items: tuple[Any, ...], data: Json, where: str) -> tuple[Any, ...]:
    if type(data) is not list:
        raise _wrong(where, "a list", data)
    if items[-1] is Ellipsis:
        items = (items[0],) * len(data)
    if len(items) != len(data):
        raise _wrong(where, f"a list of {len(items)}", data)
    return tuple(decode(item, part, f"{where}[{i}]") for i, (item, part) in enumerate(zip(items, data, strict=True)))


def _decode_table(data: Json, where: str) -> Any:
    """A list of passes, each a list of as many integers as a pass has fields."""
    width = len(PASS_FIELDS)
    if type(data) is not list:
        raise _wrong(where, "a list of passes", data)
    for number, row in enumerate(data):
        if type(row) is not list or len(row) != width or set(map(type, row)) != {int}:
            raise _wrong(f"{where}[{number}]", f"a list of {width} integers", row)
        if min(row) < -1 or max(row) > 1 << 28:
            raise _wrong(f"{where}[{number}]", f"integers from -1 to {1 << 28}", row)
    return np.array(data, np.int64).reshape(-1, width)


def _decode_tagged(members: tuple[Any, ...], data: Json, where: str) -> Any:
    names = {tag(member): member for member in members}
    found = data.get("kind") if isinstance(data, dict) else None
    if type(found) is not str or found not in names:
        raise _wrong(where, f"an object whose kind is one of {', '.join(names)}", found if found is not None else data)
    return _decode_object(names[found], data, where, ("kind",))


def _decode_object(kind: type, data: Json, where: str, extra: tuple[str, ...]) -> Any:
    hints = _hints(kind)
    check_keys(data, (*extra, *hints), where)
    values = {name: decode(hint, data[name], f"{where}.{name}") for name, hint in hints.items()}
    return kind(**values)


def check_keys(data: Json, names: tuple[str, ...], where: str) -> None:
    """Raises: InvalidModel unless `data` is an object with exactly these keys."""
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    missing, unknown = [n for n in names if n not in data], [n for n in data if n not in names]
    if missing or unknown:
        what = f"lacks '{missing[0]}'" if missing else f"has an unknown key {unknown[0][:40]!r}"
        raise InvalidModel(f"{where} {what}", hint=f"its keys are {', '.join(names)}")


def _wrong(where: str, wanted: str, data: Json) -> InvalidModel:
    return InvalidModel(f"{where} must be {wanted}, got {_short(data)}")


def _short(data: Json) -> str:
    match data:
        case None | bool() | float():
            return repr(data)
        case int():
            return repr(data) if abs(data) < 1 << 64 else "a huge integer"
        case str():
            return repr(data[:40])
        case _:
            return f"a {type(data).__name__} of {len(data)}"


def schema(kind: Any) -> Json:
    """The JSON Schema of a type."""
    plain = {int: "integer", float: "number", bool: "boolean", str: "string"}
    if kind in plain:
        return {"type": plain[kind]}
    if kind is DType:
        return {"enum": list(ELEMENTS)}
    origin, args = get_origin(kind), get_args(kind)
    if origin is np.ndarray:
        width = len(PASS_FIELDS)
        row = {"type": "array", "items": {"type": "integer"}, "minItems": width, "maxItems": width}
        return {"type": "array", "items": row, "description": f"Each pass: {', '.join(PASS_FIELDS)}."}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": schema(args[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [schema(a) for a in args], "minItems": len(args), "maxItems": len(args)}
    if origin in (Union, types.UnionType) and type(None) in args:
        return {"anyOf": [{"type": "null"}, *(schema(a) for a in args if a is not type(None))]}
    if origin in (Union, types.UnionType):
        return {"oneOf": [object_schema(a, tag(a)) for a in args]}
    if issubclass(kind, IntEnum):
        return {"enum": [member.name.lower() for member in kind]}
    return object_schema(kind)


def object_schema(kind: type, kind_tag: str | None = None) -> Json:
    """The schema of a dataclass; its docstring is the description."""
    properties = {name: schema(hint) for name, hint in _hints(kind).items()}
    if kind_tag is not None:
        properties = {"kind": {"const": kind_tag}, **properties}
    text = " ".join((kind.__doc__ or "").split())
    return {
        "type": "object",
        "description": text,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
