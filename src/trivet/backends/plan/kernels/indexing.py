"""Scatter, the largest elements, operators on bits, and convolutions whose weights are operands."""

from __future__ import annotations

from typing import TypeAlias

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.format import DTYPES
from trivet.backends.plan.kernels.broadcast import BROADCAST, broadcast
from trivet.backends.plan.kernels.conv import GEOMETRY, Geometry
from trivet.backends.plan.kernels.requant import REAL_BOUNDS, real_bounds
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, FieldValue, Record
from trivet.core import dtype as d
from trivet.ir.graph import Node, Value
from trivet.ops.bits import BitKind, Bitwise
from trivet.ops.conv import Conv2D, ConvTranspose2D
from trivet.ops.indexing import Combine, Scatter, TopK

_COMBINES = {combine: code for code, combine in enumerate(Combine)}
_KINDS = {kind: code for code, kind in enumerate(BitKind)}
_SIGNED_RIGHT = len(_KINDS)

SCATTER = CKernel(
    212,
    "scatter",
    Record(
        "scatter",
        (
            Field("x", BLOB, "the operand; absent: an activation holds it"),
            Field("places", BLOB, "i32 or i64, the rows; absent: the next activation holds them"),
            Field("updates", BLOB, "absent: the next activation holds them"),
            Field("rows", U32, "of the operand"),
            Field("row_bytes", U32),
            Field("count", U32, "updates"),
            Field("place_bytes", U32, "4 or 8: of one place"),
            Field("combine", U32, "0 set, 1 add, 2 multiply, 3 smaller, 4 larger"),
            Field("dtype", U32, "of the elements"),
        ),
    ),
    by_rows=False,
)
TOP_K = CKernel(
    213,
    "top_k",
    Record(
        "top_k",
        (
            Field("columns", U32, "of the operand"),
            Field("k", U32),
            Field("largest", U32, "1: the largest, 0: the smallest"),
            Field("dtype", U32, "of the operand"),
        ),
    ),
    by_rows=False,
)
BITWISE = CKernel(
    214,
    "bitwise",
    Record(
        "bitwise",
        (
            *BROADCAST,
            Field("kind", U32, "0 and, 1 or, 2 exclusive or, 3 left, 4 right, 5 right with the sign"),
            Field("bytes", U32, "of an element"),
            Field("dtype", U32),
        ),
    ),
)
CONV_OPERANDS_F32 = CKernel(
    215,
    "conv_operands_f32",
    Record(
        "conv_operands_f32",
        (
            Field("weights", BLOB, "f32 [out_channels][kernel_h][kernel_w][channels of a group]; absent: activation 1"),
            Field("bias", BLOB, "f32 [out_channels]; absent: none, or the last activation"),
            *GEOMETRY,
            Field("bias_operand", U32, "1: the last activation is the bias"),
            *REAL_BOUNDS,
        ),
    ),
)
CONV_TRANSPOSE_OPERANDS_F32 = CKernel(216, "conv_transpose_operands_f32", CONV_OPERANDS_F32.params)
FAMILY = (SCATTER, TOP_K, BITWISE, CONV_OPERANDS_F32, CONV_TRANSPOSE_OPERANDS_F32)

_Params: TypeAlias = "dict[str, FieldValue | Blob | None]"


@KERNELS.kernel(Scatter)
def scatter(node: Node) -> Call | None:
    op, (x, places, updates) = node.op, node.inputs
    assert isinstance(op, Scatter)
    if x.type.elements == 0 or updates.type.elements == 0 or x.type.dtype not in DTYPES:
        return None
    params: _Params = {
        "x": x.data, "places": places.data, "updates": updates.data, "rows": x.type.shape[0],
        "row_bytes": x.type.size_bytes // x.type.shape[0], "count": places.type.elements,
        "place_bytes": places.type.dtype.bits // 8, "combine": _COMBINES[op.combine], "dtype": DTYPES[x.type.dtype],
    }  # fmt: skip
    return Call(SCATTER, tuple(v for v in node.inputs if v.data is None), params, images=1)


@KERNELS.kernel(TopK)
def top_k(node: Node) -> Call:
    op, x = node.op, node.inputs[0].type
    assert isinstance(op, TopK)
    params = {"columns": x.shape[1], "k": op.k, "largest": int(op.largest), "dtype": DTYPES[x.dtype]}
    return Call(TOP_K, node.inputs, params, images=1)


@KERNELS.kernel(Bitwise)
def bitwise(node: Node) -> Call | None:
    op, met, dtype = node.op, broadcast(node), node.output.type.dtype
    assert isinstance(op, Bitwise)
    if met is None:
        return None
    size = 1 if dtype is d.BOOL else dtype.bits // 8
    kind = _SIGNED_RIGHT if op.kind is BitKind.RIGHT and dtype.min < 0 else _KINDS[op.kind]
    return Call(BITWISE, met.operands, met.params | {"kind": kind, "bytes": size, "dtype": DTYPES[dtype]})


@KERNELS.kernel(Conv2D, fallback=True)
def conv_operands(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1].type
    assert isinstance(op, Conv2D)
    geometry = Geometry(
        *_sizes(node), op.groups, w.shape[1], w.shape[2], *op.stride, *op.dilation, op.pads[0][0], op.pads[1][0]
    )
    return _conv_call(CONV_OPERANDS_F32, node, geometry, op)


@KERNELS.kernel(ConvTranspose2D, fallback=True)
def conv_transpose_operands(node: Node) -> Call | None:
    op, w = node.op, node.inputs[1].type
    assert isinstance(op, ConvTranspose2D)
    geometry = Geometry(
        *_sizes(node), op.groups, w.shape[1], w.shape[2], *op.stride, *op.dilation, op.pads[0][0], op.pads[1][0]
    )
    return _conv_call(CONV_TRANSPOSE_OPERANDS_F32, node, geometry, op)


def _sizes(node: Node) -> tuple[int, int, int, int]:
    """Width and channels of operand and result."""
    x, y = node.inputs[0].type.shape, node.output.type.shape
    return x[2], x[3], y[2], y[3]


def _conv_call(kernel: CKernel, node: Node, geometry: Geometry, op: Conv2D | ConvTranspose2D) -> Call | None:
    x, w, *rest = node.inputs
    if any(v.type.dtype is not d.F32 for v in node.inputs) or x.is_constant or x.type.shape[0] != 1:
        return None
    bias: Value | None = rest[0] if rest else None
    params = geometry.params() | real_bounds(op.clamp)
    params |= {
        "weights": w.data,
        "bias": None if bias is None else bias.data,
        "bias_operand": int(bias is not None and bias.data is None),
    }
    return Call(kernel, tuple(v for v in node.inputs if v.data is None), params, by_rows=False)
