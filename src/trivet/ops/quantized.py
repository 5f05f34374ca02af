"""What the integer forms of operators share: result types and operand checks."""

from __future__ import annotations

from trivet.core.dtype import F32, I8, I16, I32, I64, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import require
from trivet.ir.types import Shape, TensorType

QUANTIZED = (I8, I16)
"""Element types of quantized activations; uint8 networks are restated on int8."""

_BIASES = {F32: (F32,), I8: (I32,), I16: (I32, I64)}


def is_quantized(type_: TensorType) -> bool:
    return type_.dtype in QUANTIZED and type_.quant is not None


def check_numerics(name: str, x: TensorType, out: Quant | None, numerics: Numerics | None) -> None:
    """A float operator has neither output quantization nor a contract; a quantized one has both.

    Raises: TypeMismatch.
    """
    if x.dtype is F32:
        require(out is None and numerics is None, "{} on f32 takes no output quantization", name)
        return
    require(x.dtype in QUANTIZED, "{} takes f32, i8 or i16, got {}", name, x)
    require(x.quant is not None, "{} on {!r} needs the quantization of its operand", name, x.dtype)
    require(out is not None and numerics is not None, "{} on {!r} needs `out` and `numerics`", name, x.dtype)
    assert out is not None
    require(out.is_per_tensor, "{} has one output scale, got {}", name, len(out.scales))


def check_bias(name: str, x: TensorType, bias: TensorType, channels: int) -> None:
    """A bias has one element per output channel: f32 beside f32, i32 or (beside i16) i64 otherwise.

    Raises: TypeMismatch.
    """
    require(bias.shape == (channels,), "{} bias must be [{}], got {}", name, channels, bias)
    wanted = _BIASES.get(x.dtype, ())
    require(bias.dtype in wanted, "{} on {!r} takes a bias of {}, got {!r}", name, x.dtype, wanted, bias.dtype)


def check_weight(name: str, x: TensorType, w: TensorType) -> None:
    """A weight is f32 beside f32, otherwise quantized i8 or i16.

    Raises: TypeMismatch.
    """
    if x.dtype is F32:
        require(w.dtype is F32, "{} on f32 takes f32 weights, got {}", name, w)
    else:
        require(is_quantized(w), "{} on {!r} takes quantized i8 or i16 weights, got {}", name, x.dtype, w)


def result(x: TensorType, shape: Shape, out: Quant | None, dtype: DType | None = None) -> TensorType:
    """The type of a result with the operand's element type (or `dtype`) and the output quantization."""
    return TensorType(dtype or x.dtype, shape, out)
