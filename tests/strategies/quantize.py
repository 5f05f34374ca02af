"""Between real numbers and stored integers, per tensor and per axis."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import NUMERICS, Instance, channel_quants, instance, quants, shapes
from trivet.core.dtype import F16, F32, I8, I16, I32, U8, U16, DType
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import Shape, TensorType
from trivet.ops.quantize import Dequantize, Quantize, Requantize

STORED = st.sampled_from((I8, U8, I16, U16, I32))


@st.composite
def stored_quants(draw: DrawFn, dtype: DType, shape: Shape) -> Quant:
    """Per tensor, or per axis."""
    if shape and draw(st.booleans()):
        axis = draw(st.integers(0, len(shape) - 1))
        return draw(channel_quants(shape[axis], axis))
    return draw(quants(I16 if dtype is I32 else dtype))


@st.composite
def quantize(draw: DrawFn) -> Instance:
    shape, dtype = draw(shapes((0, 4), 5)), draw(STORED)
    op = Quantize(draw(stored_quants(dtype, shape)), dtype, draw(NUMERICS))
    return instance(draw, op, (TensorType(F32, shape),))


@st.composite
def dequantize(draw: DrawFn) -> Instance:
    shape, dtype = draw(shapes((0, 4), 5)), draw(st.one_of(STORED, st.just(F16)))
    quant = None if dtype is F16 else draw(stored_quants(dtype, shape))
    return instance(draw, Dequantize(), (TensorType(dtype, shape, quant),))


@st.composite
def requantize(draw: DrawFn) -> Instance:
    shape, source, target = draw(shapes((0, 4), 5)), draw(STORED), draw(STORED)
    op = Requantize(draw(stored_quants(target, shape)), target, draw(NUMERICS))
    return instance(draw, op, (TensorType(source, shape, draw(stored_quants(source, shape))),))


@st.composite
def flipped(draw: DrawFn) -> Instance:
    """uint8 and int8 with zero points 128 apart."""
    quant, is_unsigned = draw(quants(I8)), draw(st.booleans())
    shape = draw(shapes((0, 4), 5))
    x = TensorType(U8, shape, quant.shifted(128)) if is_unsigned else TensorType(I8, shape, quant)
    op = Requantize(quant if is_unsigned else quant.shifted(128), I8 if is_unsigned else U8, draw(NUMERICS))
    return instance(draw, op, (x,))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    Quantize: quantize(),
    Dequantize: dequantize(),
    Requantize: st.one_of(requantize(), flipped()),
}
