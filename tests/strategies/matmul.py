"""Matrix products: dense over any rank, batches that broadcast, the exact product of plain integers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from strategies.conv import with_bias
from strategies.operands import Instance, activations, clamps, instance, outputs, shapes, sizes, weights
from trivet.core.dtype import I8, I32
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.dense_rows import DenseOfRows, DenseToRows
from trivet.ops.matmul import BatchMatMul, Dense, MatMul


@st.composite
def dense(draw: DrawFn) -> Instance:
    features, results = draw(sizes(1, 8)), draw(sizes(1, 5))
    x = draw(activations((*draw(shapes((0, 3), 3)), features)))
    w = draw(weights(x, (results, features), 0))
    out, numerics = draw(outputs(x, features))
    return instance(draw, Dense(draw(clamps(x.dtype)), out, numerics), draw(with_bias(x, w, results)))


@st.composite
def dense_to_rows(draw: DrawFn) -> Instance:
    features, rows, results = draw(sizes(1, 40)), draw(sizes(1, 4)), draw(sizes(1, 20))
    x = draw(activations((1, features)))
    w = draw(weights(x, (rows * results, features), 0))
    out, numerics = draw(outputs(x, features))
    op = DenseToRows(rows, draw(clamps(x.dtype)), out, numerics)
    return instance(draw, op, draw(with_bias(x, w, rows * results)))


@st.composite
def dense_of_rows(draw: DrawFn) -> Instance:
    shape, results = draw(shapes(3, 4)), draw(sizes(1, 20))
    x = draw(activations((1, *shape)))
    features = x.elements
    w = draw(weights(x, (results, features), 0))
    out, numerics = draw(outputs(x, features))
    return instance(draw, DenseOfRows(draw(clamps(x.dtype)), out, numerics), draw(with_bias(x, w, results)))


@st.composite
def batch_matmul(draw: DrawFn) -> Instance:
    batch, (m, k, n) = draw(shapes((0, 2), 3)), draw(st.tuples(sizes(1, 4), sizes(1, 5), sizes(1, 4)))
    left, right = (
        tuple(draw(st.sampled_from((d, 1))) for d in batch)[draw(st.integers(0, len(batch))) :] for _ in range(2)
    )
    transpose = draw(st.booleans())
    a = draw(activations((*left, m, k)))
    b = draw(activations((*right, n, k) if transpose else (*right, k, n), st.just(a.dtype)))
    out, numerics = draw(outputs(a, k))
    return instance(draw, BatchMatMul(transpose, out, numerics), [a, b])


@st.composite
def matmul(draw: DrawFn) -> Instance:
    k = draw(sizes(1, 6))
    rows, columns = draw(shapes((0, 1), 4)), draw(shapes((0, 1), 4))
    dtypes = st.sampled_from((I8, I32))
    types = [TensorType(draw(dtypes), (*rows, k)), TensorType(draw(dtypes), (k, *columns))]
    bias = draw(st.booleans())
    if bias:
        types.append(TensorType(draw(dtypes), (*rows, *columns)[-1:]))
    return instance(draw, MatMul(bias, draw(st.booleans())), types)


STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    Dense: dense(),
    DenseToRows: dense_to_rows(),
    DenseOfRows: dense_of_rows(),
    BatchMatMul: batch_matmul(),
    MatMul: matmul(),
}
