"""Pass numbers without gaps."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from trivet.backends.tpu.ir import ID, ArrayLayer, Ints, Program
from trivet.backends.tpu.passes.base import TilePass, with_passes
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class RenumberPasses(TilePass):
    """pass 0, pass 3, pass 7  -->  pass 0, pass 1, pass 2, in each layer."""

    name: ClassVar[str] = "renumber-passes"

    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        tables: dict[int, Ints] = {}
        for index, layer in enumerate(program.layers):
            if isinstance(layer, ArrayLayer) and not np.array_equal(layer.passes[:, ID], np.arange(len(layer.passes))):
                tables[index] = layer.passes.copy()
                tables[index][:, ID] = np.arange(len(layer.passes))
                fired["layers"] += 1
        return with_passes(program, tables) if tables else None
