"""Elements placed and chosen by their numbers: scatter, the largest elements."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, pointwise, whole
from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, U8, U16, U32, U64, DType
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, require
from trivet.ir.types import TensorType, Types

ORDERED = (F32, I8, U8, I16, U16, I32, U32, I64, U64, BOOL)
"""Element types that compare."""


class Combine(Enum):
    """What becomes of an element that an update meets."""

    SET = "set"
    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Scatter(Op):
    """Rows of the operand that updates meet, in order; all other rows stay.

    x: [R, S], rows: i32 or i64 [K] in [-R, R), updates: [K, S] -> y: [R, S]
    Arithmetic takes f32, i32 and i64 (which wrap); placing takes everything.
    """

    combine: Combine = Combine.SET
    name: ClassVar[str] = "scatter"

    def infer(self, types: Types) -> Types:
        require(len(types) == 3, f"scatter takes 3 operands, got {len(types)}")
        x, rows, updates = types
        require((x.rank == 2 and x.dtype.bits >= 8) or x.dtype is BOOL, f"scatter takes [R, S], got {x}")
        require(rows.dtype in (I32, I64) and rows.rank == 1, f"scatter takes i32 or i64 rows, got {rows}")
        wanted = TensorType(x.dtype, (rows.elements, x.shape[1]), x.quant)
        require(updates == wanted, f"scatter updates {updates} of {x} by {rows}")
        require(x.quant is None or x.quant.is_per_tensor, f"scatter takes one scale, got {x}")
        plain = x.dtype in (F32, I32, I64) and x.quant is None
        require(plain or self.combine is Combine.SET, f"scatter cannot {self.combine.value} into {x}")
        return (x,)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        y = arrays[0].copy()
        with np.errstate(all="ignore"):
            for row, update in zip(arrays[1], arrays[2], strict=True):
                y[row] = self._combined(y[row], update)
        return (y,)

    def _combined(self, old: Array, new: Array) -> Array:
        match self.combine:
            case Combine.SET:
                return new
            case Combine.ADD:
                return old + new
            case Combine.MUL:
                return old * new
            case Combine.MIN:
                return np.minimum(old, new)
            case Combine.MAX:
                return np.maximum(old, new)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, rows, updates = types
        columns = pointwise(1, x.shape[1])
        return (pointwise(0, x.shape[0]), columns), whole(rows.shape), (*whole(updates.shape[:1]), columns)


@dataclass(frozen=True, slots=True)
class TopK(Op):
    """The k largest (or smallest) elements of every row in order, the first of equal ones first, and where they stand.

    x: [R, S] -> values: [R, k], columns: `dtype` [R, k]
    """

    k: int
    largest: bool = True
    dtype: DType = I64
    name: ClassVar[str] = "top_k"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, f"top_k takes one operand, got {len(types)}")
        (x,) = types
        require(x.rank == 2 and x.dtype in ORDERED, f"top_k takes [R, S] of a type that compares, got {x}")
        require(x.quant is None or x.quant.is_per_tensor, f"top_k takes one scale, got {x}")
        require(1 <= self.k <= x.shape[1], f"top_k of {self.k} elements of {x}")
        require(self.dtype in (I32, I64), f"top_k gives i32 or i64, not {self.dtype.name}")
        return x.with_shape((x.shape[0], self.k)), TensorType(self.dtype, (x.shape[0], self.k))

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        reversed_ = -x if x.dtype.kind == "f" else ~x
        order = np.argsort(reversed_ if self.largest else x, axis=1, kind="stable")[:, : self.k]
        return np.take_along_axis(x, order, 1), order.astype(self.dtype.numpy)

    def access(self, types: Types) -> tuple[Access, ...]:
        x = types[0]
        return ((pointwise(0, x.shape[0]), *whole(x.shape[1:])),)
