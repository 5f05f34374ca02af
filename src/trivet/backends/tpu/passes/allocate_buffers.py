"""Addresses in the activation memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from trivet.backends.tpu.ir import Buffer, Program, operands
from trivet.backends.tpu.passes.base import TilePass
from trivet.core.record import dataclass
from trivet.planning.memory.exact import exact
from trivet.planning.memory.problem import Block, Problem
from trivet.planning.memory.validate import violations
from trivet.planning.plan import Region

REGION = "activation"

WORD = 4
"""Bytes that addresses and, for the solver's bound to be sharp, sizes are multiples of."""


@dataclass(frozen=True, slots=True)
class AllocateBuffers(TilePass):
    """every buffer its own bytes  -->  buffers that do not live together share them, placed by the planner's solver.

    Inputs, constants and cleared buffers live from the start, outputs to the end, states always.
    """

    name: ClassVar[str] = "allocate-buffers"

    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        if not program.buffers:
            return None
        problem = placement_problem(program)
        placement = exact(problem)
        assert not violations(problem, placement)
        if placement.peak(problem, REGION) >= program.used_bytes:
            return None
        fired["bytes saved"] += program.used_bytes - placement.peak(problem, REGION)
        moved: list[Buffer] = [
            replace(buffer, address=spot.offset) for buffer, spot in zip(program.buffers, placement.spots, strict=True)
        ]
        return replace(program, buffers=moved).with_layers(program.layers)


def placement_problem(program: Program) -> Problem:
    """Every buffer as a block that lives from its first writer to its last reader."""
    blocks = tuple(
        Block(buffer.name, -(-buffer.size_bytes // WORD) * WORD, *life, alignment=WORD)
        for buffer, life in zip(program.buffers, _lives(program), strict=True)
    )
    return Problem(blocks, (Region(REGION, None, WORD),))


def _lives(program: Program) -> list[tuple[int, int]]:
    """First and last layer that needs each buffer; -1 is before the first layer."""
    last = len(program.layers)
    births, deaths = [last] * len(program.buffers), [-1] * len(program.buffers)
    for time, layer in enumerate(program.layers):
        for index in (layer.target.buffer, *(view.buffer for view in operands(layer))):
            births[index], deaths[index] = min(births[index], time), max(deaths[index], time)
    for index in (*(port.buffer for port in program.inputs), *program.constants, *program.states):
        births[index] = -1
    for index in (*(port.buffer for port in program.outputs), *program.states):
        deaths[index] = last
    for index, buffer in enumerate(program.buffers):
        if buffer.cleared:
            births[index] = -1
    return [(min(birth, death), death) for birth, death in zip(births, deaths, strict=True)]
