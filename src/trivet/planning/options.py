"""What a user may ask of the planner."""

from __future__ import annotations

from enum import Enum

from trivet.core.record import dataclass
from trivet.planning.layout import Solver
from trivet.planning.memory.exact import exact
from trivet.planning.memory.greedy import greedy
from trivet.planning.memory.greedy_by_size import greedy_by_size
from trivet.planning.memory.hill_climb import hill_climb


class Objective(Enum):
    """What to spend when the budget leaves a choice."""

    SPEED = "speed"
    MEMORY = "memory"


class Allocator(Enum):
    """The address solvers by the names that the command line takes."""

    GREEDY = "greedy"
    GREEDY_BY_SIZE = "greedy_by_size"
    HILL_CLIMB = "hill_climb"
    EXACT = "exact"

    @property
    def solve(self) -> Solver:
        match self:
            case Allocator.GREEDY:
                return greedy
            case Allocator.GREEDY_BY_SIZE:
                return greedy_by_size
            case Allocator.HILL_CLIMB:
                return hill_climb
            case Allocator.EXACT:
                return exact


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """`preserve_inputs`: the plan leaves the inputs as they were. `alignment`: of every tensor, in bytes.
    `max_overhead`: multiply-accumulates executed, in relation to those of the layers. `slow_blocks`: the target has
    kernels for layers that blocks of them do without.
    """

    objective: Objective = Objective.SPEED
    allocator: Allocator = Allocator.EXACT
    preserve_inputs: bool = False
    alignment: int = 4
    max_overhead: float = 1.0
    slow_blocks: bool = False
