"""Ranges of sums inside products, channel by channel, against sums that are written out term by term."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.analysis.accumulators import Sums, accumulator_sums
from trivet.analysis.ranges import analyze_ranges
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8, I16, I32
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.errors import MayOverflow
from trivet.frontends.tiny.convert import parse
from trivet.ir.graph import Graph
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.matmul import Dense
from trivet.passes.range_check import RangeCheck

OUT = Quant.per_tensor(1.0, 0)
X_ZERO = 5


def product(op: Op, x: tuple[int, ...], w: np.ndarray, zeros: list[int], axis: int, bias: np.ndarray) -> Graph:
    """An int8 product with per-channel weights, whose operand a clamp keeps within [X_ZERO, 100]."""
    graph = Graph()
    type_ = TensorType(I8, x, Quant.per_tensor(0.5, X_ZERO))
    value = graph.emit(Clamp(Bounds(X_ZERO, 100), out=type_.quant, numerics=Numerics.TFLM), graph.add_input("x", type_))
    quant = Quant.per_axis(np.ones(len(zeros)), zeros, axis)
    weights = graph.constant(w.astype(np.int8), TensorType(I8, w.shape, quant))
    biases = graph.constant(bias.astype(np.int32), TensorType(I32, bias.shape))
    graph.add_output(graph.emit(op, value, weights, biases, name="y"))
    return graph


def written_out(columns: list[list[int]], bias: list[int], values: range) -> Sums:
    """Every term at its least and greatest, alone and beside nothing, channel by channel."""
    partial, total = [], []
    for column, b in zip(columns, bias, strict=True):
        terms = [(min(w * v for v in values), max(w * v for v in values)) for w in column] + [(b, b)]
        partial.append(Interval(sum(min(low, 0) for low, _ in terms), sum(max(high, 0) for _, high in terms)))
        total.append(Interval(sum(low for low, _ in terms), sum(high for _, high in terms)))
    return Sums(len(columns), Interval.hull(partial), Interval.hull(total))


@given(st.data())
def test_sums_of_every_channel_are_tight(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["conv", "depthwise", "dense"]))
    channels, inputs = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    zeros = [int(z) for z in rng.integers(-3, 4, channels)]
    bias = rng.integers(-1000, 1000, channels)
    if kind == "dense":
        w = rng.integers(-128, 128, (channels, inputs))
        graph = product(Dense(out=OUT, numerics=Numerics.TFLM), (2, inputs), w, zeros, 0, bias)
        columns = [[int(v) - zeros[c] for v in w[c].ravel()] for c in range(channels)]
    elif kind == "conv":
        w = rng.integers(-128, 128, (channels, 2, 1, inputs))
        graph = product(Conv2D(out=OUT, numerics=Numerics.TFLM), (1, 3, 3, inputs), w, zeros, 0, bias)
        columns = [[int(v) - zeros[c] for v in w[c].ravel()] for c in range(channels)]
    else:
        w = rng.integers(-128, 128, (2, 2, channels))
        op = DepthwiseConv2D(out=OUT, numerics=Numerics.TFLM)
        graph = product(op, (1, 3, 3, channels), w, zeros, 2, bias)
        columns = [[int(v) - zeros[c] for v in w[..., c].ravel()] for c in range(channels)]
    ranges = analyze_ranges(graph)
    assert ranges.sums[id(graph.nodes[1])] == written_out(columns, [int(b) for b in bias], range(100 - X_ZERO + 1))


def test_an_operand_away_from_zero_counts_from_zero() -> None:
    node = parse("input x: i8[2]\nconst w: i8[2, 1] = [[3], [-2]]\nlet y = x @ w\noutput y").nodes[0]
    sums = accumulator_sums(node, [Interval(10, 20), Interval(-2, 3)])
    assert sums == Sums(1, Interval(-40, 60), Interval(-10, 40))


@pytest.mark.parametrize(
    ("interval", "bits"),
    [
        (Interval(-(1 << 31), (1 << 31) - 1), 0.0),
        (Interval(0, 1 << 31), -1e-9),
        (Interval(-(1 << 20), 0), 11.0),
        (Interval(0, 0), 31.0),
        (Interval(-1, (1 << 30) - 1), 1.0),
    ],
    ids=str,
)
def test_the_margin_is_that_of_the_fullest_channel(interval: Interval, bits: float) -> None:
    sums = Sums(2, interval, interval)
    assert math.isclose(sums.margin_bits, bits, abs_tol=1e-8)
    assert sums.fits == (interval.hi < 1 << 31)


def test_every_channel_has_its_margin() -> None:
    weights = "[[1, -4, 0], [2, 3, 0]]"
    node = parse(f"input x: i8[2]\nconst w: i8[2, 3] = {weights}\nlet y = x @ w\noutput y").nodes[0]
    sums = accumulator_sums(node, [Interval(-128, 127), Interval(-4, 3)])
    assert sums is not None
    lowest = [-128 * 3, -4 * 127 - 3 * 128, 0]
    highest = [127 * 3, 4 * 128 + 3 * 127, 0]
    wanted = [31 - math.log2(max(-lo, hi + 1)) for lo, hi in zip(lowest, highest, strict=True)]
    np.testing.assert_allclose(sums.channel_margins, wanted, rtol=1e-12)
    assert math.isclose(sums.margin_bits, min(sums.channel_margins))


def dense(bias: int, dtype: object = I8) -> Graph:
    """One channel of four weights of 100 and a bias."""
    graph = Graph()
    assert dtype in (I8, I16)
    x = graph.add_input("x", TensorType(dtype, (1, 4), Quant.per_tensor(0.5, 0)))  # type: ignore[arg-type]
    w = graph.constant(np.full((1, 4), 100, np.int8), TensorType(I8, (1, 4), Quant.per_tensor(0.5, 0)))
    b = graph.constant(np.array([bias], np.int32), TensorType(I32, (1,)))
    graph.add_output(graph.emit(Dense(out=OUT, numerics=Numerics.TFLM), x, w, b, name="y"))
    return graph


LARGEST = (1 << 31) - 1 - 4 * 127 * 100


def test_a_quantized_sum_that_may_leave_32_bits_is_rejected_and_the_last_that_cannot_is_accepted() -> None:
    RangeCheck().run(dense(LARGEST))
    with pytest.raises(MayOverflow, match=r"the sum inside dense may reach \[-51200, 2147483648\].* does not fit i32"):
        RangeCheck().run(dense(LARGEST + 1))


def test_16_bit_activations_with_32_bit_bias_are_summed_in_32_bits() -> None:
    with pytest.raises(MayOverflow, match="dense"):
        RangeCheck().run(dense(LARGEST, I16))


CHAIN = """input x: i8[4]
const w: i32[4, 4] = 1000000
const v: i32[4] = 5
let a = relu(x @ w) + v
let y = a @ w
let z = y @ w
output z
"""


def test_the_first_overflow_is_reported_with_the_shortest_chain_and_nothing_after_it() -> None:
    ranges = analyze_ranges(parse(CHAIN))
    (found,) = ranges.overflowing
    assert found.node.output.name == "y"
    assert [node.op.name for node in found.chain] == ["matmul", "relu", "add", "matmul"]
