"""Concrete types of a model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trivet.errors import CompileError, InvalidModel, Unsupported
from trivet.frontends.onnx.context import MAX_TENSOR_BYTES
from trivet.frontends.onnx.model import Body, PortInfo
from trivet.frontends.options import LoadOptions
from trivet.ir.types import Shape, TensorType

MAX_RANK = 8


def input_types(
    body: Body, options: LoadOptions, path: Path
) -> tuple[dict[str, TensorType], list[str], list[CompileError]]:
    """A type for each input that stays one, notes on dimensions that were bound, and what is wrong.

    Initializers listed as inputs (files before IR version 4) and inputs that the user binds are constants.
    """
    fed = [port for port in body.inputs if port.name not in body.initializers and port.name not in options.bindings]
    problems: list[CompileError] = []
    for name in options.input_shapes:
        if name not in {port.name for port in fed}:
            known = ", ".join(f"'{port.name}'" for port in fed)
            problems.append(CompileError(f"the model has no input '{name}' to give a shape", hint=f"inputs: {known}"))
    symbols = _symbols(fed, options.input_shapes)
    types: dict[str, TensorType] = {}
    notes: list[str] = []
    for port in fed:
        try:
            types[port.name] = _input_type(port, options.input_shapes.get(port.name), symbols, notes)
        except CompileError as error:
            problems.append(type(error)(error.message, where=path, hint=error.hint))
    return types, notes, problems


def _symbols(ports: list[PortInfo], shapes: Mapping[str, Shape]) -> dict[str, int]:
    """What the given shapes say about named free dimensions; the first input to name one decides."""
    symbols: dict[str, int] = {}
    for port in ports:
        shape = shapes.get(port.name)
        if shape is not None and port.dims is not None and len(shape) == len(port.dims):
            for dim, size in zip(port.dims, shape, strict=True):
                if isinstance(dim, str) and dim:
                    symbols.setdefault(dim, size)
    return symbols


def _input_type(port: PortInfo, given: Shape | None, symbols: Mapping[str, int], notes: list[str]) -> TensorType:
    if port.dtype is None:
        raise Unsupported(f"input '{port.name}' holds {port.foreign_dtype} elements")
    if given is not None:
        return _sized(port.name, TensorType(port.dtype, _given_shape(port, given, notes)))
    if port.dims is None:
        raise Unsupported(f"input '{port.name}' has no shape", hint=f"give one with --input-shape {port.name}:1x...")
    if len(port.dims) > MAX_RANK:
        raise InvalidModel(f"input '{port.name}' has {len(port.dims)} dimensions")
    shape: list[int] = []
    for axis, dim in enumerate(port.dims):
        size = symbols.get(dim, 1) if isinstance(dim, str) else dim
        shape.append(size)
        if isinstance(dim, str):
            label = f" ('{dim}')" if dim else ""
            notes.append(f"input '{port.name}': free dimension {axis}{label} was bound to {size}")
    return _sized(port.name, TensorType(port.dtype, tuple(shape)))


def _sized(name: str, type_: TensorType) -> TensorType:
    if type_.size_bytes > MAX_TENSOR_BYTES:
        raise Unsupported(f"input '{name}' {type_} takes {type_.size_bytes} bytes")
    return type_


def _given_shape(port: PortInfo, given: Shape, notes: list[str]) -> Shape:
    if any(size <= 0 for size in given):
        raise CompileError(f"input '{port.name}' cannot have the shape {list(given)}")
    if port.dims is None:
        return given
    if len(given) != len(port.dims):
        raise CompileError(f"input '{port.name}' has {len(port.dims)} dimensions, {list(given)} was given")
    for axis, (dim, size) in enumerate(zip(port.dims, given, strict=True)):
        if isinstance(dim, int) and dim != size:
            notes.append(f"input '{port.name}': dimension {axis} is {dim} in the model and {size} as given")
    return tuple(given)
