"""Which values share memory, and how long they live."""

from __future__ import annotations

from int8_networks import Builder
from trivet.analysis.cost import total_cost
from trivet.analysis.liveness import Lifetime, layer_by_layer, lifetimes
from trivet.analysis.storage import Sharing, share_storage
from trivet.analysis.timeline import peak, timeline
from trivet.ir.graph import Graph, Value


def places(graph: Graph, *values: Value, sharing: Sharing | None = None) -> list[tuple[int, int]]:
    shared = share_storage(graph, layer_by_layer(graph.nodes), sharing)
    return [(shared.places[id(v)].storage, shared.places[id(v)].offset) for v in values]


def test_a_value_lives_from_its_step_to_its_last_reader() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 4)
    y = b.conv(x, 4)
    z = b.add(b.conv(y, 4), y)
    found = lifetimes(b.finish(z), layer_by_layer(b.graph.nodes))
    assert [found[id(v)] for v in (x, y, z)] == [Lifetime(-1, 0), Lifetime(0, 2), Lifetime(2, 3)]


def test_a_reshape_is_its_operand() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 4), 4)
    z = b.reshape(y, 1, 64)
    first, second = places(b.finish(z), y, z)
    assert first == second


def test_a_result_overwrites_an_operand_that_dies() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 4), 4)
    z = b.clamp(y)
    first, second = places(b.finish(z), y, z)
    assert first == second


def test_an_operand_with_a_later_reader_is_not_overwritten() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 4), 4)
    z = b.clamp(y)
    first, second = places(b.finish(b.conv(y, 4), z), y, z)
    assert first[0] != second[0]


def test_an_operand_whose_view_has_a_later_reader_is_not_overwritten() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 4), 4)
    view = b.reshape(y, 1, 64)
    z = b.clamp(y)
    first, second = places(b.finish(z, b.dense(view, 4)), y, z)
    assert first[0] != second[0]


def test_the_second_operand_of_an_addition_serves_as_well() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 4)
    left, right = b.conv(x, 4), b.conv(x, 4)
    z = b.add(left, right)
    kept, used, result = places(b.finish(z, b.conv(left, 4)), left, right, z)
    assert used == result != kept


def test_rows_are_joined_where_they_are_made() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 4)
    left, right = b.conv(x, 4), b.conv(x, 4)
    joined = b.concat(1, left, right)
    (s0, o0), (s1, o1), (s2, o2) = places(b.finish(joined), left, right, joined)
    assert s0 == s1 == s2 and (o0, o1, o2) == (0, 64, 0)


def test_channels_are_not_joined_in_place() -> None:
    b = Builder()
    x = b.input(1, 4, 4, 4)
    left, right = b.conv(x, 4), b.conv(x, 4)
    joined = b.concat(3, left, right)
    assert len({s for s, _ in places(b.finish(joined), left, right, joined)}) == 3


def test_a_value_joined_with_itself_is_copied() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 4), 4)
    joined = b.concat(1, y, y)
    assert len({s for s, _ in places(b.finish(joined), y, joined)}) == 2


def test_a_slice_of_rows_is_part_of_its_operand() -> None:
    b = Builder()
    y = b.conv(b.input(1, 4, 4, 4), 4)
    z = b.slice_rows(y, 1, 2)
    (s0, _), (s1, offset) = places(b.finish(z), y, z)
    assert s0 == s1 and offset == 16


def test_the_timeline_counts_operands_and_results_together() -> None:
    b = Builder()
    graph = b.finish(b.conv(b.conv(b.input(1, 4, 4, 4), 8), 4))
    moments = timeline(graph.nodes, share_storage(graph, layer_by_layer(graph.nodes)))
    assert [m.live_bytes for m in moments] == [64 + 128, 128 + 64]
    assert peak(moments) == 192


def test_costs_are_summed() -> None:
    b = Builder()
    graph = b.finish(b.conv(b.input(1, 4, 4, 4), 8))
    cost = total_cost(graph)
    assert (cost.macs, cost.parameters, cost.constant_bytes) == (4 * 4 * 8 * 36, 288, 288)
