"""Places in tensors, logic on booleans, whole quotients, sums so far: stated in other operators."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from trivet.core.dtype import BOOL, F32, I32, I64
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.ops.conv import window_pads
from trivet.ir.graph import Value
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.bits import BitKind, Bitwise
from trivet.ops.elementwise import (
    Add,
    Cast,
    Div,
    Equal,
    Greater,
    Less,
    Maximum,
    Minimum,
    Mul,
    NotEqual,
    Pow,
    Sub,
    Where,
)
from trivet.ops.indexing import Combine, Scatter, TopK
from trivet.ops.mathematics import Atan, Floor, Sqrt
from trivet.ops.matmul import BatchMatMul
from trivet.ops.movement import Gather, Reshape, Transpose
from trivet.ops.pool import AveragePool2D
from trivet.ops.reduce import ReduceMax, ReduceMin, Sum


def pair(made: Op, op: Conversion) -> None:
    """Booleans are 0 and 1, so AND and OR are extrema."""
    op.result(op.emit(made, op.operand(0), op.operand(1)))


def logical_not(op: Conversion) -> None:
    op.result(op.emit(Equal(), op.operand(0), op.plain(np.array(False), TensorType(BOOL, ()))))


def reduced(kind: type[ReduceMax] | type[ReduceMin], op: Conversion) -> None:
    x = op.operand(0)
    op.result(op.emit(kind(op.axes(1, x.type.rank), op.flag("keep_dims")), x))


def top_k(op: Conversion) -> None:
    """The k largest along the last axis, and where they stand."""
    x, k = op.operand(0), op.integers(1)[0]
    if x.type.rank == 0 or not 1 <= k <= x.type.shape[-1]:
        raise InvalidModel(f"the {k} largest of {x.type}")
    rows = op.emit(Reshape((math.prod(x.type.shape[:-1]), x.type.shape[-1])), x)
    values, places = op.emit_all(TopK(k, True, I32), rows)
    shape = (*x.type.shape[:-1], k)
    op.result(op.emit(Reshape(shape), values))
    op.result(op.emit(Reshape(shape), places), 1)


def _places(op: Conversion, tuples: Value, shape: tuple[int, ...]) -> Value:
    """Rows that tuples of indices into axes of those extents mean: [count]."""
    depth = len(shape)
    strides = np.array([math.prod(shape[i + 1 :]) for i in range(depth)], np.int64)
    wide = tuples if tuples.type.dtype is I64 else op.emit(Cast(I64), tuples)
    flat = op.emit(Reshape((tuples.type.elements // depth, depth)), wide)
    return op.emit(Sum((1,)), op.emit(Mul(), flat, op.plain(strides, TensorType(I64, (depth,)))))


def gather_nd(op: Conversion) -> None:
    """x, tuples [.., T] of indices into its first T axes."""
    x, tuples = op.operand(0), op.operand(1)
    if tuples.type.rank == 0 or not 1 <= tuples.type.shape[-1] <= x.type.rank:
        raise InvalidModel(f"indices {tuples.type} of {x.type}")
    depth = tuples.type.shape[-1]
    rest = x.type.shape[depth:]
    rows = op.emit(Reshape((math.prod(x.type.shape[:depth]), *rest)), x)
    chosen = op.emit(Gather(0), rows, _places(op, tuples, x.type.shape[:depth]))
    op.result(op.emit(Reshape((*tuples.type.shape[:-1], *rest)), chosen))


def scatter_nd(op: Conversion) -> None:
    """tuples [.., T], updates, the shape of the result: zeros to which updates are added."""
    tuples, updates, shape = op.operand(0), op.operand(1), op.known_shape(2)
    if tuples.type.rank == 0 or not 1 <= tuples.type.shape[-1] <= len(shape):
        raise InvalidModel(f"indices {tuples.type} into {list(shape)}")
    depth, dtype = tuples.type.shape[-1], updates.type.dtype
    rows, size = math.prod(shape[:depth]), math.prod(shape[depth:])
    places = _places(op, tuples, shape[:depth])
    flat = op.emit(Reshape((places.type.elements, size)), updates)
    zeros = op.plain(np.zeros((rows, size), dtype.numpy), TensorType(dtype, (rows, size)))
    combine = Combine.ADD if dtype in (F32, I32, I64) else Combine.SET
    op.result(op.emit(Reshape(shape), op.emit(Scatter(combine), zeros, places, flat)))


def cumulative_sum(op: Conversion) -> None:
    """A product with a triangle of ones."""
    x = op.operand(0)
    axis = op.axis(op.integers(1)[0], x.type.rank)
    size = x.type.shape[axis]
    ones = np.triu(np.ones((size, size)), int(op.flag("exclusive")))
    ones = ones.T if op.flag("reverse") else ones
    perm = (*(i for i in range(x.type.rank) if i != axis), axis)
    moved = op.emit(Transpose(perm), x)
    rows = x.type.elements // max(size, 1)
    triangle = op.plain(ones.astype(x.type.dtype.numpy), TensorType(x.type.dtype, (size, size)))
    if x.type.dtype is F32:
        sums = op.emit(BatchMatMul(), op.emit(Reshape((rows, size)), moved), triangle)
    else:
        sums = op.emit(Sum((1,)), op.emit(Mul(), op.emit(Reshape((rows, size, 1)), moved), triangle))
    back = tuple(int(i) for i in np.argsort(perm))
    op.result(op.emit(Transpose(back), op.emit(Reshape(moved.type.shape), sums)))


def one_hot(op: Conversion) -> None:
    """indices, depth, on, off: on where an index is met."""
    indices, depth, on, off = op.operand(0), op.integers(1)[0], op.operand(2), op.operand(3)
    rank = indices.type.rank
    axis = op.axis(op.integer("axis"), rank + 1)
    shape = (*indices.type.shape[:axis], 1, *indices.type.shape[axis:])
    numbers = np.arange(depth).reshape(depth, *(1 for _ in range(rank - axis))).astype(indices.type.dtype.numpy)
    classes = op.plain(numbers, TensorType(indices.type.dtype, numbers.shape))
    op.result(op.emit(Where(), op.emit(Equal(), op.emit(Reshape(shape), indices), classes), on, off))


def floor_div(op: Conversion) -> None:
    op.result(_whole_quotient(op, op.operand(0), op.operand(1)))


def floor_mod(op: Conversion) -> None:
    a, b = op.operand(0), op.operand(1)
    op.result(op.emit(Sub(), a, op.emit(Mul(), b, _whole_quotient(op, a, b))))


def _whole_quotient(op: Conversion, a: Value, b: Value) -> Value:
    """a / b rounded down; the quotient of integers truncates.

    Raises: Unsupported.
    """
    quotient = op.emit(Div(), a, b)
    if a.type.dtype is F32:
        return op.emit(Floor(), quotient)
    if a.type.dtype not in (I32, I64) or a.type.quant is not None:
        raise Unsupported(f"{op.record.kind} on {a.type}; accepted are float32, int32 and int64")
    zero = _scalar(op, a, 0)
    inexact = op.emit(NotEqual(), op.emit(Mul(), quotient, b), a)
    apart = op.emit(NotEqual(), op.emit(Less(), a, zero), op.emit(Less(), b, zero))
    less = op.emit(Sub(), quotient, _scalar(op, a, 1))
    return op.emit(Where(), op.emit(Minimum(), inexact, apart), less, quotient)


def _scalar(op: Conversion, like: Value, value: float) -> Value:
    dtype = like.type.dtype
    return op.plain(np.array(value, dtype.numpy), TensorType(dtype, ()))


def sign(op: Conversion) -> None:
    """(x > 0) - (x < 0)."""
    x = op.operand(0)
    zero = _scalar(op, x, 0)
    above, below = (op.emit(Cast(x.type.dtype), op.emit(kind(), x, zero)) for kind in (Greater, Less))
    op.result(op.emit(Sub(), above, below))


def atan2(op: Conversion) -> None:
    """The angle of (b, a): atan(a / b), moved by pi where b is negative; pi/2 with a's sign where b is 0."""
    a, b = op.operand(0), op.operand(1)
    zero, half = op.number(0.0), op.number(math.pi / 2)
    angle = op.emit(Atan(), op.emit(Div(), a, b))
    turn = op.emit(Where(), op.emit(Less(), a, zero), op.number(-math.pi), op.number(math.pi))
    angle = op.emit(Where(), op.emit(Less(), b, zero), op.emit(Add(), angle, turn), angle)
    side = op.emit(Where(), op.emit(Less(), a, zero), op.number(-math.pi / 2), half)
    upright = op.emit(Where(), op.emit(Equal(), a, zero), zero, side)
    op.result(op.emit(Where(), op.emit(Equal(), b, zero), upright, angle))


def local_response(op: Conversion) -> None:
    """x / (bias + alpha * sum of x^2 over 2 * radius + 1 channels)^beta."""
    x, radius = op.operand(0), op.integer("radius")
    channels = x.type.shape[-1]
    if radius < 0 or x.type.dtype is not F32:
        raise Unsupported(f"local response of {x.type} over {radius} neighbours")
    near = np.abs(np.arange(channels)[:, None] - np.arange(channels)[None, :]) <= radius
    band = op.plain(near.astype(np.float32), TensorType(F32, (channels, channels)))
    squares = op.emit(Reshape((x.type.elements // channels, channels)), op.emit(Mul(), x, x))
    sums = op.emit(Reshape(x.type.shape), op.emit(BatchMatMul(), squares, band))
    base = op.emit(Add(), op.emit(Mul(), sums, op.number(op.real("alpha"))), op.number(op.real("bias")))
    op.result(op.emit(Mul(), x, op.emit(Pow(), base, op.number(-op.real("beta")))))


def l2_pool(op: Conversion) -> None:
    """The root of the mean of squares over a window."""
    x = op.operand(0)
    if x.type.rank != 4 or x.type.dtype is not F32 or op.integer("activation"):
        raise Unsupported(f"L2_POOL_2D of {x.type} with activation {op.integer('activation')}")
    kernel = (op.integer("filter_h"), op.integer("filter_w"))
    stride = (op.integer("stride_h"), op.integer("stride_w"))
    pool = AveragePool2D(kernel, stride, window_pads(op, x.type, kernel, stride, (1, 1)))
    op.result(op.emit(Sqrt(), op.emit(pool, op.emit(Mul(), x, x))))


CONVERTERS: dict[str, Converter] = {
    "LOGICAL_AND": partial(pair, Minimum()),
    "LOGICAL_OR": partial(pair, Maximum()),
    "LOGICAL_NOT": logical_not,
    "REDUCE_ANY": partial(reduced, ReduceMax),
    "REDUCE_ALL": partial(reduced, ReduceMin),
    "TOPK_V2": top_k,
    "GATHER_ND": gather_nd,
    "SCATTER_ND": scatter_nd,
    "CUMSUM": cumulative_sum,
    "ONE_HOT": one_hot,
    "FLOOR_DIV": floor_div,
    "FLOOR_MOD": floor_mod,
    "SIGN": sign,
    "ATAN2": atan2,
    "BITWISE_XOR": partial(pair, Bitwise(BitKind.XOR)),
    "RIGHT_SHIFT": partial(pair, Bitwise(BitKind.RIGHT)),
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
    "L2_POOL_2D": l2_pool,
}
