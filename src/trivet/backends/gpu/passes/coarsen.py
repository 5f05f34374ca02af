"""A block does the work of several, so that what they have in common is done once."""

from __future__ import annotations

from collections import Counter

from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.passes.outlook import outlook
from trivet.backends.gpu.passes.several_rows import of_several_blocks
from trivet.core.record import dataclass

MOST_ROWS = 4
"""Each of them needs a register for its sum."""


@dataclass(frozen=True, slots=True)
class Coarsen:
    """grid 8 { t = add bid, 5; b = load [tid]; ... }  -->  grid 4 { t = ...; t.1 = add t, 1; b = load [tid]; ... }

    For two to four blocks, where the cycle model loses nothing, fewer instructions are executed and registers suffice.
    Kernels with tiles are left alone: `shared-tile` has taken as many rows as it wanted.
    """

    name: str = "coarsen"

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        best, least = kernel, outlook(kernel, machine)
        for rows in range(2, min(MOST_ROWS, kernel.grid) + 1):
            form = of_several_blocks(kernel, rows)
            made = None if form is None else outlook(form, machine)
            if form is None or made is None or made.spilled > least.spilled:
                continue
            if made.instructions < least.instructions and made.cycles <= least.cycles:
                best, least = form, made
        fired["merged"] += best is not kernel
        return best
