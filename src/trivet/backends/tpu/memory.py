"""The activation memory of the simulator, and the address generators that read it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from trivet.backends.tpu.ir import Buffer, Program, Target, View
from trivet.ir.op import Array

Ints = npt.NDArray[np.int64]


class Memory:
    """Bytes, cleared at the start of every run but for states, and the buffers in them.

    `states` are what the run before has left, None before the first one.
    """

    def __init__(self, program: Program, states: Mapping[int, Array] | None = None) -> None:
        self._bytes = np.zeros(program.used_bytes, np.uint8)
        self._buffers = program.buffers
        for index, data in (program.constants | dict(program.states if states is None else states)).items():
            self.array(index)[:] = data

    def array(self, index: int) -> Array:
        """The elements of a buffer, flat; writing to them writes to memory."""
        buffer: Buffer = self._buffers[index]
        part = self._bytes[buffer.address : buffer.end]
        return part.view(buffer.dtype.numpy.newbyteorder("<"))

    def gather(self, view: View, rows: slice, columns: slice) -> Array:
        """The elements of a part of a view: [rows, columns] of the buffer's type."""
        data = self.array(view.buffer)
        index, inside = addresses(view, range(*rows.indices(view.rows)), range(*columns.indices(view.columns)))
        if inside is None:
            return data[index]
        return np.where(inside, data[np.where(inside, index, 0)], data.dtype.type(view.fill))

    def put(self, target: Target, values: Array) -> None:
        """Write floats [rows, columns] from the first row on."""
        line, row = np.divmod(np.arange(values.shape[0]), target.line)
        at = target.offset + line * target.line_step + row * target.row_step
        self.array(target.buffer)[at[:, None] + np.arange(values.shape[1])] = values

    def store(self, target: Target, first_row: int, first_column: int, values: Ints) -> bool:
        """Write results [rows, columns]; False, and nothing is written, where one does not fit the element type."""
        data = self.array(target.buffer)
        limits = np.iinfo(data.dtype)
        if values.size and (values.min() < limits.min or values.max() > limits.max):
            return False
        line, row = np.divmod(first_row + np.arange(values.shape[0]), target.line)
        at = target.offset + line * target.line_step + row * target.row_step
        data[at[:, None] + first_column + np.arange(values.shape[1])] = values
        return True


def addresses(view: View, rows: range, columns: range) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
    """Element numbers of a part of a view [rows, columns], and which lie inside the image (None: all)."""
    (height, width), (sn, sy, sx, sc) = view.image, view.steps
    n, oy, ox = np.unravel_index(np.asarray(rows, np.int64), (view.batch, *view.out))
    ky, kx, c = np.unravel_index(np.asarray(columns, np.int64), (*view.kernel, view.channels))
    y, x = oy * view.stride[0] - view.pads[0], ox * view.stride[1] - view.pads[1]
    dy, dx = ky * view.dilation[0], kx * view.dilation[1]
    index = (view.offset + n * sn + y * sy + x * sx)[:, None] + (dy * sy + dx * sx + c * sc)
    if not index.size or (_are_inside(y, dy, height) and _are_inside(x, dx, width)):
        return index, None
    y, x = y[:, None] + dy, x[:, None] + dx
    return index, (y >= 0) & (y < height) & (x >= 0) & (x < width)


def _are_inside(positions: Ints, moves: Ints, size: int) -> bool:
    """True iff every position, moved by every move, is an index."""
    return bool(positions.min() + moves.min() >= 0 and positions.max() + moves.max() < size)
