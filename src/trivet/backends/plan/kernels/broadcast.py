"""How two operands broadcast inside one output row: what the kernels of two operands share.

A row of a rank-4 result is [W, C]; any other result is one row. Neighbouring axes along which an operand behaves alike
are merged, so that operands of one shape are a single long vector.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from trivet.backends.ckernels import Blob
from trivet.backends.records import BLOB, U32, Field, FieldValue
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.types import Shape

AXES = 6

BROADCAST = (
    Field("extents", U32, "of the result's row, outermost first", AXES),
    Field("a_steps", U32, "elements of operand a from one index of an axis to the next; 0: broadcast", AXES),
    Field("b_steps", U32, "the same of operand b", AXES),
    Field("a", BLOB, "operand a, if it is constant"),
    Field("b", BLOB, "operand b, if it is constant"),
    Field("a_row", U32, "bytes from row to row of an operand a that is constant or not of rank 4"),
    Field("b_row", U32, "bytes from row to row of an operand b that is constant or not of rank 4"),
)

Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The fields of BROADCAST, and the operands that are not constant."""

    params: Params
    operands: tuple[Value, ...]


def broadcast(node: Node) -> Broadcast | None:
    """How the first two operands of a node meet, None where the kernels do not take it."""
    a, b = node.inputs[:2]
    y = node.output.type.shape
    if node.output.type.elements == 0 or (a.is_constant and b.is_constant):
        return None
    sides = [_row_shape(value, y) for value in (a, b)]
    if sides[0] is None or sides[1] is None:
        return None
    merged = _merged(y[2:] if len(y) == 4 else y, sides[0], sides[1])
    if merged is None:
        return None
    params: Params = dict(zip(("extents", "a_steps", "b_steps"), merged, strict=True))
    for name, value in (("a", a), ("b", b)):
        data = None if value.data is None else np.ascontiguousarray(value.data)
        params[name] = data
        params[f"{name}_row"] = 0 if data is None and value.type.rank == 4 else _row_bytes(value, y)
    return Broadcast(params, tuple(value for value in (a, b) if not value.is_constant))


def _row_shape(value: Value, y: Shape) -> Shape | None:
    """An operand's part of one row of the result, with as many axes as that row has."""
    shape = (1,) * (len(y) - value.type.rank) + value.type.shape
    if len(y) != 4:
        return shape if value.type.rank != 4 else None
    # A constant cannot differ from image to image: calls do not know which image they make.
    return None if value.is_constant and shape[0] != 1 else shape[2:]


def _row_bytes(value: Value, y: Shape) -> int:
    shape = (1,) * (len(y) - value.type.rank) + value.type.shape
    if len(y) != 4 or shape[1] == 1:
        return 0
    return value.type.dtype.size_bytes(math.prod(shape[2:]))


def _merged(y: Shape, a: Shape, b: Shape) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Extents and both operands' steps over at most AXES axes."""
    axes: list[tuple[int, bool, bool]] = []
    for extent, in_a, in_b in zip(y, (d != 1 for d in a), (d != 1 for d in b), strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1:] == (in_a, in_b):
            axes[-1] = (axes[-1][0] * extent, in_a, in_b)
        else:
            axes.append((extent, in_a, in_b))
    if len(axes) > AXES:
        return None
    axes = [(1, False, False)] * (AXES - len(axes)) + axes
    steps: list[tuple[int, ...]] = []
    for side in (1, 2):
        step, found = 1, []
        for axis in reversed(axes):
            found.append(step if axis[side] else 0)
            step *= axis[0] if axis[side] else 1
        steps.append(tuple(reversed(found)))
    return tuple(axis[0] for axis in axes), steps[0], steps[1]
