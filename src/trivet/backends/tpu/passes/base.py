"""What a tile pass is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from trivet.backends.tpu.ir import LOAD, TILE, ArrayLayer, Ints, K, Layer, Load, N, Program
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class TilePass(ABC):
    """One named rewrite of a program. The docstring of a subclass is its rewrite: before --> after."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        """The better program, None where nothing changes; `fired` counts the rewrites."""


def with_passes(program: Program, tables: dict[int, Ints], macs: Mapping[int, int] = MappingProxyType({})) -> Program:
    """The program with other passes, and other counts of useful MACs, in some of its array layers."""
    layers: list[Layer] = list(program.layers)
    for index, table in tables.items():
        layer = layers[index]
        assert isinstance(layer, ArrayLayer)
        layers[index] = replace(layer, passes=table, macs=macs.get(index, layer.macs))
    return program.with_layers(layers)


def set_loads(table: Ints) -> None:
    """A pass loads its tile, when the array is empty, unless the pass before has left it there."""
    streams = np.flatnonzero(table[:, K] >= 0)
    tiles = table[streams][:, [TILE]] if (table[streams, TILE] >= 0).all() else table[streams][:, [K, N]]
    stays = np.zeros(len(streams), np.bool_)
    stays[1:] = np.all(tiles[1:] == tiles[:-1], axis=1)
    table[streams, LOAD] = np.where(stays, int(Load.NONE), int(Load.AFTER))
