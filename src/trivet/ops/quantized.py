"""What the integer forms of operators share: result types and operand checks."""

from __future__ import annotations

from trivet.core.dtype import F32, I8, I16, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import require
from trivet.ir.types import Shape, TensorType

QUANTIZED = (I8, I16)
"""Element types of quantized activations; uint8 networks are restated on int8."""


def is_quantized(type_: TensorType) -> bool:
    return type_.dtype in QUANTIZED and type_.quant is not None


def check_numerics(name: str, x: TensorType, out: Quant | None, numerics: Numerics | None) -> None:
    """A float operator has neither output quantization nor a contract; a quantized one has both.

    Raises: TypeMismatch.
    """
    if x.dtype is F32:
        require(out is None and numerics is None, f"{name} on f32 takes no output quantization")
        return
    require(x.dtype in QUANTIZED, f"{name} takes f32, i8 or i16, got {x}")
    require(x.quant is not None, f"{name} on {x.dtype.name} needs the quantization of its operand")
    require(out is not None and numerics is not None, f"{name} on {x.dtype.name} needs `out` and `numerics`")
    assert out is not None
    require(out.is_per_tensor, f"{name} has one output scale, got {len(out.scales)}")


def check_bias(name: str, x: TensorType, bias: TensorType, channels: int) -> None:
    """A bias has one element per output channel: f32 beside f32, i32 or (beside i16) i64 otherwise.

    Raises: TypeMismatch.
    """
    require(bias.shape == (channels,), f"{name} bias must be [{channels}], got {bias}")
    wanted = {F32: (F32,), I8: (I32,), I16: (I32, I64)}.get(x.dtype, ())
    require(bias.dtype in wanted, f"{name} on {x.dtype.name} takes a bias of {wanted}, got {bias.dtype.name}")


def check_weight(name: str, x: TensorType, w: TensorType) -> None:
    """A weight is f32 beside f32, otherwise quantized i8 or i16.

    Raises: TypeMismatch.
    """
    if x.dtype is F32:
        require(w.dtype is F32, f"{name} on f32 takes f32 weights, got {w}")
    else:
        require(is_quantized(w), f"{name} on {x.dtype.name} takes quantized i8 or i16 weights, got {w}")


def result(x: TensorType, shape: Shape, out: Quant | None, dtype: DType | None = None) -> TensorType:
    """The type of a result with the operand's element type (or `dtype`) and the output quantization."""
    return TensorType(dtype or x.dtype, shape, out)
