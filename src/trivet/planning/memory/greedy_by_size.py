"""Large blocks first, first fit."""

from __future__ import annotations

from trivet.planning.memory.first_fit import FirstFit
from trivet.planning.memory.problem import Placement, Problem


def order_by_size(problem: Problem) -> list[int]:
    """Block indices, largest first, then earliest birth."""
    return sorted(range(len(problem.blocks)), key=lambda i: (-problem.blocks[i].size_bytes, problem.blocks[i].birth, i))


def greedy_by_size(problem: Problem) -> Placement:
    """The lowest legal address for each block, largest first."""
    return FirstFit(problem).place(order_by_size(problem))
