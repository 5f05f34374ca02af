"""The order of lowest peak, against all topological orders of small SEEDS."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given

from int8_networks import SEEDS, Builder, random_graph
from trivet.analysis.liveness import layer_by_layer
from trivet.analysis.storage import Sharing, share_storage
from trivet.ir.graph import Graph, Node
from trivet.planning.order import find_order


def topological_orders(graph: Graph) -> Iterator[list[Node]]:
    def extend(done: list[Node]) -> Iterator[list[Node]]:
        if len(done) == len(graph.nodes):
            yield list(done)
        for node in graph.nodes:
            producers = [v.producer for v in node.inputs if v.producer is not None]
            if node not in done and all(p in done for p in producers):
                yield from extend([*done, node])

    return extend([])


def peak_of(graph: Graph, nodes: list[Node]) -> int:
    shared = share_storage(graph, layer_by_layer(nodes), Sharing(in_place=False, parts=False))
    return max(
        sum(storage.size_bytes for storage in shared.storages if storage.lifetime.covers(step))
        for step in range(len(nodes))
    )


@given(SEEDS)
def test_no_order_has_a_lower_peak(seed: int) -> None:
    graph = random_graph(seed, max_ops=6)
    found = find_order(graph)
    assert found.proved
    assert found.peak_bytes == peak_of(graph, list(found.nodes))
    assert found.peak_bytes == min(peak_of(graph, order) for order in topological_orders(graph))


def test_interleaved_branches_are_run_one_after_the_other() -> None:
    b = Builder()
    x = b.input(1, 8, 8, 4)
    wide = [b.conv(x, 32), b.conv(x, 32)]
    graph = b.finish(b.add(*(b.conv(value, 4) for value in wide)))
    found = find_order(graph)
    assert found.proved
    assert (peak_of(graph, graph.nodes), found.peak_bytes) == (256 + 2 * 2048, 256 + 256 + 2048)


@given(SEEDS)
def test_without_search_a_bound_is_told(seed: int) -> None:
    graph = random_graph(seed)
    exact, found = find_order(graph), find_order(graph, max_states=0)
    assert found.lower_bound <= exact.peak_bytes <= found.peak_bytes
