"""Blocks in order of birth, first fit: what a simple runtime allocator does."""

from __future__ import annotations

from trivet.planning.memory.first_fit import FirstFit
from trivet.planning.memory.problem import Placement, Problem


def greedy(problem: Problem) -> Placement:
    """The lowest legal address for each block, earliest birth first."""
    order = sorted(range(len(problem.blocks)), key=lambda i: (problem.blocks[i].birth, i))
    return FirstFit(problem).place(order)
