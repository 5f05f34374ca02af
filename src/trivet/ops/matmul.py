"""Matrix products: with a constant weight (dense), of two activations (batch), and exact (matmul, from `.tiny`)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trivet.core.access import Access, Broadcast, Reduced, Sliding, Span, pointwise
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8, I16, I32
from trivet.core.fixedpoint import wrap32
from trivet.core.interval import Interval
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Intervals, Op, Region, Tile, broadcast_shapes, require, whole_region
from trivet.ir.types import TensorType, Types
from trivet.ops.products import (
    Reals,
    centered,
    clamped_range,
    matmul,
    product_scales,
    products_to_output,
    rescaled,
    rescaled_as_double,
    stored,
    sums_are_wide,
)
from trivet.ops.quantized import check_bias, check_numerics, check_weight, is_quantized, result


@dataclass(frozen=True, slots=True)
class Dense(Op):
    """Matrix product with a weight stored output-major, over the last axis.

    x: [..., K], w: [O, K], bias: [O] (optional) -> y: [..., O]
    LiteRT rescales in float64, halves away from zero; TensorFlow Lite Micro by Q0.31 multipliers.
    """

    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "dense"

    def infer(self, types: Types) -> Types:
        require(len(types) in (2, 3), f"dense takes 2 or 3 operands, got {len(types)}")
        x, w = types[:2]
        check_numerics("dense", x, self.out, self.numerics)
        require(x.rank >= 1 and w.rank == 2, f"dense takes [..., K] and [O, K], got {x} and {w}")
        require(x.shape[-1] == w.shape[1], f"dense: {x} has {x.shape[-1]} features, the weight takes {w.shape[1]}")
        check_weight("dense", x, w)
        if len(types) == 3:
            check_bias("dense", x, types[2], w.shape[0])
        return (result(x, (*x.shape[:-1], w.shape[0]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w = (centered(a, t) for a, t in zip(arrays[:2], types[:2], strict=True))
        acc = matmul(x.reshape(-1, x.shape[-1]), w.T).reshape(*x.shape[:-1], w.shape[0])
        if self.numerics is None or not self.numerics.is_litert:
            return (products_to_output(self, acc, arrays, types),)
        assert self.out is not None
        bias = types[2] if len(types) == 3 else None
        if bias is not None:
            acc = acc + arrays[2].astype(np.int64)
        values = rescaled_as_double(acc, self.scales(types), sums_are_wide(types[0], bias))
        return (stored(values, self.out.zero_point, types[0].dtype, self.clamp),)

    def scales(self, types: Types) -> Reals:
        """sx * sw / sy per output channel: [O]."""
        x, w = types[0].quant, types[1].quant
        assert x is not None and w is not None and self.out is not None, "a float operator has no scales"
        return product_scales(x, w, self.out, types[1].shape[0])

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return clamped_range(self.infer(types)[0], self.clamp)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, w = types[:2]
        features: Access = (*(pointwise(i, d) for i, d in enumerate(x.shape[:-1])), Reduced(x.shape[-1]))
        outputs = pointwise(x.rank - 1, w.shape[0])
        return (features, (outputs, Reduced(w.shape[1])), (outputs,))[: len(types)]

    def tile(self, types: Types, out: Region) -> Tile:
        features = whole_region(types[1].shape[1:])
        return Tile(self, ((*out[:-1], *features), (out[-1], *features), (out[-1],))[: len(types)])

    def macs(self, types: Types) -> int:
        x, w = types[:2]
        return x.elements * w.shape[0]


@dataclass(frozen=True, slots=True)
class BatchMatMul(Op):
    """Product of two activations; leading axes broadcast.

    a: [..., M, K], b: [..., K, N] (or [..., N, K] with `transpose_b`) -> y: [..., M, N]
    """

    transpose_b: bool = False
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "batch_matmul"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"batch_matmul takes 2 operands, got {len(types)}")
        a, b = types
        check_numerics("batch_matmul", a, self.out, self.numerics)
        require(a.rank >= 2 and b.rank >= 2 and a.dtype is b.dtype, f"batch_matmul does not take {a} and {b}")
        require(b.dtype is F32 or is_quantized(b), f"batch_matmul needs the quantization of {b}")
        k, n = (b.shape[-1], b.shape[-2]) if self.transpose_b else (b.shape[-2], b.shape[-1])
        require(a.shape[-1] == k, f"batch_matmul: inner sizes differ in {a} and {b}")
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return (result(a, (*batch, a.shape[-2], n), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        a, b = (centered(array, type_) for array, type_ in zip(arrays, types, strict=True))
        acc = matmul(a, np.swapaxes(b, -1, -2) if self.transpose_b else b)
        if self.out is None or self.numerics is None:
            return (acc.astype(np.float32),)
        values = rescaled(acc, self.scale(types), self.numerics, wide=types[0].dtype is I16)
        return (stored(values, self.out.zero_point, types[0].dtype, UNBOUNDED),)

    def scale(self, types: Types) -> float:
        """sa * sb / sy; LiteRT rounds sa * sb to float32."""
        a, b = types[0].quant, types[1].quant
        assert a is not None and b is not None and self.out is not None and self.numerics is not None
        if self.numerics.is_litert:
            return float(np.float32(a.scale) * np.float32(b.scale)) / self.out.scale
        return a.scale * b.scale / self.out.scale

    def access(self, types: Types) -> tuple[Access, ...]:
        y, (a, b) = self.infer(types)[0], types
        left = (*_batch_rules(a, y), pointwise(y.rank - 2, a.shape[-2]), Reduced(a.shape[-1]))
        columns, inner = pointwise(y.rank - 1, y.shape[-1]), Reduced(a.shape[-1])
        right = (*_batch_rules(b, y), *((columns, inner) if self.transpose_b else (inner, columns)))
        return left, right

    def tile(self, types: Types, out: Region) -> Tile:
        regions = tuple(
            tuple(
                rule.reads(out[rule.out_axis]) if isinstance(rule, Sliding) else Span(0, rule.size) for rule in access
            )
            for access in self.access(types)
        )
        return Tile(self, regions)

    def macs(self, types: Types) -> int:
        return self.infer(types)[0].elements * types[0].shape[-1]


@dataclass(frozen=True, slots=True)
class MatMul(Op):
    """Exact integer matrix product, with the steps that `fuse` absorbed: bias [N], then relu.

    a: [M, K] or [K], b: [K, N] or [K], bias: [N] (iff `bias`), i8 or i32 -> y: i32 [M, N], [M], [N] or []
    """

    bias: bool = False
    relu: bool = False
    name: ClassVar[str] = "matmul"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2 + self.bias, f"matmul takes {2 + self.bias} operands, got {len(types)}")
        a, b = types[:2]
        for operand in types:
            require(
                operand.dtype in (I8, I32) and operand.quant is None, f"matmul takes plain i8 or i32, got {operand}"
            )
        require(a.rank in (1, 2) and b.rank in (1, 2), f"matmul takes ranks 1 and 2, got {a} and {b}")
        require(a.shape[-1] == b.shape[0], f"matmul: inner sizes differ in {a} and {b}")
        shape = (*a.shape[:-1], *b.shape[1:])
        if self.bias:
            require(types[2].shape == shape[-1:], f"matmul bias must be {list(shape[-1:])}, got {types[2]}")
        return (TensorType(I32, shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        a, b = arrays[0].astype(np.int64), arrays[1].astype(np.int64)
        acc = matmul(a, b)
        if self.bias:
            acc = acc + arrays[2].astype(np.int64)
        if self.relu:
            acc = np.maximum(acc, 0)
        return (np.asarray(wrap32(acc), np.int32),)

    def overflows(self, arrays: Arrays, types: Types) -> bool:
        return _leaves_i32(*(array.astype(np.int64) for array in arrays))

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        """The exact range of the sums, which may leave i32: whoever must rule that out compares."""
        steps = types[0].shape[-1]
        total = Interval(steps, steps) * (intervals[0] * intervals[1])
        if self.bias:
            total = total + intervals[2]
        return (Interval(max(total.lo, 0), max(total.hi, 0)) if self.relu else total,)

    def access(self, types: Types) -> tuple[Access, ...]:
        a, b = types[:2]
        rows: Access = tuple(pointwise(0, d) for d in a.shape[:-1])
        columns: Access = tuple(pointwise(a.rank - 1, d) for d in b.shape[1:])
        bias: Access = ()
        if self.bias:
            last = a.rank + b.rank - 3
            bias = tuple(pointwise(last, d) for d in types[2].shape)
        return ((*rows, Reduced(a.shape[-1])), (Reduced(b.shape[0]), *columns), bias)[: len(types)]

    def tile(self, types: Types, out: Region) -> Tile:
        a, b = types[:2]
        inner = Span(0, b.shape[0])
        regions: tuple[Region, ...] = ((*out[: a.rank - 1], inner), (inner, *out[a.rank - 1 :]), out[-1:])
        return Tile(self, regions[: len(types)])

    def macs(self, types: Types) -> int:
        return self.infer(types)[0].elements * types[0].shape[-1]


def _leaves_i32(a: Array, b: Array, bias: Array | None = None) -> bool:
    """True iff an element of a @ b + bias is no i32, computed exactly: in digits of 16 bits, each sum of which fits."""
    a_high, a_low, b_high, b_low = a >> 16, a & 0xFFFF, b >> 16, b & 0xFFFF
    low = matmul(a_low, b_low) if bias is None else matmul(a_low, b_low) + bias
    middle = matmul(a_high, b_low) + matmul(a_low, b_high) + (low >> 16)
    high = matmul(a_high, b_high) + (middle >> 16)
    sign = (middle >> 15) & 1
    return bool((high != -sign).any())


def _batch_rules(operand: TensorType, y: TensorType) -> Access:
    """Rules of the leading axes, which broadcast against the result's."""
    batch = operand.rank - 2
    axes = range(y.rank - 2 - batch, y.rank - 2)
    return tuple(
        pointwise(axis, size) if size == y.shape[axis] else Broadcast()
        for axis, size in zip(axes, operand.shape[:batch], strict=True)
    )


def _region(access: Access, out: Region) -> Region:
    return tuple(rule.reads(out[rule.out_axis]) if isinstance(rule, Sliding) else Span(0, rule.size) for rule in access)
