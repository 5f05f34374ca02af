"""The C kernels' signatures: parameter records and calls, shared by every backend that emits C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.backends.records import BLOB, Field, FieldValue, Record
from trivet.core.record import dataclass
from trivet.ir.graph import Value

Blob: TypeAlias = "npt.NDArray[np.generic]"
Params: TypeAlias = "Mapping[str, FieldValue | Blob | None]"
"""Values of a parameter record: numbers, tuples for arrays, arrays (or None) for blob fields."""


@dataclass(frozen=True, slots=True)
class CKernel:
    """A kernel of the C runtime: `trivet_<name>_run` and `trivet_<name>_check`.

    `id` is stable: plans name kernels by it, so it is never reused. `by_rows` says that `run` makes any range of output
    rows and takes rings; a kernel without it gets whole tensors only. `over_sums`: of one that accumulates, the results
    may lie over its sums, as long as they begin no later than those.
    """

    id: int
    name: str
    params: Record
    by_rows: bool = True
    over_sums: bool = False

    def beyond(self, params: Params) -> Field | None:
        """The first field that holds a number which the runtime would refuse."""
        for limited in self.params.limited:
            value, limits = params[limited.name], limited.limits
            if value is None or limits is None:
                continue
            numbers = np.asarray(value, np.float64)
            if not ((numbers >= limits[0]) & (numbers <= limits[1])).all():
                return limited
        return None

    def blobs(self) -> tuple[int, ...]:
        """Byte offsets of the blob fields."""
        return tuple(o + 8 * i for o, f in self.params.layout() if f.type is BLOB for i in range(f.count))


def _no_scratch(rows: int) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Call:
    """One node as a call of a C kernel.

    `operands` are the activations in the kernel's order; constants are blobs in `params`. `scratch` gives the bytes of
    work space for a firing of so many rows. `by_rows` False keeps this call whole although its kernel could stream.
    `images` is how often the executor calls it, once per image; None: the batch of a rank-4 result, else once.
    `accumulates`: rows of a firing count rows of operand 0, and the result is there after the last. `overwrites`: the
    result may lie over operand 0, of the same shape, as every pixel is read before it is written. `results` False: what
    the kernel makes lies in no memory, as it goes to the caller. `keeps_scratch`: firings come in order
    and find their work space as the one before left it. `roomier` is the same call with work space of at most so many
    bytes, where more of it makes the kernel faster.
    """

    kernel: CKernel
    operands: tuple[Value, ...]
    params: Params
    scratch: Callable[[int], int] = field(default=_no_scratch)
    by_rows: bool = True
    images: int | None = None
    accumulates: bool = False
    overwrites: bool = False
    results: bool = True
    keeps_scratch: bool = False
    roomier: Callable[[int], Call] | None = None

    @property
    def streams(self) -> bool:
        """True iff the call may be made for part of the rows."""
        return self.by_rows and self.kernel.by_rows

    @property
    def over_sums(self) -> bool:
        """True iff the results may lie over the sums."""
        return self.accumulates and self.kernel.over_sums


def images_of(call: Call, results: tuple[Value, ...]) -> int:
    """How often the executor calls the kernel: once for each image of the batch, unless the call says otherwise."""
    if call.images is not None:
        return call.images
    type_ = results[0].type
    return type_.shape[0] if type_.rank == 4 else 1
