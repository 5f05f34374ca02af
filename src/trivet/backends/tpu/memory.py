"""The activation memory of the simulator, and the address generators that read it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from trivet.backends.tpu.ir import Buffer, Program, Target, View
from trivet.core.record import dataclass
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
        addresses = Addresses.of(view)
        data = self.array(view.buffer)
        index, inside = addresses.part(rows, columns)
        if inside is None:
            return data[index]
        return np.where(inside, data[np.where(inside, index, 0)], data.dtype.type(view.fill))

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


@dataclass(frozen=True, slots=True)
class Addresses:
    """A view's address generator, unrolled: every row and every column has a number to add, and a place."""

    row_base: Ints
    row_y: Ints
    row_x: Ints
    column_base: Ints
    column_y: Ints
    column_x: Ints
    image: tuple[int, int]
    padded: bool

    @staticmethod
    def of(view: View) -> Addresses:
        (height, width), (sn, sy, sx, sc) = view.image, view.steps
        n, oy, ox = np.unravel_index(np.arange(view.rows, dtype=np.int64), (view.batch, *view.out))
        ky, kx, c = np.unravel_index(np.arange(view.columns, dtype=np.int64), (*view.kernel, view.channels))
        y, x = oy * view.stride[0] - view.pads[0], ox * view.stride[1] - view.pads[1]
        dy, dx = ky * view.dilation[0], kx * view.dilation[1]
        padded = bool(
            view.rows
            and view.columns
            and (y.min() < 0 or x.min() < 0 or y.max() + dy.max() >= height or x.max() + dx.max() >= width)
        )
        row_base = view.offset + n * sn + y * sy + x * sx
        return Addresses(row_base, y, x, dy * sy + dx * sx + c * sc, dy, dx, (height, width), padded)

    def part(self, rows: slice, columns: slice) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
        """Element numbers [rows, columns], and which lie inside the image (None: all)."""
        index = self.row_base[rows, None] + self.column_base[columns]
        if not self.padded:
            return index, None
        y = self.row_y[rows, None] + self.column_y[columns]
        x = self.row_x[rows, None] + self.column_x[columns]
        return index, (y >= 0) & (y < self.image[0]) & (x >= 0) & (x < self.image[1])
