"""Ranges of the sums inside products: whatever the order of accumulation, no partial sum leaves them.

Each term w*x contributes its hull with 0, and so does the bias; a partial sum of any order adds some of the terms, so
it lies between the sum of the lower ends and the sum of the upper ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.matmul import BatchMatMul, Dense, MatMul

Ints = npt.NDArray[np.object_]
"""Python integers, so that nothing overflows while overflow is being ruled out."""

INT32 = Interval(-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Sums:
    """Per output channel: the ends of every partial sum (`partial`), and of the finished sum (`total`)."""

    partial: tuple[Interval, ...]
    total: tuple[Interval, ...]

    @property
    def worst(self) -> Interval:
        """The hull of all partial sums."""
        return Interval.hull(self.partial)

    @property
    def margin_bits(self) -> float:
        """How many bits of int32 the largest partial sum leaves unused; negative if it may overflow."""
        largest = max(abs(self.worst.lo), abs(self.worst.hi), 1)
        return float(31 - np.log2(float(largest)))


def accumulator_sums(node: Node, ranges: Sequence[Interval]) -> Sums | None:
    """The sums of a product whose operands lie in `ranges` (stored values), None for operators without a sum.

    A constant operand counts with its real columns, anything else with its interval.
    """
    match node.op:
        case Conv2D() | DepthwiseConv2D() | ConvTranspose2D() | Dense():
            return _weighted(node, ranges)
        case MatMul(bias=bias):
            return _exact(node, ranges, bias)
        case BatchMatMul():
            if node.inputs[0].type.dtype.is_float:
                return None
            terms = _centered(node.inputs[0], ranges[0]) * _centered(node.inputs[1], ranges[1])
            return _uniform(terms, node.inputs[0].type.shape[-1], None)
    return None


def _weighted(node: Node, ranges: Sequence[Interval]) -> Sums | None:
    x, w = node.inputs[:2]
    if x.type.dtype.is_float:
        return None
    span = _centered(x, ranges[0])
    if w.data is None:
        steps = w.type.elements // w.type.shape[0]
        return _uniform(span * _centered(w, ranges[1]), steps, ranges[2] if len(ranges) > 2 else None)
    columns = _columns(node, w)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    channels = columns.shape[1]
    low, high = _bias_ends(bias, ranges[2] if bias is not None else None, channels)
    return _sums(columns, span, low, high)


def _columns(node: Node, w: Value) -> Ints:
    """Constant weights minus zero points as [terms, channels]."""
    assert w.data is not None
    data = w.data.astype(object)
    quant = w.type.quant
    if quant is not None and any(quant.zero_points):
        shape = [1] * data.ndim
        if quant.axis is not None:
            shape[quant.axis] = len(quant.zero_points)
        data = data - np.array(quant.zero_points, object).reshape(shape)
    if isinstance(node.op, DepthwiseConv2D):
        return np.asarray(data.reshape(-1, data.shape[-1]), object)
    return np.asarray(data.reshape(data.shape[0], -1).T, object)


def _exact(node: Node, ranges: Sequence[Interval], has_bias: bool) -> Sums:
    a, b = node.inputs[:2]
    bias = node.inputs[2] if has_bias else None
    if b.data is not None:
        columns = b.data.astype(object).reshape(b.type.shape[0], -1)
        low, high = _bias_ends(bias, ranges[2] if bias is not None else None, columns.shape[1])
        return _sums(columns, ranges[0], low, high)
    if a.data is not None and bias is None:
        rows = a.data.astype(object).reshape(-1, a.type.shape[-1]).T
        low, high = _bias_ends(None, None, rows.shape[1])
        return _sums(rows, ranges[1], low, high)
    return _uniform(ranges[0] * ranges[1], a.type.shape[-1], ranges[2] if bias is not None else None)


def _sums(columns: Ints, x: Interval, bias_low: Ints, bias_high: Ints) -> Sums:
    ends = (columns * x.lo, columns * x.hi)
    low, high = np.minimum(*ends), np.maximum(*ends)
    partial_low = np.minimum(low, 0).sum(0) + np.minimum(bias_low, 0)
    partial_high = np.maximum(high, 0).sum(0) + np.maximum(bias_high, 0)
    total_low, total_high = low.sum(0) + bias_low, high.sum(0) + bias_high
    return Sums(_intervals(partial_low, partial_high), _intervals(total_low, total_high))


def _uniform(term: Interval, steps: int, bias: Interval | None) -> Sums:
    bias = bias or Interval(0, 0)
    partial = Interval(steps * min(term.lo, 0) + min(bias.lo, 0), steps * max(term.hi, 0) + max(bias.hi, 0))
    return Sums((partial,), (Interval(steps * term.lo + bias.lo, steps * term.hi + bias.hi),))


def _bias_ends(bias: Value | None, range_: Interval | None, channels: int) -> tuple[Ints, Ints]:
    if bias is None or range_ is None:
        zeros = np.zeros(channels, object)
        return zeros, zeros
    if bias.data is not None:
        data = bias.data.astype(object).reshape(-1)
        return data, data
    return np.full(channels, range_.lo, object), np.full(channels, range_.hi, object)


def _centered(value: Value, range_: Interval) -> Interval:
    quant = value.type.quant
    if quant is None:
        return range_
    zeros = Interval(min(quant.zero_points), max(quant.zero_points))
    return range_ - zeros


def _intervals(low: Ints, high: Ints) -> tuple[Interval, ...]:
    return tuple(Interval(int(lo), int(hi)) for lo, hi in zip(low, high, strict=True))
