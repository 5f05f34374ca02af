"""Blocks of pixels that move into other axes: depth and batch."""

from __future__ import annotations

import math

from trivet.errors import InvalidModel
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ir.graph import Value
from trivet.ops.movement import DepthToSpace, Pad, Reshape, Slice, SpaceToDepth, Transpose

_Pairs = list[tuple[int, int]]


def space_to_depth(op: Conversion) -> None:
    op.result(op.emit(SpaceToDepth(op.integer("block")), op.operand(0)))


def depth_to_space(op: Conversion) -> None:
    if op.integer("block") < 1:
        raise InvalidModel(f"blocks of {op.integer('block')}")
    op.result(op.emit(DepthToSpace(op.integer("block")), op.operand(0)))


def space_to_batch(op: Conversion) -> None:
    """x: [N, S.., R..], block: [M], widths: [M, 2] -> [N * prod(block), padded S / block.., R..]."""
    x, block, widths = _operands(op)
    spare = x.type.rank - 1 - len(block)
    before, after = ((0, *(w[i] for w in widths), *(0,) * spare) for i in (0, 1))
    zero = 0 if x.type.quant is None else x.type.quant.zero_point
    padded = op.emit(Pad(before, after, zero), x) if any(before + after) else x
    batch, *extents = padded.type.shape
    spatial, rest = extents[: len(block)], extents[len(block) :]
    if any(d % b for d, b in zip(spatial, block, strict=True)):
        raise InvalidModel(f"blocks {block} do not divide {padded.type}")
    parts = [d for extent, b in zip(spatial, block, strict=True) for d in (extent // b, b)]
    split = op.emit(Reshape((batch, *parts, *rest)), padded)
    outer, inner = range(1, 2 * len(block), 2), range(2, 2 * len(block) + 1, 2)
    moved = op.emit(Transpose((*inner, 0, *outer, *range(2 * len(block) + 1, split.type.rank))), split)
    op.result(op.emit(Reshape((batch * math.prod(block), *parts[::2], *rest)), moved))


def batch_to_space(op: Conversion) -> None:
    """x: [N * prod(block), S.., R..], block: [M], crops: [M, 2] -> [N, S * block - crops.., R..]."""
    x, block, crops = _operands(op)
    count = len(block)
    batch, *extents = x.type.shape
    spatial, rest = extents[:count], extents[count:]
    if batch % math.prod(block):
        raise InvalidModel(f"blocks {block} do not divide a batch of {batch}")
    split = op.emit(Reshape((*block, batch // math.prod(block), *spatial, *rest)), x)
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    moved = op.emit(Transpose((count, *pairs, *range(2 * count + 1, split.type.rank))), split)
    grown = [d * b for d, b in zip(spatial, block, strict=True)]
    whole = op.emit(Reshape((batch // math.prod(block), *grown, *rest)), moved)
    starts = (0, *(before for before, _ in crops), *(0,) * len(rest))
    kept = [d - before - after for d, (before, after) in zip(grown, crops, strict=True)]
    sizes = (whole.type.shape[0], *kept, *rest)
    op.result(whole if sizes == whole.type.shape else op.emit(Slice(starts, sizes, (1,) * len(sizes)), whole))


def _operands(op: Conversion) -> tuple[Value, tuple[int, ...], _Pairs]:
    """x, the block of each spatial axis, and two widths for each.

    Raises: InvalidModel.
    """
    x, block, widths = op.operand(0), op.integers(1), op.integers(2)
    valid = 0 < len(block) < x.type.rank and len(widths) == 2 * len(block) and min(block) > 0 and min(widths) >= 0
    if not valid:
        raise InvalidModel(f"{op.record.kind} of {x.type} with blocks {list(block)} and widths {list(widths)}")
    return x, block, list(zip(widths[::2], widths[1::2], strict=True))


CONVERTERS: dict[str, Converter] = {
    "SPACE_TO_DEPTH": space_to_depth,
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
}
