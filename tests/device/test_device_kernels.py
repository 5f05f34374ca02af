"""Every kernel that a core has, on that core, over swept shapes: each element is the oracle's, each access aligned."""

from __future__ import annotations

import pytest
from devices import M4, M55
from kernel_bench import check_graphs
from swept_layers import drawn

COUNTS = {"convolution": 70, "depthwise": 60, "dense": 25, "pool": 15, "binary": 15}


@pytest.mark.parametrize("machine", [M4, M55])
def test_layers_of_every_shape(machine: str) -> None:
    graphs = {name: graph for kind, count in COUNTS.items() for name, graph in drawn(kind, count).items()}
    assert all(count > 0 for count in check_graphs(graphs, machine).values())
