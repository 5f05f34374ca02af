"""Data of `.tiny` constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trivet.core.dtype import I8, DType
from trivet.ir.op import Array
from trivet.ir.types import Shape

SHOWN_CHARACTERS = 100
"""Of the name of a file, in messages."""

RANDOM_I32 = 1000
"""Random i32 constants lie in [-RANDOM_I32, RANDOM_I32]."""


class BadData(Exception):
    """Data that does not fit a constant's type; the frontend adds the place.

    `element` is the index of the number at fault in the text of a list, if it is one number's fault.
    """

    def __init__(self, message: str, element: int | None = None) -> None:
        super().__init__(message)
        self.element = element


def random(dtype: DType, shape: Shape, seed: int) -> Array:
    """Uniform data that depends on nothing but seed and element index (SplitMix64), the same for ever.

    Element i is low + mix(seed + (i + 1) * 0x9E3779B97F4A7C15) mod count, where i8 has low -128 and count 256, i32 has
    low -1000 and count 2001.
    """
    low, count = (-128, 256) if dtype is I8 else (-RANDOM_I32, 2 * RANDOM_I32 + 1)
    elements = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        z = np.uint64(seed % (1 << 64)) + np.arange(1, elements + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z % np.uint64(count)).astype(np.int64) + low).astype(dtype.numpy).reshape(shape)


def splat(dtype: DType, shape: Shape, value: int) -> Array:
    """One value everywhere.

    Raises: BadData.
    """
    _check_range(dtype, value, value)
    return np.full(shape, value, dtype.numpy)


def from_list(dtype: DType, shape: Shape, items: list[object]) -> Array:
    """A nested list of integers, whose nesting must be the shape.

    Raises: BadData.
    """
    flat: list[int] = []
    _flatten(items, shape, 0, flat)
    for index, value in enumerate(flat):
        if not dtype.min <= value <= dtype.max:
            raise BadData(_misfit(dtype, value), index)
    return np.array(flat, dtype.numpy).reshape(shape)


def from_file(dtype: DType, shape: Shape, directory: Path, name: str) -> Array:
    """A `.npy` file of integers.

    Raises: BadData.
    """
    shown = name if len(name) <= SHOWN_CHARACTERS else f"...{name[3 - SHOWN_CHARACTERS :]}"
    try:
        data = np.load(directory / name, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no .npy file"
        raise BadData(f"cannot read {shown}: {reason}") from None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "iu":
        raise BadData(f"{shown} holds no integer array")
    if data.shape != shape:
        raise BadData(f"{shown} has shape {list(data.shape)}, the constant is {list(shape)}")
    if data.size:
        _check_range(dtype, int(data.min()), int(data.max()))
    return np.ascontiguousarray(data.astype(dtype.numpy))


def _flatten(items: list[object], shape: Shape, axis: int, flat: list[int]) -> None:
    if axis >= len(shape):
        raise BadData(f"the list is nested deeper than {len(shape)} axes")
    if len(items) != shape[axis]:
        raise BadData(f"axis {axis} has {shape[axis]} entries, the list has {len(items)}")
    for item in items:
        if isinstance(item, list):
            _flatten(item, shape, axis + 1, flat)
        elif axis != len(shape) - 1:
            raise BadData(f"axis {axis + 1} is missing in the list")
        else:
            assert isinstance(item, int)
            flat.append(item)


def _check_range(dtype: DType, low: int, high: int) -> None:
    for value in (low, high):
        if not dtype.min <= value <= dtype.max:
            raise BadData(_misfit(dtype, value))


def _misfit(dtype: DType, value: int) -> str:
    return f"{value} does not fit {dtype.name} ({dtype.min} to {dtype.max})"
