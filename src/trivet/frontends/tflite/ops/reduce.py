"""Reductions over axes."""

from __future__ import annotations

from functools import partial

from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ops.reduce import ArgMax, ArgMin, Mean, ReduceMax, ReduceMin, ReduceProd, Sum


def mean_or_sum(kind: type[Mean] | type[Sum], op: Conversion) -> None:
    x = op.operand(0)
    axes = op.axes(1, x.type.rank)
    op.result(op.emit(kind(axes, op.flag("keep_dims"), op.out, op.numerics), x))


def extreme_or_product(kind: type[ReduceMax] | type[ReduceMin] | type[ReduceProd], op: Conversion) -> None:
    """Stored values compare; an empty axis has no extreme."""
    x = op.operand(0)
    if 0 in x.type.shape:
        raise InvalidModel(f"{op.record.kind} of the empty {x.type}")
    op.result(op.emit(kind(op.axes(1, x.type.rank), op.flag("keep_dims")), x))


def arg(kind: type[ArgMax] | type[ArgMin], op: Conversion) -> None:
    """The index of an extreme along one axis; its element type is the result's."""
    x = op.operand(0)
    axes = op.axes(1, x.type.rank)
    if len(axes) != 1 or 0 in x.type.shape:
        raise Unsupported(f"{op.record.kind} along axes {axes} of {x.type}; accepted is one axis")
    op.result(op.emit(kind(axes[0], False, op.declared().dtype), x))


CONVERTERS: dict[str, Converter] = {
    "MEAN": partial(mean_or_sum, Mean),
    "SUM": partial(mean_or_sum, Sum),
    "REDUCE_MAX": partial(extreme_or_product, ReduceMax),
    "REDUCE_MIN": partial(extreme_or_product, ReduceMin),
    "REDUCE_PROD": partial(extreme_or_product, ReduceProd),
    "ARG_MAX": partial(arg, ArgMax),
    "ARG_MIN": partial(arg, ArgMin),
}
