"""`dataclass` for slotted classes, made quickly.

Trivet has some two hundred small value classes, and a compilation makes all of them at start-up. The standard decorator
compiles six methods from source text for each, which takes longer than all the rest of importing Trivet. Here the
methods are shared, and the code of an initializer serves all classes with as many fields. The result is a dataclass:
`fields`, `replace` and `match` work as ever. Anything but plain slotted classes is left to the standard decorator.
"""

from __future__ import annotations

import dataclasses
import inspect
from copy import copy
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        plain = options.get("slots", False) and options.keys() <= {"frozen", "slots", "eq"}
        fields = _fields(cls) if plain else None
        if fields is None:
            return dataclasses.dataclass(cls, **options)
        return cls if _adds_nothing(cls, fields, frozen, eq) else _record(cls, fields, frozen, eq)


_MISSING = dataclasses.MISSING
_Fields = dict[str, Any]
"""`dataclasses.Field` by name, in the order of the initializer's parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Template:
    field: int


_PLAIN_FIELD = dataclasses.fields(_Template)[0]._field_type  # type: ignore[attr-defined]


@cache
def _parameters(frozen: bool, eq: bool) -> Any:
    """What a standard dataclass that inherits wants to know."""
    parameters = copy(_Template.__dataclass_params__)  # type: ignore[attr-defined]
    parameters.frozen, parameters.eq = frozen, eq
    return parameters


def _fields(cls: type) -> _Fields | None:
    """The fields of a class, inherited ones first; None where it has one that needs the standard decorator."""
    fields: _Fields = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= getattr(base, "__dataclass_fields__", {})
    annotations = cls.__dict__.get("__annotations__")  # noqa: RUF063 - it is quicker, where Python keeps them there
    for name, annotation in (inspect.get_annotations(cls) if annotations is None else annotations).items():
        if not isinstance(annotation, str) or annotation.startswith(("InitVar", "KW_ONLY")):
            return None
        if annotation.startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, _MISSING)
        field: Any = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        field.name, field.type, field.kw_only, field._field_type = name, annotation, False, _PLAIN_FIELD
        fields[name] = field
    plain = all(field.init and field.repr and field.compare and field.hash is None for field in fields.values())
    return fields if plain and _required_first(fields) else None


def _required_first(fields: _Fields) -> bool:
    """False where the standard decorator refuses: a field without a default after one that has it."""
    optional = [field.default is not field.default_factory for field in fields.values()]
    return optional == sorted(optional)


def _adds_nothing(cls: type, fields: _Fields, frozen: bool, eq: bool) -> bool:
    """True iff a class only has methods beside what a record that it inherits from is: it stays as it was written."""
    inherited = getattr(cls.__base__, "__dataclass_fields__", None)
    own = cls.__dict__.keys() & {"__init__", "__post_init__", "__eq__", "__hash__", "__repr__"}
    return inherited == fields and len(cls.__bases__) == 1 and not own and _like(cls.__base__, frozen, eq)


def _like(base: type | None, frozen: bool, eq: bool) -> bool:
    parameters = getattr(base, "__dataclass_params__", None)
    return hasattr(base, "_key") and parameters is _parameters(frozen, eq)


def _record(cls: type, fields: _Fields, frozen: bool, eq: bool) -> type:
    """`cls` again, with slots for its own fields and with the shared methods that it does not define itself."""
    hidden = {"__dict__", "__weakref__"}
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    body = {key: value for key, value in cls.__dict__.items() if key not in hidden and key not in fields}
    methods: dict[str, Any] = {"__repr__": _repr, **(_COMPARED if eq else {}), **(_FROZEN if frozen else {})}
    if eq and not frozen:
        methods["__hash__"] = None
    body = {**methods, **{key: value for key, value in body.items() if key != "__hash__" or value is not None}}
    body["__slots__"] = tuple(name for name in fields if name not in inherited)
    body["__match_args__"] = tuple(fields)
    body["__dataclass_fields__"] = fields
    body["__dataclass_params__"] = _parameters(frozen, eq)
    body["_key"] = attrgetter(*fields) if fields else staticmethod(_no_key)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    if "__init__" not in body:
        made.__init__ = _initializer(made, fields)  # type: ignore[misc]
    return made


def _initializer(cls: type, fields: _Fields) -> FunctionType:
    """`__init__(self, <fields>)`: the code of all classes with as many fields, with the names of these."""
    factories = tuple([field.default_factory is not _MISSING for field in fields.values()])
    code = _template(factories, hasattr(cls, "__post_init__")).replace(co_varnames=("self", *fields))
    scope: dict[str, object] = {"missing": _MISSING}
    defaults = []
    for place, (name, field) in enumerate(fields.items()):
        scope[f"put{place}"] = getattr(cls, name).__set__
        if factories[place]:
            scope[f"make{place}"] = field.default_factory
        if factories[place] or field.default is not _MISSING:
            defaults.append(field.default)
    made = FunctionType(code, scope, "__init__", tuple(defaults))
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@cache
def _template(factories: tuple[bool, ...], checks: bool) -> CodeType:
    """The code of an initializer whose parameters are called p0, p1, ...; `factories` says which a factory makes."""
    lines = [
        f" put{place}(self, make{place}() if p{place} is missing else p{place})"
        if by_factory
        else f" put{place}(self, p{place})"
        for place, by_factory in enumerate(factories)
    ]
    lines.append(" self.__post_init__()" if checks else " pass")
    parameters = ", ".join(["self", *(f"p{place}" for place in range(len(factories)))])
    scope: dict[str, Any] = {}
    exec(f"def __init__({parameters}):\n" + "\n".join(lines), scope)
    code: CodeType = scope["__init__"].__code__
    return code


def _no_key(self: object) -> None:
    """What identifies a record without fields."""


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    same: bool = self._key(self) == other._key(other)
    return same


def _hash(self: Any) -> int:
    return hash(self._key(self))


def _repr(self: Any) -> str:
    listed = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({listed})"


def _frozen(self: object, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _reduce(self: Any) -> tuple[object, ...]:
    return type(self), tuple([getattr(self, name) for name in self.__match_args__])


_COMPARED = {"__eq__": _eq, "__hash__": _hash}
_FROZEN = {"__setattr__": _frozen, "__delattr__": _frozen, "__reduce__": _reduce}

__all__ = ["dataclass"]
