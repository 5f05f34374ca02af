"""Plans with a slow memory on the host runtime: every element as in the untiled plan, both memories measured."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from int8_networks import SEEDS, random_graph, random_inputs
from networks import networks
from trivet import driver
from trivet.backends.plan.host import HostModel
from trivet.backends.plan.legalize import LegalizePlan
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.writer import write
from trivet.ir.graph import Graph
from trivet.planning.plan import FAST, SLOW
from trivet.planning.planner import plan
from trivet.planning.traffic import traffic

PLENTY = 8 << 20

TRAFFIC = {
    ("tiny__kws_ref_model", 896): 281_460,
    ("tiny__pretrainedResnet_quant", 896): 351_450,
    ("tiny__vww_96_int8", 2816): 604_322,
    ("tiny__vww_96_int8", 32768): 111_746,
}
"""Bytes that TiGrIS 0.12.1 moves in so much fast memory, by its own report: 256 bytes above the smallest that it takes,
and 32 KB. (In ad01, 1,280 bytes of traffic would need more than the layer-wise sum of both memories.)"""


@cache
def loaded(name: str) -> tuple[Graph, Selection]:
    found = [n for n in networks("tflite") if n.name == name]
    if not found:
        pytest.skip("the directory of real networks is not there")
    legalize, settings_ = LegalizePlan(), driver.Settings()
    graph = driver.load(found[0].path, settings_).graph
    driver.optimize(graph, settings_, (), (legalize,))
    return graph, legalize.selection


def untiled(library: ctypes.CDLL, graph: Graph, selection: Selection) -> tuple[int, list[np.ndarray]]:
    made = plan(graph, None, None, selection)
    return made.region_bytes(FAST), HostModel(write(made, selection), library).run(random_inputs(graph))


CASES = [
    ("tiny__kws_ref_model", (640, 896, 2048, 4096, 16000)),
    ("tiny__pretrainedResnet_quant", (896, 4096, 12288)),
    ("tiny__vww_96_int8", (2816, 8192, 32768)),
    ("tiny__ad01_int8", (128, 1024)),
]


@pytest.mark.parametrize(("name", "budget"), [(name, budget) for name, budgets in CASES for budget in budgets])
def test_real_networks(library: ctypes.CDLL, shared: object, name: str, budget: int) -> None:
    graph, selection = loaded(name)
    total, wanted = untiled(library, graph, selection)
    made = plan(graph, budget, PLENTY, selection)
    model, inputs = HostModel(write(made, selection), library), random_inputs(graph)
    for actual, expected in zip(model.run(inputs), wanted, strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert model.high_waters(inputs) == [made.region_bytes(FAST), made.region_bytes(SLOW)]
    assert made.region_bytes(FAST) <= budget
    assert made.region_bytes(FAST) + made.region_bytes(SLOW) <= total
    assert traffic(made).total_bytes <= TRAFFIC.get((name, budget), PLENTY)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], max_examples=20)
@given(seed=SEEDS, share=st.floats(0.1, 1))
def test_random_networks(library: ctypes.CDLL, seed: int, share: float) -> None:
    graph, selection = random_graph(seed, max_size=12), Selection()
    assume(all(selection.find(node) is not None for node in graph.nodes if not node.op.views_input))
    total, wanted = untiled(library, graph, selection)
    made = plan(graph, max(64, round(share * total)), PLENTY, selection)
    model = HostModel(write(made, selection), library)
    for actual, expected in zip(model.run(random_inputs(graph)), wanted, strict=True):
        np.testing.assert_array_equal(actual, expected)
