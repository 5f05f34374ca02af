"""Several fast memories: what lies where, what is refused, and that the plans compute what they did."""

from __future__ import annotations

import numpy as np
import pytest

from int8_networks import Builder, Kernels, expected, random_inputs
from trivet.errors import CompileError, DoesNotFit
from trivet.ir.graph import Graph
from trivet.planning.memories import Memories, Pin
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.plan import BufferKind, ExecutionPlan, Region
from trivet.planning.planner import plan
from trivet.planning.regions import plan_in_regions
from trivet.planning.simulate import simulate
from trivet.planning.validate import violations


def network() -> Graph:
    """12x12x4 -> 12x12x8 -> 12x12x8 -> mean -> dense."""
    b = Builder()
    x = b.conv(b.input(1, 12, 12, 4), 8)
    return b.finish(b.dense(b.mean(b.depthwise(x)), 5))


def planned(graph: Graph, memories: Memories, objective: Objective = Objective.SPEED) -> ExecutionPlan:
    return plan_in_regions(graph, memories, None, Kernels(), PlanOptions(objective))


def sizes(*regions: tuple[str, int]) -> tuple[Region, ...]:
    return tuple(Region(name, size, 4) for name, size in regions)


def region_of(made: ExecutionPlan, name: str) -> str:
    value = next(v for v in made.graph.inputs + [n.output for n in made.graph.nodes] if v.name == name)
    return made.buffers[made.view(value).buffer].region


def test_the_first_memory_is_filled_first() -> None:
    made = planned(network(), Memories(sizes(("dtcm", 1200), ("sram", 4096))))
    assert made.region_bytes("dtcm") <= 1200
    assert {b.region for b in made.buffers if b.kind is BufferKind.SCRATCH} == {"dtcm"}
    assert {b.region for b in made.buffers if b.size_bytes > 1200} == set()
    assert violations(made) == []


def test_one_large_memory_alone_is_like_one_budget() -> None:
    made = planned(network(), Memories(sizes(("sram", 4096), ("psram", 1 << 20))))
    assert made.region_bytes("psram") == 0
    assert made.region_bytes("sram") == plan(network(), None, None, Kernels()).region_bytes("fast")


@pytest.mark.parametrize(
    "pins", [(Pin("v0", "sram"), Pin("v1", "dtcm")), (Pin("@input", "sram"), Pin("@output", "sram"), Pin("v1", "sram"))]
)
def test_pinned_tensors_lie_where_they_must(pins: tuple[Pin, ...]) -> None:
    made = planned(network(), Memories(sizes(("dtcm", 4096), ("sram", 4096)), pins))
    named = {pin.what: pin.region for pin in pins}
    assert all(region_of(made, name) == region for name, region in named.items() if not name.startswith("@"))
    if "@input" in named:
        kinds = {b.kind: b.region for b in made.buffers}
        assert (kinds[BufferKind.INPUT], kinds[BufferKind.OUTPUT]) == ("sram", "sram")
    inputs = random_inputs(made.graph)
    assert all(
        np.array_equal(a, e) for a, e in zip(simulate(made, inputs)[0], expected(made.graph, inputs), strict=True)
    )


def test_the_pin_of_a_tensor_wins_over_that_of_its_kind() -> None:
    pins = (Pin("@activation", "sram"), Pin("v1", "dtcm"))
    made = planned(network(), Memories(sizes(("dtcm", 4096), ("sram", 4096)), pins))
    assert (region_of(made, "v0"), region_of(made, "v1")) == ("sram", "dtcm")


def test_streams_are_used_where_layers_do_not_fit() -> None:
    memories = Memories(sizes(("dtcm", 700), ("sram", 400)))
    made = planned(network(), memories)
    assert any(view.is_ring for view in made.views.values())
    assert made.region_bytes("dtcm") <= 700 and made.region_bytes("sram") <= 400
    inputs = random_inputs(made.graph)
    assert all(
        np.array_equal(a, e) for a, e in zip(simulate(made, inputs)[0], expected(made.graph, inputs), strict=True)
    )


def test_addresses_follow_the_alignment_of_the_memory() -> None:
    regions = (Region("dtcm", 1200, 32), Region("sram", 4096, 64))
    made = planned(network(), Memories(regions, (Pin("@activation", "sram"),)))
    assert all(b.offset % (64 if b.region == "sram" else 32) == 0 for b in made.buffers)


@pytest.mark.parametrize(
    ("memories", "complaint"),
    [
        (Memories(sizes(("a", 0), ("b", 4096))), "memory a has 0 bytes"),
        (Memories((Region("a", 4096, 12),)), "alignment of 12, which is no power of two"),
        (Memories((Region("a", 4096, 0),)), "alignment of 0, which is no power of two"),
        (Memories(sizes(("a", 4096), ("a", 64))), "memory a is given twice"),
        (Memories(sizes(("a", 4096)), (Pin("v0", "b"),)), "'v0' is pinned to 'b'"),
        (Memories(sizes(("a", 4096)), (Pin("@weights", "a"),)), "'@weights' is no kind of tensor"),
        (Memories(sizes(("a", 4096), ("b", 4096)), (Pin("v0", "a"), Pin("v0", "b"))), "'v0' is pinned to a and to b"),
        (Memories(sizes(("a", 4096)), (Pin("v00", "a"),)), "did you mean 'v0'"),
    ],
)
def test_what_makes_no_sense_is_refused(memories: Memories, complaint: str) -> None:
    with pytest.raises(CompileError) as caught:
        planned(network(), memories)
    assert complaint in str(caught.value)


def test_tensors_that_share_bytes_cannot_be_pinned_apart() -> None:
    b = Builder()
    x = b.conv(b.input(1, 4, 4, 4), 8)
    graph = b.finish(b.dense(b.reshape(x, 1, 128), 3))
    with pytest.raises(CompileError, match="they share their bytes"):
        planned(graph, Memories(sizes(("a", 4096), ("b", 4096)), (Pin("v0", "a"), Pin("v1", "b"))))


def test_a_memory_too_small_for_its_pins_says_how_much_is_missing() -> None:
    with pytest.raises(DoesNotFit, match="memory dtcm has 100 bytes, 476 too few for what must lie there"):
        planned(network(), Memories(sizes(("dtcm", 100), ("sram", 4096)), (Pin("@input", "dtcm"),)))


def test_what_fits_in_no_way_is_refused_with_the_bytes_that_are_missing() -> None:
    with pytest.raises(DoesNotFit, match="bytes"):
        planned(network(), Memories(sizes(("a", 200), ("b", 200), ("c", 200))))
