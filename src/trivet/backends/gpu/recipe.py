"""What lowering says of an operator before addresses are known, and the table of operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.machine import Machine
from trivet.backends.table import KernelTable
from trivet.core.record import dataclass
from trivet.ir.graph import Value

Words = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Addresses:
    """First words of a kernel's operands, constants and result."""

    operands: tuple[int, ...]
    constants: tuple[int, ...]
    result: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """A kernel to be: what it reads, and how to write it once all of that has a place.

    `operands` are values of the graph, constants among them; `constants` are tables that only this kernel reads.
    `extended` says that it needs instructions of the extended machine.
    """

    operands: tuple[Value, ...]
    write: Callable[[str, Addresses, Machine], Kernel]
    constants: tuple[Words, ...] = ()
    extended: bool = True


RECIPES: KernelTable[Recipe] = KernelTable("gpu")
