"""Settings from a file: `trivet.toml` where one is, or `--config FILE` (TOML or YAML). A flag wins over the file."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trivet.cli.options import UsageError


class PassTable(BaseModel):
    """`[passes.NAME]`: whether the pass runs, and its options."""

    model_config = ConfigDict(extra="forbid", strict=True)

    enabled: bool | None = None
    options: dict[str, bool | int | float | str | list[str]] = Field(default_factory=dict)


class Configuration(BaseModel):
    """The keys of a configuration file: the long flags, with underscores. Sizes may have suffixes.

    `passes` has a table for each pass, and one called `*` for all of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    target: str | None = None
    machine: str | None = None
    isa: str | None = None
    kernels: str | None = None
    fast: int | str | None = None
    region: list[str] | None = None
    pin: list[str] | None = None
    slow: int | str | None = None
    flash: int | str | None = None
    optimize: str | None = None
    allocator: str | None = None
    max_overhead: float | None = None
    input_rows: bool | None = None
    output_rows: bool | None = None
    numerics: str | None = None
    level: int | None = None
    disable: list[str] | None = None
    enable: list[str] | None = None
    passes: dict[str, PassTable] | None = None
    i32_range: int | str | None = None
    io_layout: str | None = None
    input_shape: list[str] | None = None
    bind: list[str] | None = None
    format: str | None = None
    subgraph: int | None = None
    xip: bool | None = None
    compress: str | None = None
    preserve_input: bool | None = None
    verify_each: bool | None = None
    prefix: str | None = None
    style: str | None = None
    schedule: str | None = None
    memory: str | None = None
    export: str | None = None
    with_test: bool | None = None
    force: bool | None = None
    quiet: bool | None = None
    verbose: bool | None = None


def read_configuration(path: Path) -> Configuration:
    """The settings in a file.

    Raises: UsageError naming the file, the key and what is accepted.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None
    try:
        data = yaml.safe_load(text) or {} if path.suffix in (".yaml", ".yml") else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: does not parse: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: holds no table of settings")
    try:
        return Configuration.model_validate(data)
    except ValidationError as error:
        raise UsageError("\n".join(f"{path}: {_explain(item)}" for item in error.errors())) from None


def _explain(item: object) -> str:
    assert isinstance(item, dict)
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] != "extra_forbidden":
        return f"{key}: {item['msg']}"
    fields = PassTable.model_fields if item["loc"][0] == "passes" else Configuration.model_fields
    close = get_close_matches(str(item["loc"][-1]), fields, 1)
    known = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(fields)}"
    return f"unknown setting '{key}', {known}"


def apply(parser: argparse.ArgumentParser, configuration: Configuration) -> None:
    """Make the file's settings the defaults of a command's flags; flags that the command lacks are left out.

    Raises: UsageError for a value that no flag of that name would give.
    """
    if configuration.passes is not None:
        parser.set_defaults(pass_table={name: _pass_entry(table) for name, table in configuration.passes.items()})
    for key, value in configuration.model_dump(exclude_none=True, exclude={"passes"}).items():
        flags = [action for action in parser._actions if action.dest == key]
        if flags:
            parser.set_defaults(**{key: _converted(key, value, flags)})


def _pass_entry(table: PassTable) -> dict[str, object]:
    return {"enabled": table.enabled, "options": {key: _text(value) for key, value in table.options.items()}}


def _text(value: object) -> str:
    """A value as a flag would give it."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _converted(key: str, value: object, flags: Sequence[argparse.Action]) -> object:
    """What the flags would store for a value of the file."""
    if isinstance(value, list):
        return [_converted(key, item, flags) for item in value]
    convert = flags[0].type
    try:
        converted = convert(str(value)) if callable(convert) else value
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"{key}: {error}") from None
    accepted = flags[0].choices or [flag.const for flag in flags if flag.const is not None]
    if accepted and not isinstance(converted, bool) and converted not in accepted:
        raise UsageError(f"{key}: '{value}' is none of {', '.join(str(item) for item in accepted)}")
    return converted
