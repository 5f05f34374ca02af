"""Networks whose rows move between convolutions: as streams, where the movement can, they give what they mean."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from test_planned import check

from int8_networks import QUANT, SEEDS, Builder
from trivet.backends.plan.selection import Selection
from trivet.core.numerics import Numerics
from trivet.ir.graph import Graph, Value
from trivet.ops import movement as m
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest
from trivet.planning.options import Objective, PlanOptions
from trivet.planning.planner import FAST, plan

LIMIT = 12
"""Rows and columns that a network grows to."""


def pad(random: np.random.Generator, b: Builder, x: Value) -> Value:
    mode = m.PadMode(random.choice([mode.value for mode in m.PadMode]))
    _, height, width, _ = x.type.shape
    before = (0, int(random.integers(0, min(3, height))), int(random.integers(0, min(3, width))), 0)
    after = (0, int(random.integers(0, min(3, height))), int(random.integers(0, min(3, width))), 0)
    return b.emit(m.Pad(before, after, QUANT.zero_point, mode), x)


def slice_(random: np.random.Generator, b: Builder, x: Value) -> Value:
    starts, sizes, steps = [0], [1], [1]
    for size in x.type.shape[1:3]:
        step = int(random.choice([1, 2, 3, -1, -2]))
        first = int(random.integers(0, 2)) if step > 0 else size - 1 - int(random.integers(0, 2))
        first = min(max(first, 0), size - 1)
        steps.append(step)
        starts.append(first)
        sizes.append((size - 1 - first) // step + 1 if step > 0 else first // -step + 1)
    return b.emit(m.Slice((*starts, 0), (*sizes, x.type.shape[3]), (*steps, 1)), x)


def blocks(random: np.random.Generator, b: Builder, x: Value) -> Value:
    _, height, width, channels = x.type.shape
    if random.integers(2) and height % 2 == width % 2 == 0:
        return b.emit(m.SpaceToDepth(2), x)
    return b.emit(m.DepthToSpace(2, bool(random.integers(2))), x) if channels % 4 == 0 and height < LIMIT else x


def resize(random: np.random.Generator, b: Builder, x: Value) -> Value:
    size = (int(random.integers(1, LIMIT)), int(random.integers(1, LIMIT)))
    if random.integers(2):
        coordinates = random.choice([Coordinates.HALF_PIXEL, Coordinates.ALIGN_CORNERS, Coordinates.ASYMMETRIC])
        return b.emit(ResizeBilinear(size, coordinates, None, Numerics.TFLM), x)
    return b.emit(ResizeNearest(size, random.choice(list(Coordinates)), random.choice(list(NearestRounding))), x)


def repeat(random: np.random.Generator, b: Builder, x: Value) -> Value:
    n, height, width, channels = x.type.shape
    if random.integers(2):
        part = b.emit(m.Slice((0, 0, 0, 0), (n, 1, width, channels), (1, 1, 1, 1)), x)
        return b.emit(m.Expand((n, int(random.integers(1, LIMIT)), width, channels)), part)
    return b.emit(m.Tile((1, int(random.integers(1, 3)), int(random.integers(1, 3)), 1)), x) if height < LIMIT else x


def transpose(random: np.random.Generator, b: Builder, x: Value) -> Value:
    perm = (0, *(int(axis) for axis in random.permutation([1, 2, 3])))
    y = b.emit(m.Transpose(perm), x)
    return b.conv(y, 4, kernel=1)


def concat(random: np.random.Generator, b: Builder, x: Value) -> Value:
    axis = int(random.integers(1, 4))
    shape = list(x.type.shape)
    shape[axis] = 4
    other = b.graph.constant(random.integers(-9, 9, shape).astype(np.int8), x.type.with_shape(tuple(shape)))
    values = [x, b.clamp(x), other]
    return b.concat(axis, *(values[i] for i in random.permutation(3)))


MOVES = [pad, slice_, blocks, resize, repeat, transpose, concat]


def random_network(seed: int) -> Graph:
    random, b = np.random.default_rng(seed), Builder(seed)
    x = b.input(1, int(random.integers(1, 12)), int(random.integers(1, 8)), 4)
    for _ in range(random.integers(1, 5)):
        x = b.conv(MOVES[random.integers(len(MOVES))](random, b, x), 4 * int(random.integers(1, 3)), 3)
    return b.finish(x)


@settings(max_examples=20)
@given(seed=SEEDS)
def test_random_networks(library: ctypes.CDLL, seed: int) -> None:
    graph, selection = random_network(seed), Selection()
    layers = plan(graph, None, None, selection)
    smallest = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    between = (layers.region_bytes(FAST) + smallest.region_bytes(FAST)) // 2
    for made in (layers, smallest, plan(graph, between, None, selection)):
        check(library, graph, made, selection)


@pytest.mark.parametrize(
    "op",
    [
        m.Pad((0, 2, 2, 0), (0, 2, 2, 0), 3),
        m.Slice((0, 1, 0, 0), (1, 10, 7, 4), (1, 2, 1, 1)),
        m.DepthToSpace(2),
        m.SpaceToDepth(2),
        m.Tile((1, 1, 3, 1)),
        ResizeNearest((48, 16)),
        ResizeNearest((30, 5)),
        ResizeBilinear((36, 12), numerics=Numerics.TFLM),
        ResizeBilinear((36, 12), Coordinates.ALIGN_CORNERS, numerics=Numerics.TFLM),
    ],
    ids=repr,
)
def test_movements_by_rows_keep_few_rows(library: ctypes.CDLL, op: object) -> None:
    """A wide map before and after the movement is never whole in memory."""
    b, selection = Builder(), Selection()
    before = b.conv(b.input(1, 24, 8, 4), 32)
    after = b.emit(op, before)
    graph = b.finish(b.conv(after, 4, stride=2))
    made = plan(graph, None, None, selection, PlanOptions(Objective.MEMORY))
    assert made.view(before).is_ring
    check(library, graph, made, selection)
