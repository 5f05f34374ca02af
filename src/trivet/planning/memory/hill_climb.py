"""Seeded local search over the order in which first fit places blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trivet.core.late import late
from trivet.planning.memory.first_fit import FirstFit
from trivet.planning.memory.greedy import greedy
from trivet.planning.memory.greedy_by_size import order_by_size
from trivet.planning.memory.problem import Placement, Problem, lower_bound

if TYPE_CHECKING:
    import random
else:
    random = late("random")


def hill_climb(problem: Problem, seed: int = 0, work: int = 5_000) -> Placement:
    """The best placement met while swapping two blocks of the order, which is never worse than either greedy one.

    `work` bounds the blocks placed in total, so the time does not depend on the machine's load; the same seed gives
    the same answer.
    """
    fit = FirstFit(problem)
    order = order_by_size(problem)
    best = min((fit.place(order), greedy(problem)), key=lambda placement: placement.cost(problem))
    goal = lower_bound(problem)
    if len(order) < 2 or sum(best.cost(problem)) <= goal:
        return best
    generator = random.Random(seed)
    current = fit.place(order).cost(problem)
    for _ in range(work // len(order)):
        if sum(best.cost(problem)) <= goal:
            break
        i, j = generator.sample(range(len(order)), 2)
        order[i], order[j] = order[j], order[i]
        placement = fit.place(order)
        cost = placement.cost(problem)
        if cost > current:
            order[i], order[j] = order[j], order[i]
            continue
        current = cost
        if cost < best.cost(problem):
            best = placement
    return best
