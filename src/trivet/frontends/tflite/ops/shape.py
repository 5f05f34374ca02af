"""Shapes: views of the same elements, and shape arithmetic, which is known when a network is compiled."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.dtype import I32, I64
from trivet.errors import InvalidModel
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ir.graph import Value
from trivet.ir.types import Shape, TensorType
from trivet.ops.movement import Reshape


def reshape(op: Conversion) -> None:
    """x and a shape operand with at most one -1; without a usable operand the declared shape of the result."""
    x = op.operand(0)
    wanted = op.optional(1)
    if wanted is not None and wanted.data is not None and wanted.type.rank == 1:
        view(op, x, _resolved(op.integers(1), x.type))
    else:
        view(op, x, op.declared().shape)


def _resolved(shape: Shape, x: TensorType) -> Shape:
    """The shape with -1 as what remains."""
    if shape.count(-1) != 1:
        return shape
    known = math.prod(d for d in shape if d != -1)
    return tuple((x.elements // known if known else 0) if d == -1 else d for d in shape)


def view(op: Conversion, x: Value, shape: Shape) -> None:
    """The same elements under another shape.

    Raises: InvalidModel.
    """
    if min(shape, default=0) < 0 or math.prod(shape) != x.type.elements:
        raise InvalidModel(f"{x.type} cannot take the shape {list(shape)}")
    op.result(x if x.type.shape == shape else op.emit(Reshape(shape), x))


def squeeze(op: Conversion) -> None:
    """Axes of extent one go away: those that are listed, all of them if none is."""
    x = op.operand(0)
    listed = {op.axis(axis, x.type.rank) for axis in op.vector("axes")}
    gone = listed or {i for i, d in enumerate(x.type.shape) if d == 1}
    view(op, x, tuple(d for i, d in enumerate(x.type.shape) if i not in gone))


def expand_dims(op: Conversion) -> None:
    x = op.operand(0)
    axes = op.integers(1)
    if len(axes) != 1:
        raise InvalidModel(f"EXPAND_DIMS takes one axis, got {list(axes)}")
    axis = op.axis(axes[0], x.type.rank + 1)
    view(op, x, (*x.type.shape[:axis], 1, *x.type.shape[axis:]))


def shape_of(op: Conversion) -> None:
    _known(op, op.operand(0).type.shape)


def rank_of(op: Conversion) -> None:
    _known(op, op.operand(0).type.rank)


def _known(op: Conversion, numbers: Shape | int) -> None:
    """A result that follows from types alone."""
    declared = op.declared()
    if declared.dtype not in (I32, I64):
        raise InvalidModel(f"{op.record.kind} gives i32 or i64, not {declared.dtype.name}")
    data = np.asarray(numbers, declared.dtype.numpy)
    op.result(op.plain(data, TensorType(declared.dtype, data.shape)))


CONVERTERS: dict[str, Converter] = {
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "EXPAND_DIMS": expand_dims,
    "SHAPE": shape_of,
    "RANK": rank_of,
}
