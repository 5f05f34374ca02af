"""Operators on the bits of plain integers."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import numpy as np

from trivet.core.dtype import BOOL, I8, I16, I32, I64, U8, U16, U32, U64
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, broadcast_shapes, require
from trivet.ir.types import TensorType, Types
from trivet.ops.pointwise import Pointwise

INTEGERS = (I8, I16, I32, I64, U8, U16, U32, U64)


class BitKind(Enum):
    """What becomes of two elements."""

    AND = "and"
    OR = "or"
    XOR = "xor"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Bitwise(Pointwise):
    """Bit by bit, or the bits of a moved by b places; what moves out is lost.

    a, b: plain integers of one type (booleans: no moves), which broadcast -> y. Moves to the right of signed numbers
    fill with the sign, all others with zeros; moves by the width or more, and negative ones, leave only what fills.
    """

    kind: BitKind
    name: ClassVar[str] = "bitwise"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"bitwise takes 2 operands, got {len(types)}")
        a, b = types
        kinds = INTEGERS if self.kind in (BitKind.LEFT, BitKind.RIGHT) else (*INTEGERS, BOOL)
        require(a.dtype is b.dtype and a.dtype in kinds, f"bitwise {self.kind.value} does not take {a} and {b}")
        require(a.quant is None and b.quant is None, "bitwise takes plain integers")
        return (TensorType(a.dtype, broadcast_shapes(a.shape, b.shape)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        a, b = arrays
        if self.kind not in (BitKind.LEFT, BitKind.RIGHT):
            function = {BitKind.AND: np.bitwise_and, BitKind.OR: np.bitwise_or, BitKind.XOR: np.bitwise_xor}[self.kind]
            return (np.asarray(function(a, b), types[0].dtype.numpy),)
        bits, places = types[0].dtype.bits, _unsigned(b, types[0].dtype.bits)
        if self.kind is BitKind.RIGHT and types[0].dtype.min < 0:
            return (np.asarray(a.astype(np.int64) >> np.minimum(places, 63).astype(np.int64), types[0].dtype.numpy),)
        wide, inside = _unsigned(a, bits), np.minimum(places, np.uint64(63))
        moved: Array = wide << inside if self.kind is BitKind.LEFT else wide >> inside
        kept = np.where(places < bits, moved, np.uint64(0)).astype(np.dtype(f"u{bits // 8}"))
        return (np.asarray(kept.astype(types[0].dtype.numpy)),)


def _unsigned(x: Array, bits: int) -> Array:
    """The bits of integers as uint64."""
    return np.asarray(x.astype(np.dtype(f"u{bits // 8}")), np.uint64)
