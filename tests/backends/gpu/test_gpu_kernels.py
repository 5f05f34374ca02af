"""Requantized operators on the extended machine equal the oracle, bit for bit, at every level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import expected, program_of, run, same
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trivet import driver
from trivet.backends.gpu.limits import Limits, problems
from trivet.backends.gpu.machine import read_machine
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.elementwise import Add
from trivet.ops.matmul import Dense
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.reduce import Mean
from trivet.ops.softmax import Softmax

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "models" / "digits_int8.tflite"
X, Y = Quant.per_tensor(0.05, 3), Quant.per_tensor(0.07, -5)
TFLM = Numerics.TFLM


def image(*shape: int, quant: Quant = X) -> TensorType:
    return TensorType(I8, shape, quant)


def weight(graph: Graph, rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> Value:
    """Weights with a scale for each channel, some of which need a left shift."""
    scales = rng.choice([0.001, 0.02, 0.3, 1.7], shape[axis])
    quant = Quant.per_axis(scales, np.zeros(shape[axis], int), axis)
    return graph.constant(rng.integers(-127, 128, shape).astype(np.int8), TensorType(I8, shape, quant))


def bias(graph: Graph, rng: np.random.Generator, channels: int) -> Value:
    return graph.constant(rng.integers(-900, 900, channels).astype(np.int32), TensorType(I32, (channels,)))


def check(graph: Graph, level: int, seed: int) -> None:
    assert not problems(graph, Limits(read_machine(), True))
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, v.type.shape).astype(np.int8) for v in graph.inputs]
    outputs, _ = run(program_of(graph, level), inputs, check_races=True)
    assert same(outputs, expected(graph, inputs))


LEVEL = st.sampled_from([0, 1, 2])
SEED = st.integers(0, 99)


@settings(max_examples=8)
@given(SEED, LEVEL, st.integers(1, 2), st.sampled_from([((0, 0), (0, 0)), ((1, 0), (1, 1))]), st.integers(1, 3))
def test_convolutions(seed: int, level: int, images: int, pads: tuple, channels: int) -> None:  # type: ignore[type-arg]
    rng, graph = np.random.default_rng(seed), Graph()
    x = graph.add_input("x", image(images, 5, 4, channels))
    kernel, stride = tuple(rng.integers(1, 4, 2).tolist()), tuple(rng.integers(1, 3, 2).tolist())
    w = weight(graph, rng, (3, *kernel, channels), 0)
    op = Conv2D(stride=stride, pads=pads, out=Y, numerics=TFLM, clamp=Bounds(-100, 90))
    mid = graph.emit(op, x, w, bias(graph, rng, 3))
    taps = (min(2, mid.type.shape[1]), min(2, mid.type.shape[2]))
    depthwise = DepthwiseConv2D(pads=((0, 1), (0, 0)), out=X, numerics=TFLM)
    graph.add_output(graph.emit(depthwise, mid, weight(graph, rng, (*taps, 3), 2), bias(graph, rng, 3)))
    check(graph, level, seed)


@settings(max_examples=6)
@given(SEED, LEVEL, st.integers(1, 3), st.integers(1, 9), st.integers(1, 6))
@example(seed=0, level=1, rows=1, inner=3, outputs=1)
def test_dense_layers_and_softmax(seed: int, level: int, rows: int, inner: int, outputs: int) -> None:
    rng, graph = np.random.default_rng(seed), Graph()
    x = graph.add_input("x", image(rows, inner))
    dense = Dense(out=Y, numerics=TFLM)
    scores = graph.emit(dense, x, weight(graph, rng, (outputs, inner), 0), bias(graph, rng, outputs))
    soft = Softmax(axis=1, out=Quant.per_tensor(1 / 256, -128), dtype=I8, numerics=TFLM)
    graph.add_output(graph.emit(soft, scores))
    check(graph, level, seed)


POOLS: list[tuple[str, Op]] = [
    ("max", MaxPool2D((2, 2), (1, 2), pads=((1, 0), (0, 1)))),
    ("max of a part", MaxPool2D((3, 1), clamp=Bounds(-20, 20))),
    ("average of an even count", AveragePool2D((2, 2), (2, 1), out=X, numerics=TFLM)),
    ("average of an odd count", AveragePool2D((3, 1), (1, 1), out=X, numerics=TFLM)),
    ("mean", Mean((1, 2), False, out=Y, numerics=TFLM)),
]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("op", [op for _, op in POOLS], ids=[name for name, _ in POOLS])
def test_pools(op: Op, level: int) -> None:
    graph = Graph()
    graph.add_output(graph.emit(op, graph.add_input("x", image(2, 5, 4, 3))))
    check(graph, level, level)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_sums_of_activations(level: int) -> None:
    graph = Graph()
    a, b = graph.add_input("a", image(1, 3, 5)), graph.add_input("b", image(1, 3, 5, quant=Y))
    out = Quant.per_tensor(0.11, 4)
    graph.add_output(graph.emit(Add(out=out, numerics=TFLM, clamp=Bounds(-60, 127)), a, b))
    check(graph, level, level)


@pytest.mark.parametrize("level", [0, 1])
def test_a_whole_network(level: int) -> None:
    graph = driver.load(DIGITS).graph
    options = driver.Settings(level=level, target="gpu", isa="extended")
    driver.optimize(graph, options, legalize=driver.legalization(options))
    inputs = [np.random.default_rng(level).integers(-128, 128, v.type.shape).astype(np.int8) for v in graph.inputs]
    assert same(run(program_of(graph, level), inputs)[0], expected(graph, inputs))
