"""Attribute values and their text: one printer and one reader for every type that an operator's field may have."""

from __future__ import annotations

import json
import math
import types
import typing
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any

import numpy as np

from trivet.core import dtype as dtypes
from trivet.core.bounds import Bounds
from trivet.core.dtype import DType
from trivet.core.quant import Quant
from trivet.ir.op import Op

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Symbol(str):
    """A bare word."""

    __slots__ = ()


class Call:
    """`name(key=value, ...)`, read but not yet given a meaning."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name = name
        self.arguments = arguments


class WrongValue(Exception):
    """An attribute value that its field does not take; the parser adds the place."""


def format_float(value: float) -> str:
    """The shortest text that reads back as the same double."""
    return repr(float(value))


def format_float32(value: float) -> str:
    """The shortest text that rounds to the same float32."""
    return str(np.float32(value))


def format_value(value: object) -> str:
    """The text of an attribute value."""
    match value:
        case None | bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value)
        case Enum():
            return str(value.value)
        case DType():
            return value.name
        case Quant():
            return f"quant({format_quant(value)})"
        case Bounds():
            return f"bounds(lo={format_float(value.lo)}, hi={format_float(value.hi)})"
        case tuple():
            inner = ", ".join(format_value(v) for v in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
    raise AssertionError(f"no text form for {type(value).__name__}")


def format_quant(quant: Quant) -> str:
    """`scale=S, zero=Z` per tensor, `scales=(...), zeros=(...), axis=A` per channel."""
    if quant.axis is None:
        return f"scale={format_float32(quant.scale)}, zero={quant.zero_point}"
    scales = ", ".join(format_float32(s) for s in quant.scales)
    zeros = ", ".join(str(z) for z in quant.zero_points)
    return f"scales=({scales},), zeros=({zeros},), axis={quant.axis}"


def quant_from(arguments: dict[str, Any]) -> Quant:
    """The inverse of `format_quant` on parsed arguments.

    Raises: WrongValue.
    """
    try:
        match arguments:
            case {"scale": scale, "zero": zero, **rest} if not rest:
                return Quant.per_tensor(_scale(scale), _integer(zero))
            case {"scales": tuple() as scales, "zeros": tuple() as zeros, "axis": axis, **rest} if not rest:
                if len(scales) != len(zeros) or not scales:
                    raise WrongValue("`scales` and `zeros` must be of one length")
                return Quant.per_axis([_scale(s) for s in scales], [_integer(z) for z in zeros], _integer(axis))
    except OverflowError:
        pass
    raise WrongValue("a quantization is scale=S, zero=Z or scales=(...), zeros=(...), axis=A")


def field_hints(op: type[Op]) -> dict[str, Any]:
    """The declared type of every attribute of an operator class."""
    found = _HINTS.get(op)
    if found is None:
        hints = typing.get_type_hints(op)
        found = _HINTS[op] = {f.name: hints[f.name] for f in op_fields(op)}
    return found


_HINTS: dict[type[Op], dict[str, Any]] = {}
"""What `field_hints` has found: reading annotations is slow."""


def op_fields(op: type[Op] | Op) -> tuple[Field[Any], ...]:
    """The attributes of an operator, in order of declaration."""
    return fields(op)  # type: ignore[arg-type]  # every operator is a dataclass


def is_default(field: Field[Any], value: object) -> bool:
    return field.default is not MISSING and field.default == value and type(field.default) is type(value)


def convert(raw: Any, hint: Any) -> Any:
    """A parsed value as the field's declared type.

    Raises: WrongValue.
    """
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        if raw is None:
            return None
        (inner,) = (a for a in typing.get_args(hint) if a is not type(None))
        return convert(raw, inner)
    if origin is tuple:
        return _convert_tuple(raw, typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _convert_enum(raw, hint)
    return _convert_scalar(raw, hint)


def _convert_tuple(raw: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(raw, tuple):
        raise WrongValue("expected a tuple")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(convert(r, arguments[0]) for r in raw)
    if len(raw) != len(arguments):
        raise WrongValue(f"expected a tuple of {len(arguments)}")
    return tuple(convert(r, a) for r, a in zip(raw, arguments, strict=True))


def _convert_enum(raw: Any, hint: type[Enum]) -> Enum:
    for member in hint:
        if isinstance(raw, Symbol) and member.value == str(raw):
            return member
    raise WrongValue(f"expected one of {', '.join(str(m.value) for m in hint)}")


def _convert_scalar(raw: Any, hint: Any) -> Any:
    if hint is bool and isinstance(raw, bool):
        return raw
    if hint is int:
        return _integer(raw)
    if hint is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        return float(raw)
    if hint is str and isinstance(raw, str) and not isinstance(raw, Symbol):
        return raw
    if hint is DType and isinstance(raw, Symbol) and (found := dtypes.by_name(raw)) is not None:
        return found
    if hint is Quant and isinstance(raw, Call) and raw.name == "quant":
        return quant_from(raw.arguments)
    if hint is Bounds and isinstance(raw, Call) and raw.name == "bounds":
        return _bounds(raw.arguments)
    raise WrongValue(f"expected a value of type {getattr(hint, '__name__', hint)}")


def _bounds(arguments: dict[str, Any]) -> Bounds:
    lo, hi = arguments.get("lo", -math.inf), arguments.get("hi", math.inf)
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (lo, hi))
    if not numbers or set(arguments) - {"lo", "hi"} or not lo <= hi:
        raise WrongValue("bounds are bounds(lo=L, hi=H) with L <= H")
    return Bounds(float(lo), float(hi))


def _scale(raw: Any) -> float:
    if not isinstance(raw, int | float) or isinstance(raw, bool) or not 0 <= raw <= _LARGEST_FLOAT32:
        raise WrongValue(f"a scale is a float32 from 0, found {raw}")
    return float(raw)


def _integer(raw: Any) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    raise WrongValue("expected an integer")
