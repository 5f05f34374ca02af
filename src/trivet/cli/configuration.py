"""Settings from a file: `trivet.toml` where one is, or `--config FILE` (TOML or YAML). A flag wins over the file."""

from __future__ import annotations

import argparse
import tomllib
from difflib import get_close_matches
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from trivet.errors import InvalidModel


class Configuration(BaseModel):
    """The keys of a configuration file: the long flags, with underscores. Sizes may have suffixes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    target: str | None = None
    fast: int | str | None = None
    slow: int | str | None = None
    flash: int | str | None = None
    numerics: str | None = None
    level: int | None = None
    disable: list[str] | None = None
    input_shape: list[str] | None = None
    preserve_input: bool | None = None
    verify_each: bool | None = None
    quiet: bool | None = None
    verbose: bool | None = None


def read_configuration(path: Path) -> Configuration:
    """The settings in a file.

    Raises: InvalidModel naming the file, the key and what is accepted.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=path) from None
    except UnicodeDecodeError:
        raise InvalidModel("is not UTF-8 text", where=path) from None
    try:
        data = yaml.safe_load(text) or {} if path.suffix in (".yaml", ".yml") else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise InvalidModel(f"does not parse: {error}", where=path) from None
    if not isinstance(data, dict):
        raise InvalidModel("holds no table of settings", where=path)
    try:
        return Configuration.model_validate(data)
    except ValidationError as error:
        raise InvalidModel("\n".join(_explain(item) for item in error.errors()), where=path) from None


def _explain(item: object) -> str:
    assert isinstance(item, dict)
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] != "extra_forbidden":
        return f"{key}: {item['msg']}"
    close = get_close_matches(key, Configuration.model_fields, 1)
    known = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(Configuration.model_fields)}"
    return f"unknown setting '{key}', {known}"


def apply(parser: argparse.ArgumentParser, configuration: Configuration) -> None:
    """Make the file's settings the defaults of a command's flags; flags that the command lacks are left out.

    Raises: argparse.ArgumentTypeError for a value that the flag would not take.
    """
    given = configuration.model_dump()
    for action in parser._actions:
        value = given.get(action.dest)
        if value is None:
            continue
        convert = action.type
        if callable(convert) and isinstance(value, list):
            value = [convert(item) for item in value]
        elif callable(convert):
            value = convert(str(value))
        parser.set_defaults(**{action.dest: value})
