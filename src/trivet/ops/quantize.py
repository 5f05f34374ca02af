"""Between real numbers and their stored integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.dtype import F16, F32, I8, I16, I32, U8, U16, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, require
from trivet.ir.types import TensorType, Types

STORED = (I8, U8, I16, U16, I32)
"""Element types that quantized tensors have at borders and in constants."""


@dataclass(frozen=True, slots=True)
class Quantize(Op):
    """stored = saturate(round(x / scale) + zero point); the contract decides how halves round.

    x: f32 [...] -> y: `dtype` [...] with the quantization `out` (per tensor or per axis)
    """

    out: Quant
    dtype: DType = I8
    numerics: Numerics = Numerics.TFLM
    name: ClassVar[str] = "quantize"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype is F32, "quantize takes one f32 operand")
        require(self.dtype in STORED, f"quantize does not give {self.dtype.name}")
        return (TensorType(self.dtype, types[0].shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Dequantize(Op):
    """x = scale * (stored - zero point) in float32; f16 widens.

    x: quantized or f16 [...] -> y: f32 [...]
    """

    name: ClassVar[str] = "dequantize"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "dequantize takes one operand")
        (x,) = types
        require(x.dtype is F16 or (x.dtype.is_integer and x.quant is not None), f"dequantize does not take {x}")
        return (TensorType(F32, x.shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Requantize(Op):
    """The same real numbers under another scale, zero point or element type.

    x: quantized [...] -> y: `dtype` [...] with the quantization `out`
    Between u8 and i8 with zero points 128 apart it only flips the top bit.
    """

    out: Quant
    dtype: DType = I8
    numerics: Numerics = Numerics.TFLM
    name: ClassVar[str] = "requantize"
    reuses_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "requantize takes one operand")
        (x,) = types
        require(x.dtype in STORED and x.quant is not None, f"requantize takes a quantized operand, got {x}")
        require(self.dtype in STORED, f"requantize does not give {self.dtype.name}")
        return (TensorType(self.dtype, x.shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError
