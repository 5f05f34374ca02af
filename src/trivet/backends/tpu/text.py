"""A program as people read it: buffers, then every layer with its passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import IntEnum

from trivet.backends.tpu.ir import PASS_FIELDS, ArrayLayer, Layer, Program, Step, Target, View
from trivet.backends.tpu.timing import kind_of

MAX_PASSES = 64
"""Passes of a layer that are printed one by one."""


def print_program(program: Program) -> str:
    """The program as text, weights and parameters left out; long lists of passes are cut, and say so."""
    machine = program.machine
    lines = [f"tiles {program.name} on {machine.array} x {machine.array}:"]
    for index, buffer in enumerate(program.buffers):
        source = " constant" if index in program.constants else " state" if index in program.states else ""
        cleared = " cleared" if buffer.cleared else ""
        type_ = f"{buffer.dtype.name}[{buffer.elements}]"
        lines.append(f"  buffer {index} {buffer.name}: {type_} at {buffer.address}{source}{cleared}")
    lines += [f"  input {p.name}: buffer {p.buffer} {list(p.shape)}" for p in program.inputs]
    for index, layer in enumerate(program.layers):
        lines += _layer_lines(index, layer)
    lines += [f"  output {p.name}: buffer {p.buffer} {list(p.shape)}" for p in program.outputs]
    return "\n".join(lines) + "\n"


def _layer_lines(index: int, layer: Layer) -> Iterator[str]:
    after = f" after {layer.after}" if layer.after >= 0 else ""
    yield f"  {kind_of(layer)} {index} {layer.name}{after}:"
    yield f"    A = {_view(layer.a)}"
    if isinstance(layer, ArrayLayer):
        yield f"    B = {'tiles' if layer.b is None else _view(layer.b)}"
        yield from _pass_lines(layer)
    for step in getattr(layer, "epilogue", ()):
        yield f"    {_step(step)}"
    yield f"    -> {_target(layer.target)}, {layer.columns} columns"


def _pass_lines(layer: ArrayLayer) -> Iterator[str]:
    yield f"    {' '.join(PASS_FIELDS)}"
    yield from (f"    {' '.join(map(str, row))}" for row in layer.passes[:MAX_PASSES].tolist())
    if len(layer.passes) > MAX_PASSES:
        yield f"    ... {len(layer.passes) - MAX_PASSES} more passes"


def _view(view: View) -> str:
    """Only what differs from one plain window is said."""
    parts = [f"{view.rows} x {view.columns} of buffer {view.buffer}"]
    plain = View.matrix(0, 1, 1)
    for field in fields(View):
        value = getattr(view, field.name)
        if field.name != "buffer" and value != getattr(plain, field.name):
            parts.append(f"{field.name}={_value(value)}")
    return " ".join(parts)


def _target(target: Target) -> str:
    return f"buffer {target.buffer} offset={target.offset} row_step={target.row_step} line={target.line}"


def _step(step: Step) -> str:
    settings = [f"{field.name}={_value(getattr(step, field.name))}" for field in fields(step)]
    return " ".join([type(step).__name__.lower(), *settings])


def _value(value: object) -> str:
    match value:
        case IntEnum():
            return value.name.lower()
        case tuple():
            return "x".join(map(str, value))
        case View():
            return f"[{_view(value)}]"
        case _:
            return str(value)
