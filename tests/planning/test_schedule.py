"""Ring depths against brute-forced vectors, and against exhaustive search on random streams with forks."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.core.dtype import F32
from trivet.ir.types import TensorType
from trivet.planning.plan import Edge
from trivet.planning.row_loop import NativeLoop
from trivet.planning.rows import Rows
from trivet.planning.schedule import (
    Actor,
    Ring,
    completes,
    demand_driven_depths,
    distances_in_python,
    make_link,
    minimal_depths,
    overlap_distances,
    ring_bytes,
)

FREELY = -(10**9)
"""How the cases say that input and output may overlap at will."""

CASES = [
    "audio_1d", "bilinear_x2", "chain_s2", "concat_rows", "conv5_s3", "dense_block", "dilated", "inception",
    "inverted_residual", "kws_10x4_asym", "resblock_s2_shortcut", "se_block", "skip_two_convs", "stride_gt_kernel",
    "two_outputs", "unet_small", "valid_odd",
]  # fmt: skip


def test_rows_count_bytes() -> None:
    assert Rows.of(TensorType(F32, (2, 5, 3, 7))) == Rows(5, 84)
    assert Rows.of(TensorType(F32, (5, 3))) == Rows(1, 60)


class Vector:
    """A case: one stream over the whole graph, the input made row by row by an actor of its own."""

    def __init__(self, path: Path, resident: bool = False) -> None:
        self.data = json.loads(path.read_text())
        ops = self.data["ops"][1:] if resident else self.data["ops"]
        self.makers = {op["output"]: index for index, op in enumerate(ops)}
        self.actors = [self.actor(op) for op in ops]
        outputs = set(self.data["outputs"])
        self.rings = [Ring(v, self.height(v), self.row_bytes(v)) for v in self.makers if v not in outputs]

    def height(self, value: int) -> int:
        return self.data["values"][value][0]

    def row_bytes(self, value: int) -> int:
        return self.data["values"][value][1] * self.data["values"][value][2]

    def actor(self, op: dict[str, Any]) -> Actor:
        accumulates = op["op"] == "gap"
        firings = self.height(op["inputs"][0] if accumulates else op["output"])
        edges = [self.edge(op, index) for index in range(len(op["inputs"]))]
        links = tuple(make_link(e, v, firings) for e, v in zip(edges, op["inputs"], strict=True))
        return Actor(firings, op["output"], accumulates, links)

    def edge(self, op: dict[str, Any], index: int) -> Edge:
        value = op["inputs"][index]
        source, height, stride = self.makers.get(value), self.height(value), op["stride"][0]
        match op["op"]:
            case "conv" | "dw" | "maxpool":
                return Edge(index, source, height, stride, op["pad_top_left"][0], op["kernel"][0], op["dilation"][0])
            case "conv1s2":
                return Edge(index, source, height, stride)
            case "up":
                return Edge(index, source, height, divisor=stride)
            case "bilin":
                return Edge(index, source, height, 2, stride - 1, 2, divisor=2 * stride, clamped=True)
            case "concat_h":
                return Edge(index, source, height, before=sum(self.height(v) for v in op["inputs"][:index]))
            case "fc":
                return Edge(index, source, height, 0, taps=height)
            case "mulb" if index == 1:
                return Edge(index, source, height, 0, taps=height)
            case "pw" | "add" | "concat" | "gap" | "mulb":
                return Edge(index, source, height)
        raise AssertionError(op["op"])


def vector(shared: Path, name: str, resident: bool = False) -> Vector:
    return Vector(shared / "cases" / "streaming" / f"{name}.json", resident)


@pytest.mark.parametrize("name", CASES)
def test_rings_take_the_fewest_bytes(shared: Path, name: str) -> None:
    case = vector(shared, name)
    wanted = case.data["stream"]
    assert ring_bytes(case.rings, minimal_depths(case.actors, case.rings)) == wanted["min_ring_bytes"]
    driven = demand_driven_depths(case.actors, case.rings)
    assert ring_bytes(case.rings, driven) == wanted["demand_driven_ring_bytes"]


@pytest.mark.parametrize("name", CASES)
def test_the_loop_fires_in_the_published_order(shared: Path, name: str) -> None:
    case = vector(shared, name)
    wanted = case.data["stream"]
    depths = {int(v): d for v, d in wanted["one_optimal_depth"].items()}
    order: list[list[int]] = []
    assert completes(case.actors, depths, lambda actor, firing, _: order.append([actor, firing]))
    assert len(order) == wanted["kernel_calls"]
    assert hashlib.sha256(json.dumps(order).encode()).hexdigest() == wanted["order_sha256"]


@pytest.mark.parametrize("name", CASES)
def test_no_ring_may_lose_a_row(shared: Path, name: str) -> None:
    case = vector(shared, name)
    depths = minimal_depths(case.actors, case.rings)
    for ring in case.rings:
        shallower = {**depths, ring.storage: depths[ring.storage] - 1}
        assert depths[ring.storage] == 1 or not completes(case.actors, shallower)


@pytest.mark.parametrize("name", CASES)
def test_an_output_may_follow_the_input_it_consumes(shared: Path, name: str) -> None:
    case = vector(shared, name, resident=True)
    if "overlap" not in case.data:
        pytest.skip("the case has several outputs")
    wanted, (output,) = case.data["overlap"], case.data["outputs"]
    depths = {int(v): d for v, d in wanted["depth"].items()}
    found = overlap_distances(case.actors, depths, {output: case.row_bytes(output)}, {0: case.row_bytes(0)})
    assert found.get((output, 0), FREELY) == wanted["distance"]


@st.composite
def random_streams(draw: st.DrawFn) -> tuple[list[Actor], list[Ring]]:
    """A source and a few windowed or joining actors, all of whose values but the last are rings."""
    heights = [draw(st.integers(3, 6))]
    actors = [Actor(heights[0], 0, False, ())]
    for index in range(1, draw(st.integers(3, 5))):
        first = index - 1 if draw(st.booleans()) else draw(st.integers(0, index - 1))
        second = draw(st.integers(0, index - 1))
        if heights[first] == heights[second] and second != first:
            sources, stride, kernel, before = [first, second], 1, 1, 0
        else:
            sources, stride, kernel = [first], draw(st.integers(1, 2)), draw(st.integers(1, 3))
            before = draw(st.integers(0, kernel - 1))
        height = max(1, (heights[first] + 2 * before - kernel) // stride + 1)
        edges = [Edge(0, s, heights[s], stride, before, kernel) for s in sources]
        links = tuple(make_link(e, s, height) for e, s in zip(edges, sources, strict=True))
        heights.append(height)
        actors.append(Actor(height, index, False, links))
    rows = [draw(st.integers(1, 9)) for _ in heights]
    return actors, [Ring(v, heights[v], rows[v]) for v in range(len(heights) - 1)]


@given(random_streams())
def test_no_depths_take_fewer_bytes(stream: tuple[list[Actor], list[Ring]]) -> None:
    actors, rings = stream
    choices = itertools.product(*[range(1, ring.height + 1) for ring in rings])
    vectors = ({ring.storage: d for ring, d in zip(rings, choice, strict=True)} for choice in choices)
    best = min(ring_bytes(rings, depths) for depths in vectors if completes(actors, depths))
    found = minimal_depths(actors, rings)
    assert completes(actors, found)
    assert ring_bytes(rings, found) == best


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=4))
def test_chains_need_the_dilated_extent_of_each_window(windows: list[tuple[int, int, int]]) -> None:
    heights = [40]
    actors = [Actor(40, 0, False, ())]
    for index, (kernel, stride, dilation) in enumerate(windows, 1):
        extent = (kernel - 1) * dilation + 1
        heights.append((heights[-1] - 1) // stride + 1)
        edge = Edge(0, index - 1, heights[-2], stride, (extent - 1) // 2, kernel, dilation)
        actors.append(Actor(heights[-1], index, False, (make_link(edge, index - 1, heights[-1]),)))
    rings = [Ring(i, height, 1) for i, height in enumerate(heights[:-1])]
    depths = minimal_depths(actors, rings)
    extents = [(kernel - 1) * dilation + 1 for kernel, _, dilation in windows]
    for index, extent in enumerate(extents):
        if heights[index] > 2 * extent + 3:
            assert depths[index] == extent


@given(random_streams(), st.data())
def test_the_loop_in_c_is_the_loop_in_python(stream: tuple[list[Actor], list[Ring]], data: st.DataObject) -> None:
    actors, rings = stream
    least = minimal_depths(actors, rings)
    depths = {storage: data.draw(st.integers(1, depth + 1)) for storage, depth in least.items()}
    loop = NativeLoop(actors)
    assert loop.completes(depths) == completes(actors, depths)
    assert loop.completes(least)
    inputs = {link.storage for actor in actors for link in actor.links if link.source is None}
    lower = {actor.storage: data.draw(st.integers(1, 9)) for actor in actors}
    upper = {storage: data.draw(st.integers(1, 9)) for storage in sorted(inputs)}
    assert loop.distances(least, lower, upper) == distances_in_python(actors, least, lower, upper)
