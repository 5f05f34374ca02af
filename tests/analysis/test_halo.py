"""Composed axis rules against the textbook formula of the receptive field, and against what really changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from int8_networks import FULL, QUANT, Builder
from trivet.analysis.halo import receptive_region
from trivet.core.access import Span
from trivet.core.numerics import Numerics
from trivet.interp import run
from trivet.ops.conv import Conv2D

WINDOWS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=4)
"""Kernel, stride and dilation of each convolution of a chain."""


def receptive_field(windows: list[tuple[int, int, int]]) -> int:
    """RF = 1; in reverse: RF += (kernel + (kernel - 1) * (dilation - 1) - 1) * the strides before it, multiplied."""
    size = 1
    for index in reversed(range(len(windows))):
        kernel, _, dilation = windows[index]
        strides = int(np.prod([stride for _, stride, _ in windows[:index]]))
        size += (kernel + (kernel - 1) * (dilation - 1) - 1) * strides
    return size


@given(WINDOWS)
def test_a_chain_reads_its_receptive_field(windows: list[tuple[int, int, int]]) -> None:
    b = Builder()
    x = value = b.input(1, receptive_field(windows) + 5, 20, 4)
    for kernel, stride, dilation in windows:
        value = b.emit(_rows_only(kernel, stride, dilation), value, b.weight(4, kernel, 1, 4))
    graph = b.finish(value)
    middle = value.type.shape[1] // 2
    out = (Span(0, 1), Span(middle, middle + 1), Span(0, 1), Span(0, 4))
    rows = receptive_region(graph.nodes, out)[1]
    assert rows.size == receptive_field(windows)
    assert rows.start >= 0 and rows.stop <= x.type.shape[1]


@given(WINDOWS, st.data())
def test_rows_outside_the_receptive_region_do_not_matter(
    windows: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    b = Builder(data.draw(st.integers(0, 99)))
    value = b.input(1, 14, 3, 4)
    for kernel, stride, dilation in windows:
        value = b.conv(value, 4, kernel, stride, dilation)
    graph = b.finish(value)
    height = value.type.shape[1]
    row = data.draw(st.integers(0, height - 1))
    out = (Span(0, 1), Span(row, row + 1), Span(0, value.type.shape[2]), Span(0, 4))
    rows = receptive_region(graph.nodes, out)[1]
    random = np.random.default_rng(0)
    first, second = random.integers(-128, 128, (2, 1, 14, 3, 4)).astype(np.int8)
    second[:, rows.start : rows.stop] = first[:, rows.start : rows.stop]
    (a,), (c,) = (run(graph, [array])[0] for array in (first, second))
    assert np.array_equal(a[:, row], c[:, row])


def _rows_only(kernel: int, stride: int, dilation: int) -> Conv2D:
    return Conv2D((stride, 1), (dilation, 1), ((0, 0), (0, 0)), 1, FULL, QUANT, Numerics.TFLM)
