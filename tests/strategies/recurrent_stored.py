"""Recurrent layers of TensorFlow Lite on stored integers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, clamps, instance, quants, scales, sizes
from trivet.core.bounds import UNBOUNDED
from trivet.core.dtype import F32, I8, I16, I32, I64
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.recurrent_stored import GATES, QuantizedLstm, Svdf


@st.composite
def by_gate(draw: DrawFn, hidden: int, columns: int) -> TensorType:
    values = [draw(scales(0.05)) for _ in range(GATES)]
    quant = Quant.per_axis([v for v in values for _ in range(hidden)], [0] * (GATES * hidden), 0)
    return TensorType(I8, (GATES * hidden, columns), quant)


@st.composite
def lstms(draw: DrawFn) -> Instance:
    steps, batch, inputs, hidden = draw(sizes(1, 3)), draw(sizes(1, 2)), draw(sizes(1, 8)), draw(sizes(1, 5))
    numerics = draw(st.sampled_from((Numerics.TFLM, Numerics.LITERT)))
    dtype = I8 if numerics is Numerics.LITERT else draw(st.sampled_from((I8, I16)))
    x = TensorType(dtype, (steps, batch, inputs), draw(quants(dtype, 0.1)))
    hidden_quant = draw(quants(dtype, 0.01))
    cell = TensorType(I16, (batch, hidden), Quant.per_tensor(2.0 ** draw(st.integers(-16, -6)), 0))
    bias = TensorType(I32 if dtype is I8 else draw(st.sampled_from((I32, I64))), (GATES * hidden,))
    op = QuantizedLstm(draw(quants(dtype, 0.01)), numerics, draw(st.sampled_from((0.0, 0.5, 10.0))))
    weights = [draw(by_gate(hidden, inputs)), draw(by_gate(hidden, hidden))]
    return instance(draw, op, [x, *weights, bias, TensorType(dtype, (batch, hidden), hidden_quant), cell])


@st.composite
def svdfs(draw: DrawFn) -> Instance:
    batch, inputs, memory, rank, units = (draw(sizes(1, n)) for n in (2, 9, 4, 2, 3))
    filters = rank * units
    shapes = ((batch, inputs), (filters, inputs), (filters, memory), (units,), (batch, filters * memory))
    if draw(st.booleans()):
        bounds = draw(clamps(F32))
        return instance(draw, Svdf(rank, bounds), [TensorType(F32, shape) for shape in shapes])
    numerics = draw(st.sampled_from((Numerics.TFLM, Numerics.LITERT)))
    narrow = numerics is Numerics.TFLM and draw(st.booleans())
    symmetric = Quant.per_tensor(draw(scales(0.1)), 0)
    state = draw(quants(I8)) if narrow else Quant.per_tensor(draw(scales(0.01)), 0)
    dtypes = (I8, I8, I8 if narrow else I16, I32, I8 if narrow else I16)
    held = (draw(quants(I8)), symmetric, Quant.per_tensor(draw(scales(0.1)), 0), None, state)
    types = [TensorType(d, shape, q) for d, shape, q in zip(dtypes, shapes, held, strict=True)]
    return instance(draw, Svdf(rank, UNBOUNDED, draw(quants(I8)), numerics), types)


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {QuantizedLstm: lstms(), Svdf: svdfs()}
