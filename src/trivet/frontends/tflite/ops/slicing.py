"""SLICE and STRIDED_SLICE."""

from __future__ import annotations

from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ops.movement import Reshape, Slice


def plain_slice(op: Conversion) -> None:
    """x, begin [R], size [R] (-1: the rest)."""
    x, begin, size = op.operand(0), op.integers(1), op.integers(2)
    if not len(begin) == len(size) == x.type.rank:
        raise InvalidModel(f"SLICE of {x.type} from {list(begin)}, sizes {list(size)}")
    sizes = tuple(d - b if s == -1 else s for b, s, d in zip(begin, size, x.type.shape, strict=True))
    op.result(op.emit(Slice(begin, sizes, (1,) * x.type.rank), x))


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the operand: what is taken, and whether it stays in the result."""

    start: int
    size: int
    step: int
    stays: bool


_NEW = None
"""An axis of extent one that the result has and the operand has not."""


def strided_slice(op: Conversion) -> None:
    """x, begin [n], end [n], strides [n], each entry under five bit masks, as in NumPy's basic indexing."""
    x = op.operand(0)
    axes = _axes(op, x.type.shape)
    taken = [axis for axis in axes if axis is not _NEW]
    sliced = Slice(tuple(a.start for a in taken), tuple(a.size for a in taken), tuple(a.step for a in taken))
    y = op.emit(sliced, x)
    shape = tuple(1 if axis is _NEW else axis.size for axis in axes if axis is _NEW or axis.stays)
    op.result(y if shape == y.type.shape else op.emit(Reshape(shape), y))


def _axes(op: Conversion, shape: tuple[int, ...]) -> list[_Axis | None]:
    """What every entry does; axes that no entry names are taken whole.

    Raises: InvalidModel.
    """
    begin, end, strides = op.integers(1), op.integers(2), op.integers(3)
    if not len(begin) == len(end) == len(strides):
        raise InvalidModel("STRIDED_SLICE needs as many ends and strides as begins")
    axes: list[_Axis | None] = []
    axis = 0
    named = sum(not _is(op, "new_axis_mask", i) and not _is(op, "ellipsis_mask", i) for i in range(len(begin)))
    for i in range(len(begin)):
        if _is(op, "ellipsis_mask", i):
            whole = max(len(shape) - named, 0)
            axes += [_Axis(0, size, 1, True) for size in shape[axis : axis + whole]]
            axis += whole
        elif _is(op, "new_axis_mask", i):
            axes.append(_NEW)
        elif axis >= len(shape):
            raise InvalidModel(f"STRIDED_SLICE names more axes than {list(shape)} has")
        else:
            axes.append(_axis(op, i, (begin[i], end[i], strides[i]), shape[axis]))
            axis += 1
    return [*axes, *(_Axis(0, size, 1, True) for size in shape[axis:])]


def _axis(op: Conversion, entry: int, bounds: tuple[int, int, int], extent: int) -> _Axis:
    """An entry on an axis of `extent`: negative numbers count from the end, what is outside is clipped."""
    begin, end, step = bounds
    if op.flag("offset"):
        end += begin
    if _is(op, "shrink_axis_mask", entry):
        index = begin + extent if begin < 0 else begin
        if not 0 <= index < extent:
            raise InvalidModel(f"index {begin} is outside an axis of {extent}")
        return _Axis(index, 1, 1, False)
    if step == 0:
        raise InvalidModel("STRIDED_SLICE with stride 0")
    first = None if _is(op, "begin_mask", entry) else begin
    last = None if _is(op, "end_mask", entry) else end
    taken = range(extent)[slice(first, last, step)]
    return _Axis(taken.start if taken else 0, len(taken), step, True)


def _is(op: Conversion, mask: str, entry: int) -> bool:
    return bool(op.integer(mask) >> entry & 1)


CONVERTERS: dict[str, Converter] = {"SLICE": plain_slice, "STRIDED_SLICE": strided_slice}
