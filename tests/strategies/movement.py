"""Operators that move elements: any rank and element type, negative steps, padding of every mode."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.operands import Instance, filled, instance, quants, shapes, sizes
from trivet.core.dtype import BOOL, F32, I8, I16, I32, I64, U8
from trivet.ir.op import Op
from trivet.ir.types import Shape, TensorType
from trivet.ops import movement as m

DTYPES = st.sampled_from((F32, I8, U8, I16, I32, I64, BOOL))


@st.composite
def operand(draw: DrawFn, shape: Shape) -> TensorType:
    dtype = draw(DTYPES)
    return TensorType(dtype, shape, draw(quants(dtype)) if dtype in (I8, I16) and draw(st.booleans()) else None)


@st.composite
def copy(draw: DrawFn) -> Instance:
    return instance(draw, m.Copy(), (draw(operand(draw(shapes((0, 4), 4)))),))


@st.composite
def reshape(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((0, 4), 4))))
    parts = [d for d in x.shape if d != 1]
    joined: list[int] = []
    for part in parts:
        if joined and draw(st.booleans()):
            joined[-1] *= part
        else:
            joined.append(part)
    shape = tuple(d for part in joined for d in ((part, 1) if draw(st.booleans()) else (part,)))
    assert math.prod(shape) == x.elements
    return instance(draw, m.Reshape(shape), (x,))


@st.composite
def reinterpret(draw: DrawFn) -> Instance:
    x = TensorType(I8, draw(shapes((0, 4), 4)), draw(quants(I8)))
    return instance(draw, m.Reinterpret(draw(st.one_of(st.none(), quants(I8)))), (x,))


@st.composite
def transpose(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((0, 5), 4))))
    return instance(draw, m.Transpose(tuple(draw(st.permutations(range(x.rank))))), (x,))


@st.composite
def concat(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((1, 4), 4))))
    axis = draw(st.integers(0, x.rank - 1))
    extents = draw(st.lists(sizes(1, 4), min_size=1, max_size=4))
    return instance(draw, m.Concat(axis), [x.with_shape((*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in extents])


@st.composite
def slice_(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((0, 4), 6))))
    starts, counts, steps = [], [], []
    for extent in x.shape:
        step = draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2)))
        start = draw(st.integers(0, extent - 1))
        room = (extent - 1 - start) // step if step > 0 else start // -step
        starts.append(start)
        counts.append(draw(st.integers(1, room + 1)))
        steps.append(step)
    return instance(draw, m.Slice(tuple(starts), tuple(counts), tuple(steps)), (x,))


@st.composite
def pad(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((1, 4), 4))))
    mode = draw(st.sampled_from(m.PadMode))
    limit = {m.PadMode.REFLECT: 1, m.PadMode.SYMMETRIC: 0}.get(mode)
    widest = [3 if limit is None else d - limit for d in x.shape]
    before, after = (tuple(draw(st.integers(0, w)) if draw(st.booleans()) else 0 for w in widest) for _ in range(2))
    value = draw(st.integers(0, 1)) if x.dtype is BOOL else draw(st.integers(0, 100))
    return instance(draw, m.Pad(before, after, value, mode), (x,))


@st.composite
def expand(draw: DrawFn) -> Instance:
    shape = draw(shapes((0, 4), 4))
    x = tuple(d if draw(st.booleans()) else 1 for d in shape)[draw(st.integers(0, len(shape))) :]
    return instance(draw, m.Expand(shape), (draw(operand(x)),))


@st.composite
def tile(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((1, 4), 3))))
    return instance(draw, m.Tile(tuple(draw(st.integers(1, 3)) for _ in x.shape)), (x,))


@st.composite
def gather(draw: DrawFn) -> Instance:
    x = draw(operand(draw(shapes((1, 4), 4))))
    axis = draw(st.integers(0, x.rank - 1))
    indices = TensorType(draw(st.sampled_from((I32, I64))), draw(shapes((0, 2), 4)))
    extent = x.shape[axis]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = rng.integers(-extent, extent, indices.shape).astype(indices.dtype.numpy)
    return Instance(m.Gather(axis), (x, indices), (filled(draw, x), chosen))


@st.composite
def space_to_depth(draw: DrawFn) -> Instance:
    n, h, w, c = draw(shapes(4, 3))
    block = draw(sizes(1, 3))
    return instance(draw, m.SpaceToDepth(block), (draw(operand((n, h * block, w * block, c))),))


@st.composite
def depth_to_space(draw: DrawFn) -> Instance:
    n, h, w, c = draw(shapes(4, 3))
    block = draw(sizes(1, 3))
    return instance(draw, m.DepthToSpace(block, draw(st.booleans())), (draw(operand((n, h, w, c * block**2))),))


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    m.Copy: copy(),
    m.Reshape: reshape(),
    m.Reinterpret: reinterpret(),
    m.Transpose: transpose(),
    m.Concat: concat(),
    m.Slice: slice_(),
    m.Pad: pad(),
    m.Expand: expand(),
    m.Tile: tile(),
    m.Gather: gather(),
    m.SpaceToDepth: space_to_depth(),
    m.DepthToSpace: depth_to_space(),
}
