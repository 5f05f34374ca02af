"""Products on the array: matrix products and dense layers, and what convolutions share with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from trivet.backends.tpu.ir import (
    ID,
    PASS_FIELDS,
    ROW,
    ArrayLayer,
    Bias,
    Clamp,
    Ints,
    Join,
    Load,
    Offset,
    Operation,
    Reduce,
    Relu,
    Rescale,
    Round,
    Rounding,
    Step,
    Target,
    VectorLayer,
    View,
)
from trivet.backends.tpu.limits import check_shifts, refuse_unless
from trivet.backends.tpu.lowering.builder import LOWERINGS, Builder, Lower
from trivet.core.dtype import I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import quantize_multipliers
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.op import Array
from trivet.ir.types import TensorType
from trivet.ops.conv import Conv2D, DepthwiseConv2D
from trivet.ops.matmul import Dense, MatMul
from trivet.ops.products import clamp_limits
from trivet.ops.stored import centered

Block = tuple[int, int, tuple[tuple[int, int], ...]]
"""Output columns [n0, n1), and the runs (k, size) of rows of the weight matrix that they need."""


@dataclass(frozen=True, slots=True)
class Product:
    """A weight matrix [K, O] in plain integers, and the blocks of it that are worth a pass."""

    weights: Array
    blocks: tuple[Block, ...]

    @staticmethod
    def dense(weights: Array, size: int) -> Product:
        """Every tile of the matrix."""
        k, columns = weights.shape
        runs = tuple((start, min(size, k - start)) for start in range(0, k, size))
        blocks = tuple((n, min(n + size, columns), runs) for n in range(0, columns, size))
        return Product(weights, blocks)


@LOWERINGS.kernel(MatMul)
def lower_matmul(node: Node) -> Lower:
    """Operands that are int8 as they stand, or constants that fit."""
    for operand in node.inputs[:2]:
        fits = operand.data is not None and bool(np.all(np.abs(operand.data.astype(np.int64) * 2 + 1) <= 255))
        refuse_unless(
            operand.type.dtype is I8 or fits,
            node,
            f"operand {operand.said} of @ is {operand.type}: the array multiplies int8 inputs, constants and "
            "requantized values",
        )
    return partial(_emit_matmul, node)


def _emit_matmul(node: Node, builder: Builder) -> None:
    op, (a, b) = node.op, node.inputs[:2]
    assert isinstance(op, MatMul)
    k = a.type.shape[-1]
    columns = b.type.elements // k if k else node.output.type.elements
    view = _narrow(builder, a, k)
    epilogue: list[Step] = []
    bias = node.inputs[2] if op.bias else None
    if bias is not None and bias.data is not None:
        epilogue.append(Bias(builder.parameters(bias.data.reshape(-1))))
    if op.relu:
        epilogue.append(Relu())
    sums = epilogue if bias is None or bias.is_constant else []
    if b.data is not None:
        product = Product.dense(b.data.astype(np.int16).reshape(k, columns), builder.machine.array)
        emit_product(builder, node, view, product, sums)
    else:
        size = builder.machine.array
        runs = [(n, [(start, -1) for start in range(0, k, size)]) for n in range(0, columns, size)]
        _emit_layer(builder, node, view, View.matrix(builder.buffer(b), k, columns), columns, sums, runs)
    if bias is not None and not bias.is_constant:
        _emit_computed_bias(builder, node, bias, columns, epilogue)


def _emit_computed_bias(builder: Builder, node: Node, bias: Value, columns: int, epilogue: list[Step]) -> None:
    """The vector unit adds a bias that is no constant to every row; the sums go to a buffer of their own."""
    sums = builder.buffer(node.output)
    rows = node.output.type.elements // columns
    row = View(builder.buffer(bias), 0, (0, 0, 0, 1), 1, (rows, 1), columns, (rows, 1))
    steps = (Join(Operation.ADD, row), *epilogue)
    view = View.matrix(sums, rows, columns)
    target = Target.matrix(builder.define(node.output), rows, columns)
    builder.add(VectorLayer(f"{node.output.name}.bias", view, Reduce.SUM, steps, target))


def _narrow(builder: Builder, value: Value, columns: int) -> View:
    """The matrix view of an operand; constants of int32 that fit are stored as int8."""
    if value.data is not None and value.type.dtype is not I8:
        narrow = Value(TensorType(I8, value.type.shape), value.name, value.data.astype(np.int8))
        return builder.matrix(narrow, columns)
    return builder.matrix(value, columns)


@LOWERINGS.kernel(Dense)
def lower_dense(node: Node) -> Lower:
    """[..., K] rows."""
    check_quantized(node)
    return partial(_emit_dense, node)


def _emit_dense(node: Node, builder: Builder) -> None:
    weights = centered_weights(node).T
    view = builder.matrix(node.inputs[0], weights.shape[0])
    emit_product(builder, node, view, Product.dense(weights, builder.machine.array), None)


def check_quantized(node: Node) -> None:
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Dense | Conv2D | DepthwiseConv2D)
    refuse_unless(x.type.dtype is I8, node, f"it computes on {x.type.dtype.name}: the array multiplies int8 values")
    refuse_unless(all(value.is_constant for value in node.inputs[1:]), node, "its weights and bias must be constants")
    assert x.type.quant is not None
    check_shifts(node, quantize_multipliers(op.scales(node.input_types))[1].tolist())
    weights, bias = centered_weights(node), _folded_bias(node)
    axis = -1 if isinstance(op, DepthwiseConv2D) else 0
    others = tuple(i for i in range(weights.ndim) if i != axis % weights.ndim)
    largest = int((128 * np.abs(weights).sum(axis=others, dtype=np.int64) + np.abs(bias)).max(initial=0))
    refuse_unless(largest < 1 << 31, node, f"a sum may reach {largest}, beyond int32")


def centered_weights(node: Node) -> Array:
    """Stored weights minus their zero points."""
    w = node.inputs[1]
    assert w.data is not None
    return centered(w.data, w.type).astype(np.int16)


def _folded_bias(node: Node) -> Ints:
    """The bias minus what the operand's zero point adds to every sum: [O]."""
    x, weights = node.inputs[0].type, centered_weights(node)
    assert x.quant is not None
    axis = weights.ndim - 1 if isinstance(node.op, DepthwiseConv2D) else 0
    sums = weights.sum(axis=tuple(i for i in range(weights.ndim) if i != axis), dtype=np.int64)
    bias: Ints = -x.quant.zero_point * sums
    if len(node.inputs) == 3 and node.inputs[2].data is not None:
        bias = bias + node.inputs[2].data
    return bias


def requantize(builder: Builder, node: Node, pixels: int) -> list[Step]:
    """The epilogue of a quantized product whose columns are `pixels` times the output channels."""
    op = node.op
    assert isinstance(op, Dense | Conv2D | DepthwiseConv2D) and op.out is not None
    limits = clamp_limits(I8, op.clamp)
    return [
        Bias(builder.parameters(np.tile(_folded_bias(node), pixels))),
        _to_output_scale(builder, node, pixels),
        Offset(op.out.zero_point),
        Clamp(limits.lo, limits.hi),
    ]


def _to_output_scale(builder: Builder, node: Node, pixels: int) -> Step:
    """As the contract does it: by Q0.31 multipliers; in ONNX and in LiteRT's dense layers by float64 ones."""
    op = node.op
    assert isinstance(op, Dense | Conv2D | DepthwiseConv2D) and op.numerics is not None
    scales = np.tile(op.scales(node.input_types), pixels)
    if op.numerics is Numerics.ONNX:
        return Round(builder.doubles(scales), 1, Rounding.EVEN)
    if isinstance(op, Dense) and op.numerics.is_litert:
        return Round(builder.doubles(scales), 1, Rounding.AWAY)
    mantissas, shifts = quantize_multipliers(scales)
    return Rescale(builder.parameters([*mantissas, *shifts]))


def emit_product(
    builder: Builder, node: Node, view: View, product: Product, epilogue: list[Step] | None, pixels: int = 1
) -> None:
    """A layer of all passes of a product with constant weights, which are split where they are no int8."""
    runs: list[tuple[int, list[tuple[int, int]]]] = []
    parts = _int8_parts(product.weights)
    for n, stop, rows in product.blocks:
        tiles = []
        for k, size in rows:
            for part in parts:
                tile = np.zeros((builder.machine.array, builder.machine.array), np.int8)
                tile[:size, : stop - n] = part[k : k + size, n:stop]
                tiles.append((k, builder.tile(tile)))
        runs.append((n, tiles))
    steps = requantize(builder, node, pixels) if epilogue is None else epilogue
    _emit_layer(builder, node, view, None, product.weights.shape[1], steps, runs)


def _int8_parts(weights: Array) -> list[Array]:
    """int8 matrices that add up to `weights`."""
    parts: list[Array] = []
    rest = weights
    while not parts or rest.any():
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


def _emit_layer(
    builder: Builder,
    node: Node,
    view: View,
    b: View | None,
    columns: int,
    epilogue: list[Step],
    runs: Sequence[tuple[int, Sequence[tuple[int, int]]]],
) -> None:
    """Windows of N rows: for each window, for each block of columns, one pass for each tile."""
    assert node.output.type.dtype in (I8, I32)
    buffer = builder.define(node.output)
    target = Target.matrix(buffer, view.rows, columns)
    layer = ArrayLayer(
        node.output.name or node.op.name,
        view,
        b,
        columns,
        tuple(epilogue),
        target,
        pass_table(view.rows, builder.machine.array, runs),
        macs=node.op.macs(node.input_types),
    )
    builder.add(layer)


def pass_table(rows: int, size: int, runs: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> Ints:
    """Passes in the order of windows, then column blocks, then tiles; each loads its tile when the array is empty."""
    window = [
        (k, tile, n, int(i == 0), int(i == len(tiles) - 1)) for n, tiles in runs for i, (k, tile) in enumerate(tiles)
    ]
    k, tile, n, first, last = np.array(window, np.int64).reshape(-1, 5).T
    starts = np.arange(0, rows, size)
    table = np.zeros((len(starts), len(window), len(PASS_FIELDS)), np.int64)
    each = starts[:, None]
    columns: tuple[npt.ArrayLike, ...] = (
        each,
        np.minimum(size, rows - each),
        k,
        tile,
        n,
        0,
        first,
        last,
        int(Load.AFTER),
    )
    for index, column in enumerate(columns, ROW):
        table[:, :, index] = column
    table[:, :, ID] = np.arange(len(starts) * len(window)).reshape(len(starts), -1)
    return table.reshape(-1, len(PASS_FIELDS))
