"""Operators that move elements."""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.activation import Lookup
from trivet.ops.movement import (
    Concat,
    Expand,
    Gather,
    Pad,
    PadMode,
    Reshape,
    Slice,
    Tile,
    Transpose,
)
from trivet.ops.quantize import Requantize


def transpose(op: Conversion) -> None:
    x = op.operand(0)
    perm = tuple(op.axis(axis, x.type.rank) for axis in op.integers(1))
    op.result(op.emit(Transpose(perm), x))


def concatenation(op: Conversion) -> None:
    """Operands whose quantization differs from the result's are rescaled first."""
    parts = op.operands()
    if not parts or op.integer("activation"):
        raise Unsupported("CONCATENATION of nothing, or with a fused activation")
    axis = op.axis(op.integer("axis"), parts[0].type.rank)
    op.result(op.emit(Concat(axis), *(_rescaled(op, part, op.declared()) for part in parts)))


def _rescaled(op: Conversion, part: Value, y: TensorType) -> Value:
    """`part` under the quantization of `y`.

    LiteRT's uint8 kernel multiplies by a float32 factor: any function of one byte is a table.
    """
    if part.type.quant == y.quant or part.type.quant is None or y.quant is None:
        return part
    if op.contract is Numerics.LITERT_U8 and part.type.dtype is I8:
        table = _uint8_rescaling(part.type, y)
        return op.emit(Lookup(y.quant), part, op.plain(table, TensorType(I8, (256,))))
    return op.emit(Requantize(y.quant, y.dtype, op.contract), part)


def _uint8_rescaling(x: TensorType, y: TensorType) -> Array:
    """round(q*s + (-z*s)) + zero point in float32, s = scale * (1 / result's scale), halves away from zero: [256]."""
    assert x.quant is not None and y.quant is not None
    scale = np.float32(x.quant.scale) * (np.float32(1) / np.float32(y.quant.scale))
    offset = 128
    stored = np.arange(256).astype(np.float32)
    shifted = stored * scale + np.float32(-(x.quant.zero_point + offset)) * scale
    rounded = np.trunc(shifted + np.copysign(np.float32(0.5), shifted)) + (y.quant.zero_point + offset)
    moved: Array = np.clip(rounded, 0, 255) - offset
    return moved.astype(np.int8)


def pack(op: Conversion) -> None:
    """Operands side by side along a new axis."""
    parts = op.operands()
    if not parts:
        raise InvalidModel("PACK of nothing")
    axis = op.axis(op.integer("axis"), parts[0].type.rank + 1)
    shape = parts[0].type.shape
    reshaped = [op.emit(Reshape((*shape[:axis], 1, *shape[axis:])), part) for part in parts]
    op.result(op.emit(Concat(axis), *reshaped))


def unpack(op: Conversion) -> None:
    """One result per index of an axis, which goes away."""
    x = op.operand(0)
    axis = op.axis(op.integer("axis"), x.type.rank)
    if x.type.shape[axis] != len(op.record.outputs):
        raise InvalidModel(f"UNPACK of {x.type} along axis {axis} has {len(op.record.outputs)} results")
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    for index in range(len(op.record.outputs)):
        op.result(op.emit(Reshape(shape), part_of(op, x, axis, index, 1)), index)


def split(op: Conversion) -> None:
    """axis [], x -> equal parts."""
    x, parts = op.operand(1), len(op.record.outputs)
    axis = op.axis(first(op, 0), x.type.rank)
    if parts == 0 or x.type.shape[axis] % parts:
        raise InvalidModel(f"SPLIT of {x.type} along axis {axis} into {parts} parts")
    _split(op, x, axis, [x.type.shape[axis] // parts] * parts)


def split_v(op: Conversion) -> None:
    """x, sizes, axis [] -> parts of those sizes; one size may be -1, the rest."""
    x, sizes = op.operand(0), list(op.integers(1))
    axis = op.axis(first(op, 2), x.type.rank)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.type.shape[axis] - sum(sizes) - 1
    if min(sizes, default=-1) < 0 or sum(sizes) != x.type.shape[axis] or len(sizes) != len(op.record.outputs):
        raise InvalidModel(f"SPLIT_V of {x.type} along axis {axis} into {sizes}")
    _split(op, x, axis, sizes)


def _split(op: Conversion, x: Value, axis: int, sizes: list[int]) -> None:
    start = 0
    for index, size in enumerate(sizes):
        op.result(part_of(op, x, axis, start, size), index)
        start += size


def part_of(op: Conversion, x: Value, axis: int, start: int, size: int) -> Value:
    """Indices start..start+size of one axis."""
    starts, sizes = [0] * x.type.rank, list(x.type.shape)
    starts[axis], sizes[axis] = start, size
    return op.emit(Slice(tuple(starts), tuple(sizes), (1,) * x.type.rank), x)


def first(op: Conversion, index: int) -> int:
    """A constant operand of one integer.

    Raises: InvalidModel.
    """
    numbers = op.integers(index)
    if len(numbers) != 1:
        raise InvalidModel(f"operand {index} must be one number, got {list(numbers)}")
    return numbers[0]


def pad(op: Conversion) -> None:
    """x, widths [R, 2] and, in the second version, a value -> padded with the zero point, or with that value."""
    x, (before, after) = op.operand(0), _widths(op)
    value = float(0 if x.type.quant is None else x.type.quant.zero_point)
    if op.optional(2) is not None:
        filler = op.constant(2).ravel()
        if len(filler) != 1:
            raise InvalidModel(f"the padding value is {len(filler)} numbers")
        value = float(filler[0])
    op.result(op.emit(Pad(before, after, value if x.type.dtype.is_float else int(value)), x))


def mirror_pad(op: Conversion) -> None:
    modes = (PadMode.REFLECT, PadMode.SYMMETRIC)
    if op.integer("mode") not in (0, 1):
        raise InvalidModel(f"MIRROR_PAD mode {op.integer('mode')}, expected 0 or 1")
    before, after = _widths(op)
    op.result(op.emit(Pad(before, after, 0, modes[op.integer("mode")]), op.operand(0)))


def _widths(op: Conversion) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Operand 1 [R, 2] as widths before and widths after."""
    numbers, rank = op.integers(1), op.operand(0).type.rank
    if len(numbers) != 2 * rank:
        raise InvalidModel(f"padding of {rank} axes needs {2 * rank} numbers, got {len(numbers)}")
    return numbers[::2], numbers[1::2]


def gather(op: Conversion) -> None:
    """x, indices -> slices of x along an axis."""
    x, indices = op.operand(0), op.operand(1)
    if op.integer("batch_dims"):
        raise Unsupported("GATHER with batch dimensions")
    axis = op.axis(op.integer("axis"), x.type.rank)
    _check_indices(indices, x.type.shape[axis])
    op.result(op.emit(Gather(axis), x, indices))


def embedding_lookup(op: Conversion) -> None:
    """indices, x -> rows of x."""
    indices, x = op.operand(0), op.operand(1)
    if x.type.rank == 0:
        raise InvalidModel("EMBEDDING_LOOKUP in a scalar")
    _check_indices(indices, x.type.shape[0])
    op.result(op.emit(Gather(0), x, indices))


def _check_indices(indices: Value, size: int) -> None:
    data = indices.data
    if data is not None and data.size and not (int(data.min()) >= 0 and int(data.max()) < size):
        raise InvalidModel(f"indices leave an axis of {size}")


def reverse(op: Conversion) -> None:
    """x, axes -> x read backwards along them."""
    x = op.operand(0)
    if 0 in x.type.shape:
        raise InvalidModel(f"REVERSE_V2 of the empty {x.type}")
    axes = op.axes(1, x.type.rank)
    starts = tuple(d - 1 if i in axes else 0 for i, d in enumerate(x.type.shape))
    steps = tuple(-1 if i in axes else 1 for i in range(x.type.rank))
    op.result(op.emit(Slice(starts, x.type.shape, steps), x))


def tile(op: Conversion) -> None:
    repeats = op.integers(1)
    if min(repeats, default=0) < 0:
        raise InvalidModel(f"TILE by {list(repeats)}")
    op.result(op.emit(Tile(repeats), op.operand(0)))


def broadcast_to(op: Conversion) -> None:
    op.result(op.emit(Expand(op.integers(1)), op.operand(0)))


CONVERTERS: dict[str, Converter] = {
    "TRANSPOSE": transpose,
    "CONCATENATION": concatenation,
    "PACK": pack,
    "UNPACK": unpack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "PAD": pad,
    "PADV2": pad,
    "MIRROR_PAD": mirror_pad,
    "GATHER": gather,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "REVERSE_V2": reverse,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
}
