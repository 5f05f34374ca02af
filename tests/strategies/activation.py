"""Functions of one operand, and those with a slope or a table beside it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import NUMERICS, Instance, activations, clamps, instance, outputs, quants, shapes
from trivet.core.dtype import F32, I8, I16, I32
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import activation as a
from trivet.ops import mathematics as m
from trivet.ops.softmax import LogSoftmax, Softmax

SHAPES = shapes((0, 4), 6)
ALPHAS = st.sampled_from((0.0, 0.01, 0.3, 1.0, -0.25))


@st.composite
def relu(draw: DrawFn) -> Instance:
    return instance(draw, a.Relu(), (TensorType(draw(st.sampled_from((I8, I32))), draw(SHAPES)),))


@st.composite
def clamp(draw: DrawFn) -> Instance:
    x = draw(activations(draw(SHAPES), st.sampled_from((F32, I8, I16, I32))))
    if x.dtype is I32:
        return instance(draw, a.Clamp(draw(clamps(I16))), (TensorType(I32, x.shape),))
    out, numerics = draw(outputs(x))
    rescale = x.dtype is not F32 and draw(st.booleans())
    return instance(draw, a.Clamp(draw(clamps(x.dtype)), rescale, out, numerics), (x,))


@st.composite
def function(draw: DrawFn, make: Callable[..., Op]) -> Instance:
    """`make(out=, numerics=)` on f32 or quantized integers."""
    x = draw(activations(draw(SHAPES)))
    out, numerics = draw(outputs(x))
    return instance(draw, make(out=out, numerics=numerics), (x,))


@st.composite
def hard_swish(draw: DrawFn) -> Instance:
    """The reference needs an output scale that is not finer than 1/128 of the operand's."""
    x = draw(activations(draw(SHAPES)))
    out, numerics = draw(outputs(x))
    if out is not None and x.quant is not None:
        out = Quant.per_tensor(max(out.scale, x.quant.scale / 64), out.zero_point)
    return instance(draw, a.HardSwish(out, numerics), (x,))


@st.composite
def float_function(draw: DrawFn, op: Op) -> Instance:
    return instance(draw, op, (TensorType(F32, draw(SHAPES)),))


@st.composite
def prelu(draw: DrawFn) -> Instance:
    x = draw(activations(draw(shapes((1, 4), 5))))
    slopes = tuple(d if draw(st.booleans()) else 1 for d in x.shape)[draw(st.integers(0, len(x.shape))) :]
    alpha = TensorType(x.dtype, slopes, None if x.quant is None else draw(quants(x.dtype)))
    out, numerics = draw(outputs(x))
    return instance(draw, a.PRelu(out, numerics), (x, alpha))


@st.composite
def lookup(draw: DrawFn) -> Instance:
    quant = draw(quants(I8))
    return instance(draw, a.Lookup(quant), (TensorType(I8, draw(SHAPES), quant), TensorType(I8, (256,))))


@st.composite
def softmax(draw: DrawFn) -> Instance:
    """Quantized results have the scale and zero point that the references demand."""
    x = draw(activations(draw(shapes((1, 4), 8))))
    axis, beta = draw(st.integers(0, x.rank - 1)), draw(st.sampled_from((1.0, 0.5, 1.7)))
    if x.dtype is F32:
        return instance(draw, Softmax(axis, beta), (x,))
    dtype = I8 if x.dtype is I8 and draw(st.booleans()) else I16
    out = Quant.per_tensor(1 / 256, -128) if dtype is I8 else Quant.per_tensor(1 / 32768, 0)
    return instance(draw, Softmax(axis, beta, out, dtype, draw(NUMERICS)), (x,))


@st.composite
def log_softmax(draw: DrawFn) -> Instance:
    x = draw(activations(draw(shapes((1, 4), 8))))
    axis = draw(st.integers(0, x.rank - 1))
    if x.dtype is F32:
        return instance(draw, LogSoftmax(axis), (x,))
    out = Quant.per_tensor(16 / 256, 127) if x.dtype is I8 else Quant.per_tensor(2.0**-11, 0)
    return instance(draw, LogSoftmax(axis, out, draw(NUMERICS)), (x,))


def with_alpha(kind: Callable[..., Op]) -> SearchStrategy[Instance]:
    return ALPHAS.flatmap(lambda alpha: function(lambda out, numerics: kind(alpha, out=out, numerics=numerics)))


FLOAT_FUNCTIONS = (
    m.Log, m.Sqrt, m.Neg, m.Reciprocal, m.Erf, m.Floor, m.Ceil, m.Round, m.Sin, m.Cos, m.Atan, a.Softplus,
)  # fmt: skip

STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    a.Relu: relu(),
    a.Clamp: clamp(),
    **{kind: function(kind) for kind in (a.Logistic, a.Tanh, m.Abs, m.Exp, m.Rsqrt)},
    a.HardSwish: hard_swish(),
    a.Gelu: st.booleans().flatmap(
        lambda approximate: function(lambda out, numerics: a.Gelu(approximate, out, numerics))
    ),
    a.LeakyRelu: with_alpha(a.LeakyRelu),
    a.Elu: with_alpha(a.Elu),
    a.HardSigmoid: float_function(a.HardSigmoid(0.2, 0.5)),
    a.PRelu: prelu(),
    **{kind: float_function(kind()) for kind in FLOAT_FUNCTIONS},
    a.Lookup: lookup(),
    Softmax: softmax(),
    LogSoftmax: log_softmax(),
}
