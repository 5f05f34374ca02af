"""The JSON schedule: a program written down, and read back with every part checked."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from trivet.backends.tpu.codec import Json, check_keys, decode, encode, schema
from trivet.backends.tpu.ir import PASS_FIELDS, Buffer, Layer, Port, Program
from trivet.backends.tpu.machine import Machine, machine_from
from trivet.backends.tpu.verify import verify
from trivet.errors import InvalidModel
from trivet.ir.op import Array

FORMAT = "trivet-tpu-schedule"
VERSION = 1

KEYS = (
    "format",
    "version",
    "name",
    "machine",
    "buffers",
    "constants",
    "states",
    "tiles",
    "parameters",
    "inputs",
    "outputs",
    "pass_fields",
    "layers",
)

LISTS = {"buffers": Buffer, "inputs": Port, "outputs": Port, "layers": Layer}
"""Lists of typed values."""


def write(program: Program) -> bytes:
    """The program as UTF-8 JSON, one layer, buffer or port a line."""
    lines = [
        f'"format": {json.dumps(FORMAT)}',
        f'"version": {VERSION}',
        f'"name": {json.dumps(program.name)}',
        f'"machine": {json.dumps(encode(Machine, program.machine))}',
        *(f'"{name}": {_rows(kind, getattr(program, name))}' for name, kind in LISTS.items() if name != "layers"),
        f'"constants": {_contents(program.constants)}',
        f'"states": {_contents(program.states)}',
        f'"tiles": {_text(program.tiles)}',
        f'"parameters": {_text(program.parameters.astype("<i4"))}',
        f'"pass_fields": {json.dumps(PASS_FIELDS)}',
        f'"layers": {_rows(Layer, program.layers)}',
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _rows(kind: Any, values: list[Any]) -> str:
    return "[" + ",".join("\n  " + json.dumps(encode(kind, value), separators=(",", ":")) for value in values) + "\n]"


def _contents(arrays: Mapping[int, Array]) -> str:
    return json.dumps([{"buffer": index, "data": _base64(data)} for index, data in arrays.items()])


def _text(data: Array) -> str:
    return json.dumps(_base64(data))


def _base64(data: Array) -> str:
    little = data.astype(data.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def read(data: bytes) -> Program:
    """The program in a schedule, verified.

    Raises: InvalidModel, Unsupported.
    """
    body = _parse(data)
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidModel("is no TPU schedule", hint=f'a schedule begins with "format": "{FORMAT}"')
    if type(body.get("version")) is not int or body["version"] != VERSION:
        raise InvalidModel(f"is version {body.get('version')!r:.40} of the schedule format, not {VERSION}")
    check_keys(body, KEYS, "the schedule")
    if body["pass_fields"] != list(PASS_FIELDS):
        raise InvalidModel(f"pass_fields must be {', '.join(PASS_FIELDS)}")
    machine = machine_from(body["machine"], "machine")
    lists = {name: list(decode(tuple[kind, ...], body[name], name)) for name, kind in LISTS.items()}  # type: ignore[valid-type]
    size = machine.array
    program = Program(
        decode(str, body["name"], "name"),
        machine,
        lists["buffers"],
        _read_contents("constants", body["constants"], lists["buffers"]),
        _read_contents("states", body["states"], lists["buffers"]),
        _numbers(body["tiles"], np.dtype(np.int8), size * size, "tiles").reshape(-1, size, size),
        _numbers(body["parameters"], np.dtype("<i4"), 1, "parameters").astype(np.int32),
        lists["inputs"],
        lists["outputs"],
        lists["layers"],
    )
    verify(program)
    return program


def _parse(data: bytes) -> Json:
    def refuse(name: str) -> NoReturn:
        raise InvalidModel(f"{name} is no number of JSON")

    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse)
    except UnicodeDecodeError:
        raise InvalidModel("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidModel(f"is no JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise InvalidModel("is no JSON that a schedule is: nested too deeply") from None
    except ValueError:
        raise InvalidModel("has a number of thousands of digits") from None


def _read_contents(name: str, data: Json, buffers: list[Buffer]) -> dict[int, Array]:
    if not isinstance(data, list):
        raise InvalidModel(f"{name} must be a list")
    contents: dict[int, Array] = {}
    for number, entry in enumerate(data):
        where = f"{name}[{number}]"
        check_keys(entry, ("buffer", "data"), where)
        index = decode(int, entry["buffer"], f"{where}.buffer")
        if not 0 <= index < len(buffers) or index in contents:
            raise InvalidModel(f"{where}.buffer {index} is no buffer, or filled twice")
        dtype = buffers[index].dtype.numpy
        contents[index] = _numbers(entry["data"], dtype.newbyteorder("<"), 1, where).astype(dtype)
    return contents


def _numbers(data: Json, dtype: np.dtype[Any], multiple: int, where: str) -> Array:
    """Base64 of little-endian numbers, a multiple of so many."""
    if type(data) is not str:
        raise InvalidModel(f"{where} must be a base64 text")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidModel(f"{where} is no base64") from None
    if len(raw) % (multiple * dtype.itemsize):
        raise InvalidModel(f"{where} has {len(raw)} bytes, no multiple of {multiple * dtype.itemsize}")
    return np.frombuffer(raw, dtype)


def json_schema() -> Json:
    """The JSON Schema of version 1."""
    text = {"type": "string", "contentEncoding": "base64"}
    contents = {
        "type": "object",
        "properties": {"buffer": {"type": "integer"}, "data": text},
        "required": ["buffer", "data"],
        "additionalProperties": False,
    }
    properties: dict[str, Json] = {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "name": {"type": "string"},
        "machine": schema(Machine),
        "constants": {"type": "array", "items": contents},
        "states": {"type": "array", "items": contents},
        "tiles": {**text, "description": "int8 [T, N, N], row-major: T tiles of N weight rows."},
        "parameters": {**text, "description": "int32 words P, little-endian."},
        "pass_fields": {"const": list(PASS_FIELDS)},
    }
    properties |= {name: {"type": "array", "items": schema(kind)} for name, kind in LISTS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Trivet TPU schedule, version 1",
        "type": "object",
        "properties": {key: properties[key] for key in KEYS},
        "required": list(KEYS),
        "additionalProperties": False,
    }
