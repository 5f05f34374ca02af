"""Between real numbers and stored integers."""

from __future__ import annotations

from trivet.core.dtype import F16, F32, I32
from trivet.errors import Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.tensors import quantization
from trivet.ops.quantize import Dequantize, Quantize, Requantize


def quantize(op: Conversion) -> None:
    """Floats to integers, or integers to another scale or width; an int32 result keeps its quantization."""
    x, y = op.operand(0), op.declared()
    out = quantization(op.source(0), y.dtype, (y.dtype,)) if y.dtype is I32 else y.quant
    if out is None:
        raise Unsupported(f"QUANTIZE to {y.dtype.name} without a scale")
    if x.type.dtype is F32:
        op.result(op.emit(Quantize(out, y.dtype, op.contract), x), quant=out)
    else:
        op.result(op.emit(Requantize(out, y.dtype, op.contract), x), quant=out)


def dequantize(op: Conversion) -> None:
    """Integers, or float16 constants, to float32."""
    x = op.operand(0)
    if x.type.dtype is F32:
        op.result(x)
        return
    if x.type.dtype is not F16 and x.type.quant is None:
        raise Unsupported(f"DEQUANTIZE of {x.type} without a scale")
    op.result(op.emit(Dequantize(), x))


CONVERTERS: dict[str, Converter] = {"QUANTIZE": quantize, "DEQUANTIZE": dequantize}
