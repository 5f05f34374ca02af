"""Weight loads behind the computation."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from trivet.backends.tpu.ir import LOAD, ArrayLayer, Ints, Load, Program
from trivet.backends.tpu.passes.base import TilePass, with_passes
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class PrefetchWeights(TilePass):
    """load after the pass before  -->  load ahead, into the second plane, while the pass before streams.

    Tiles that come from the activation memory share its read port with the stream and stay as they are.
    """

    name: ClassVar[str] = "prefetch-weights"

    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        if not program.machine.double_buffered:
            return None
        tables: dict[int, Ints] = {}
        for index, layer in enumerate(program.layers):
            if isinstance(layer, ArrayLayer) and layer.b is None:
                after = layer.passes[:, LOAD] == Load.AFTER
                if after.any():
                    table = layer.passes.copy()
                    table[:, LOAD] = np.where(after, int(Load.AHEAD), table[:, LOAD])
                    tables[index] = table
                    fired["loads ahead"] += int(after.sum())
        return with_passes(program, tables) if tables else None
