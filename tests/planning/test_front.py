"""What less memory costs: the front of choices, and what a refusal says of each technique."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from int8_networks import SEEDS, Builder, Kernels, random_graph
from trivet.errors import DoesNotFit
from trivet.planning.front import pareto_front
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.planner import plan


@given(SEEDS)
def test_no_point_of_the_front_beats_another(seed: int) -> None:
    front = pareto_front(random_graph(seed), Kernels(), PlanOptions(max_overhead=1.5))
    assert front
    assert not any(a.beats(b) for a in front for b in front)
    assert all(a.fast_bytes <= b.fast_bytes for a, b in pairwise(front))


def test_the_front_goes_from_rows_to_layers() -> None:
    b = Builder()
    graph = b.finish(b.conv(b.conv(b.conv(b.input(1, 24, 8, 4), 16), 16), 4))
    front = pareto_front(graph, Kernels(), PlanOptions())
    layers = plan(graph, None, None, Kernels()).region_bytes("fast")
    smallest = plan(graph, None, None, Kernels(), PlanOptions(Objective.MEMORY)).region_bytes("fast")
    assert front[0].fast_bytes <= smallest < front[-1].fast_bytes <= layers
    assert front[0].kernel_calls > front[-1].kernel_calls == 3


def test_a_refusal_says_what_each_technique_needs() -> None:
    b = Builder()
    graph = b.finish(b.conv(b.conv(b.input(1, 24, 8, 4), 16), 4))
    with pytest.raises(DoesNotFit) as refused:
        plan(graph, 700, None, Kernels())
    hint = str(refused.value.hint)
    for technique in ("layer by layer: 3,840", "row streams: ", "--max-overhead 1.25: ", "--input-rows"):
        assert technique in hint
    smallest = int(hint.split(" ")[0].replace(",", ""))
    assert plan(graph, smallest, None, Kernels()).region_bytes("fast") <= smallest
    with pytest.raises(DoesNotFit):
        plan(graph, smallest - 1, None, Kernels())
