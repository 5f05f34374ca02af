"""Ranges of the sums inside products: whatever the order of accumulation, no partial sum leaves them.

Each term w*x contributes its hull with 0, and so does the bias; a partial sum of any order adds some of the terms, so
it lies between the sum of the lower ends and the sum of the upper ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.dtype import I16
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.matmul import BatchMatMul, Dense, MatMul
from trivet.ops.products import centered, sums_are_wide

Ints: TypeAlias = "npt.NDArray[np.integer]"
"""Weights, at most 32 bits wide: their sums fit 64 bits; everything beyond is done in Python's integers."""

PRODUCTS = (Conv2D, DepthwiseConv2D, ConvTranspose2D, Dense, BatchMatMul)

INT32 = Interval(-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Sums:
    """Hulls over the output channels: of every partial sum, and of the finished sums.

    `reach` is, for each channel, how far from 0 its partial sums may get; operands that are computed have one channel.
    """

    channels: int
    worst: Interval
    total: Interval
    reach: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)

    @property
    def fits(self) -> bool:
        """True iff no partial sum of any channel leaves int32."""
        return self.worst.within(INT32)

    @property
    def margin_bits(self) -> float:
        """Bits of int32 that the partial sums of the fullest channel leave unused; negative if they may overflow."""
        return 31 - math.log2(max(-self.worst.lo, self.worst.hi + 1, 1))

    @property
    def channel_margins(self) -> list[float]:
        """The same of every channel."""
        margins: list[float] = (31 - np.log2(np.maximum(self.reach, 1))).tolist()
        return margins


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


def accumulates_in_32_bits(node: Node) -> bool:
    """True iff the operator is an integer product whose contract sums in int32."""
    if isinstance(node.op, MatMul):
        return True
    if not isinstance(node.op, PRODUCTS) or node.inputs[0].type.dtype.is_float:
        return False
    if isinstance(node.op, BatchMatMul):
        return node.inputs[0].type.dtype is not I16
    bias = node.inputs[2].type if len(node.inputs) > 2 else None
    return not sums_are_wide(node.inputs[0].type, bias)


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
    return _sums(columns, span, _bias_ends(bias, ranges[2] if bias is not None else None, columns.shape[1]))


def _columns(node: Node, w: Value) -> Ints:
    """Constant weights minus zero points as [terms, channels]."""
    assert w.data is not None
    data = centered(w.data, w.type)
    if isinstance(node.op, DepthwiseConv2D):
        return data.reshape(-1, data.shape[-1])
    return data.reshape(data.shape[0], -1).T


def _exact(node: Node, ranges: Sequence[Interval], has_bias: bool) -> Sums:
    a, b = node.inputs[:2]
    bias = node.inputs[2] if has_bias else None
    if b.data is not None:
        columns = b.data.reshape(b.type.shape[0], -1)
        return _sums(columns, ranges[0], _bias_ends(bias, ranges[2] if bias is not None else None, columns.shape[1]))
    if a.data is not None and bias is None:
        rows = a.data.reshape(-1, a.type.shape[-1]).T
        return _sums(rows, ranges[1], _bias_ends(None, None, rows.shape[1]))
    return _uniform(ranges[0] * ranges[1], a.type.shape[-1], ranges[2] if bias is not None else None)


def _sums(columns: Ints, x: Interval, bias: tuple[Ints, Ints]) -> Sums:
    """Sums of [terms, channels] times values in `x`: a positive term is least at x.lo, a negative one at x.hi."""
    positive = np.maximum(columns, 0).sum(0, dtype=np.int64)
    negative = np.minimum(columns, 0).sum(0, dtype=np.int64)
    spread = max(-x.lo, x.hi, 1) * int(max(positive.max(initial=0), -negative.min(initial=0), 1))
    # Python's integers where int64 might overflow while overflow is being ruled out.
    exact = np.dtype(np.int64 if spread < 1 << 60 else object)
    operands: list[Array] = [array.astype(exact) for array in (positive, negative, *bias)]
    p, n, low, high = operands
    below, above = min(x.lo, 0), max(x.hi, 0)
    least, most = p * below + n * above + np.minimum(low, 0), p * above + n * below + np.maximum(high, 0)
    total = _hull(p * x.lo + n * x.hi + low, p * x.hi + n * x.lo + high)
    return Sums(columns.shape[1], _hull(least, most), total, np.maximum(-least, most + 1).astype(np.float64))


def _hull(low: Array, high: Array) -> Interval:
    return Interval(int(low.min()), int(high.max())) if low.size else Interval(0, 0)


def _uniform(term: Interval, steps: int, bias: Interval | None) -> Sums:
    bias = bias or Interval(0, 0)
    partial = Interval(steps * min(term.lo, 0) + min(bias.lo, 0), steps * max(term.hi, 0) + max(bias.hi, 0))
    total = Interval(steps * term.lo + bias.lo, steps * term.hi + bias.hi)
    return Sums(1, partial, total, np.array([max(-partial.lo, partial.hi + 1)], np.float64))


def _bias_ends(bias: Value | None, range_: Interval | None, channels: int) -> tuple[Ints, Ints]:
    """The least and the largest that the bias adds to each channel."""
    if bias is not None and bias.data is not None:
        data = bias.data.reshape(-1).astype(np.int64)
        return data, data
    ends = range_ or Interval(0, 0)
    return np.full(channels, ends.lo, np.int64), np.full(channels, ends.hi, np.int64)


def _centered(value: Value, range_: Interval) -> Interval:
    quant = value.type.quant
    if quant is None:
        return range_
    zeros = Interval(min(quant.zero_points), max(quant.zero_points))
    return range_ - zeros
