"""Options of passes as text: the fields of a pass that a user may set by name."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from trivet.core import dtype
from trivet.passes.base import Pass
from trivet.passes.catalog import UnknownPass
from trivet.passes.manager import Fixpoint, Pipeline

ANY = "*"
"""Stands for every pass that has the option."""

PassOptions = Mapping[str, Mapping[str, str]]
"""Values as text, by the name of the pass and of the option."""


def options_of(pass_: Pass) -> dict[str, str]:
    """What can be set, with its value as text."""
    values = {field.name: getattr(pass_, field.name) for field in dataclasses.fields(pass_)}
    return {name: text for name, value in values.items() if (text := _as_text(value)) is not None}


def configured(pipeline: Pipeline, options: PassOptions) -> Pipeline:
    """The pipeline with options set; the order stays.

    Raises: UnknownPass for an option that no pass of that name has, or a value that it does not take.
    """
    passes = list(_flat(pipeline))
    for name, given in options.items():
        for key in given:
            _check(name, key, [pass_ for pass_ in passes if name in (ANY, pass_.name)])
    return tuple(
        Fixpoint(tuple(_configured(pass_, options) for pass_ in element.passes), element.max_rounds)
        if isinstance(element, Fixpoint)
        else _configured(element, options)
        for element in pipeline
    )


def _flat(pipeline: Pipeline) -> Iterable[Pass]:
    for element in pipeline:
        yield from element.passes if isinstance(element, Fixpoint) else (element,)


def _check(name: str, key: str, passes: Iterable[Pass]) -> None:
    known = {option for pass_ in passes for option in options_of(pass_)}
    if key not in known:
        close = difflib.get_close_matches(key, known, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(sorted(known)) or 'none'}"
        whose = "no pass" if name == ANY else f"pass '{name}'"
        raise UnknownPass(
            f"{whose} has an option '{key}', {hint}" if name == ANY else f"{whose} has no '{key}', {hint}"
        )


def _configured(pass_: Pass, options: PassOptions) -> Pass:
    given = {**options.get(ANY, {}), **options.get(pass_.name, {})}
    own = options_of(pass_)
    values = {key: _value(pass_, key, text) for key, text in given.items() if key in own}
    return replace(pass_, **values) if values else pass_


def _as_text(value: object) -> str | None:
    """None for what has no text form, which is no option."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and all(isinstance(item, dtype.DType) for item in value):
        return ",".join(item.name for item in value)
    return str(value) if isinstance(value, (int, float, str)) else None


def _value(pass_: Pass, key: str, text: str) -> object:
    """What a text stands for, by the kind of the value that is there."""
    value = getattr(pass_, key)
    if isinstance(value, bool):
        found: object = {"true": True, "false": False}.get(text)
        accepted = "true or false"
    elif isinstance(value, tuple):
        dtypes = [dtype.by_name(part.strip()) for part in text.split(",")]
        found = None if None in dtypes else tuple(dtypes)
        accepted = f"element types, such as {','.join(item.name for item in value)}"
    else:
        found, accepted = _number_or_text(value, text)
    if found is None:
        raise UnknownPass(f"{key} of pass '{pass_.name}' is '{text}', it takes {accepted}")
    return found


def _number_or_text(value: object, text: str) -> tuple[object, str]:
    if isinstance(value, str):
        return text, "a text"
    try:
        return (int(text) if isinstance(value, int) else float(text)), "a number"
    except ValueError:
        return None, "a number"
