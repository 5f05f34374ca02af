"""Element types. Each is one object, so `dtype is I8` is the test."""

from __future__ import annotations

from enum import Enum

import numpy as np

from trivet.core.record import dataclass


class Kind(Enum):
    """What the bits of an element mean."""

    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    BOOL = "bool"


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: `bits` is its width in a packed tensor, `numpy` the array type that holds one element each."""

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[np.generic]

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def min(self) -> int:
        """Smallest value of an integer type (bool counts as 0..1)."""
        return -(1 << (self.bits - 1)) if self.kind is Kind.INT else 0

    @property
    def max(self) -> int:
        """Largest value of an integer type (bool counts as 0..1)."""
        if self.kind is Kind.BOOL:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.kind is Kind.INT else (1 << self.bits) - 1

    def size_bytes(self, elements: int) -> int:
        """Bytes of `elements` packed elements; sub-byte types round up to a whole byte."""
        width = 8 if self.kind is Kind.BOOL else self.bits
        return (elements * width + 7) // 8

    def __repr__(self) -> str:
        return self.name


I4 = DType("i4", Kind.INT, 4, np.dtype(np.int8))
U4 = DType("u4", Kind.UINT, 4, np.dtype(np.uint8))
I8 = DType("i8", Kind.INT, 8, np.dtype(np.int8))
U8 = DType("u8", Kind.UINT, 8, np.dtype(np.uint8))
I16 = DType("i16", Kind.INT, 16, np.dtype(np.int16))
U16 = DType("u16", Kind.UINT, 16, np.dtype(np.uint16))
I32 = DType("i32", Kind.INT, 32, np.dtype(np.int32))
U32 = DType("u32", Kind.UINT, 32, np.dtype(np.uint32))
I64 = DType("i64", Kind.INT, 64, np.dtype(np.int64))
U64 = DType("u64", Kind.UINT, 64, np.dtype(np.uint64))
F16 = DType("f16", Kind.FLOAT, 16, np.dtype(np.float16))
F32 = DType("f32", Kind.FLOAT, 32, np.dtype(np.float32))
F64 = DType("f64", Kind.FLOAT, 64, np.dtype(np.float64))
BOOL = DType("bool", Kind.BOOL, 1, np.dtype(np.bool_))

ALL_DTYPES = (I4, U4, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64, BOOL)

_BY_NAME = {dtype.name: dtype for dtype in ALL_DTYPES}
_BY_NUMPY = {dtype.numpy: dtype for dtype in reversed(ALL_DTYPES) if dtype.bits >= 8 or dtype is BOOL}


def by_name(name: str) -> DType | None:
    """The element type with that textual name, or None."""
    return _BY_NAME.get(name)


def from_numpy(dtype: np.dtype[np.generic]) -> DType | None:
    """The element type that arrays of this numpy type hold, or None."""
    return _BY_NUMPY.get(np.dtype(dtype))
