"""Scatter and the largest elements."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, filled, instance, quants, shapes, sizes
from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, U8
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.bits import INTEGERS, BitKind, Bitwise
from trivet.ops.indexing import ORDERED, Combine, Scatter, TopK


@st.composite
def scatters(draw: DrawFn) -> Instance:
    combine = draw(st.sampled_from(Combine))
    dtype = draw(st.sampled_from((F32, I8, U8, I16, I32, I64, BOOL) if combine is Combine.SET else (F32, I32, I64)))
    rows, columns, count = draw(sizes(1, 5)), draw(sizes(1, 4)), draw(sizes(1, 6))
    quant = draw(quants(dtype)) if dtype in (I8, I16) else None
    x = TensorType(dtype, (rows, columns), quant)
    places = TensorType(draw(st.sampled_from((I32, I64))), (count,))
    updates = TensorType(dtype, (count, columns), quant)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = rng.integers(-rows, rows, count).astype(places.dtype.numpy)
    return Instance(Scatter(combine), (x, places, updates), (filled(draw, x), chosen, filled(draw, updates)))


@st.composite
def top_ks(draw: DrawFn) -> Instance:
    dtype = draw(st.sampled_from(ORDERED))
    rows, columns = draw(sizes(1, 4)), draw(sizes(1, 8))
    quant = draw(quants(dtype)) if dtype in (I8, I16) else None
    op = TopK(draw(st.integers(1, columns)), draw(st.booleans()), draw(st.sampled_from((I32, I64))))
    return instance(draw, op, [TensorType(dtype, (rows, columns), quant)])


@st.composite
def bitwise(draw: DrawFn) -> Instance:
    kind = draw(st.sampled_from(BitKind))
    moves = kind in (BitKind.LEFT, BitKind.RIGHT)
    dtype = draw(st.sampled_from(INTEGERS if moves else (*INTEGERS, BOOL)))
    shape = draw(shapes((0, 4)))
    other = tuple(draw(st.sampled_from((d, 1))) for d in shape)[draw(st.integers(0, len(shape))) :]
    case = instance(draw, Bitwise(kind), [TensorType(dtype, shape), TensorType(dtype, other)])
    if not moves:
        return case
    places = np.asarray(np.abs(case.arrays[1].astype(np.int64)) % (dtype.bits + 2), dtype.numpy)
    return Instance(case.op, case.types, (case.arrays[0], places))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {Scatter: scatters(), TopK: top_ks(), Bitwise: bitwise()}
