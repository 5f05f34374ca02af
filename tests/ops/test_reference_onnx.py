"""Convolutions, pools, products, reductions and resizes against onnxruntime without optimizations.

ONNX is channels first, Trivet channels last: operands are transposed on the way in, results on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from one_operator import assert_same, integer, operand, rngs, seed, weight
from onnx import helper, numpy_helper

from references import run_onnxruntime
from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I32, I64
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType, Types
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.matmul import BatchMatMul, Dense
from trivet.ops.pool import AveragePool2D, MaxPool2D
from trivet.ops.reduce import ArgMax, Mean, ReduceMax, ReduceProd, Sum
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest
from trivet.ops.windows import Pads2D

CASES = 40
OPSET = 18


def run_nodes(nodes: Sequence[onnx.NodeProto], x: Array, constants: dict[str, Array]) -> Array:
    """The value `y` of a graph with the input `x`."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return run_onnxruntime(model.SerializeToString(), {"x": x})[0]


def node(kind: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def first(array: Array) -> Array:
    """Channels first."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))


def last(array: Array) -> Array:
    """Channels last."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def flat_pads(pads: Pads2D) -> list[int]:
    """ONNX's order: all befores, then all afters."""
    return [pads[0][0], pads[1][0], pads[0][1], pads[1][1]]


def random_pads(rng: np.random.Generator, widest: int) -> Pads2D:
    top, bottom, left, right = (integer(rng, 0, widest) for _ in range(4))
    return (top, bottom), (left, right)


def pair(rng: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    return integer(rng, low, high), integer(rng, low, high)


def test_float_convolution(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        groups = int(rng.choice([1, 1, 2]))
        (x_type, x), (w_type, w), (b_type, b) = (
            operand(rng, shape, F32)
            for shape in ((2, *pair(rng, 6, 9), 4), (groups * 3, *pair(rng, 1, 3), 4 // groups), (groups * 3,))
        )
        stride, dilation, pads = pair(rng, 1, 3), pair(rng, 1, 2), random_pads(rng, 2)
        op = Conv2D(stride, dilation, pads, groups)
        conv = node("Conv", "x w b", "y", strides=stride, dilations=dilation, pads=flat_pads(pads), group=groups)
        expected = last(run_nodes([conv], first(x), {"w": first(w), "b": b}))
        assert_same(op, (x_type, w_type, b_type), (x, w, b), expected)


def test_float_transposed_convolution(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        groups = int(rng.choice([1, 1, 2]))
        kernel, stride, dilation = pair(rng, 1, 4), pair(rng, 1, 3), pair(rng, 1, 2)
        pads = random_pads(rng, 1)
        extra = (integer(rng, 0, stride[0] - 1), integer(rng, 0, stride[1] - 1))
        (x_type, x), (w_type, w), (b_type, b) = (
            operand(rng, shape, F32)
            for shape in ((1, *pair(rng, 3, 5), 4), (groups * 3, *kernel, 4 // groups), (groups * 3,))
        )
        op = ConvTranspose2D(stride, dilation, pads, extra, groups)
        # ONNX keeps [C, O/groups, KH, KW]: the groups are spread over the input channels.
        grouped = [np.moveaxis(part, (3, 0), (0, 1)) for part in np.split(w, groups, axis=0)]
        transposed = node(
            "ConvTranspose",
            "x w b",
            "y",
            strides=stride,
            dilations=dilation,
            pads=flat_pads(pads),
            output_padding=extra,
            group=groups,
        )
        constants = {"w": np.ascontiguousarray(np.concatenate(grouped)), "b": b}
        assert_same(op, (x_type, w_type, b_type), (x, w, b), last(run_nodes([transposed], first(x), constants)))


def quantized_group(
    nodes: Sequence[onnx.NodeProto], x_type: TensorType, out: Quant, constants: dict[str, Array]
) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """x -> DequantizeLinear -> `nodes` (from `xd` to `c`) -> QuantizeLinear -> y."""
    assert x_type.quant is not None
    around = [node("DequantizeLinear", "x sx zx", "xd"), *nodes, node("QuantizeLinear", "c sy zy", "y")]
    scales = {"sx": np.float32(x_type.quant.scale), "sy": np.float32(out.scale)}
    zeros = {"zx": np.int8(x_type.quant.zero_point), "zy": np.int8(out.zero_point)}
    return around, {**constants, **scales, **zeros}


def assert_one_step_at_most(op: Op, types: Types, arrays: tuple[Array, ...], expected: Array) -> tuple[int, int]:
    """Never more than one output step apart; returns how many elements differ, and how many there are."""
    (result,) = op.evaluate(arrays, types)
    steps = np.abs(result.astype(int) - expected.astype(int))
    assert steps.max(initial=0) <= 1, f"{op} is {steps.max()} steps away"
    return int(steps.sum()), steps.size


def test_quantized_convolution(request: pytest.FixtureRequest) -> None:
    """The float kernel's own rounding may cross a half: once in thousands of elements."""
    differing = total = 0
    for rng in rngs(seed(request), CASES):
        depthwise = bool(integer(rng, 0, 1))
        x_type, x = operand(rng, (1, *pair(rng, 6, 9), 4), I8)
        kernel, stride, pads = pair(rng, 1, 3), pair(rng, 1, 2), random_pads(rng, 1)
        shape, axis = ((*kernel, 8), 2) if depthwise else ((6, *kernel, 4), 0)
        w_type, w = weight(rng, shape, axis, Numerics.ONNX, per_channel=True)
        assert x_type.quant is not None and w_type.quant is not None
        terms = int(np.prod(kernel)) * (1 if depthwise else 4)
        width = int(7000 * terms**0.5)
        b = rng.integers(-width, width, shape[axis]).astype(np.int32)
        b_type = TensorType(I32, b.shape)
        mean_scale = float(np.mean(w_type.quant.scales))
        out = Quant.per_tensor(width * x_type.quant.scale * mean_scale / 50, integer(rng, -128, 127))
        relu = bool(integer(rng, 0, 1))
        clamp = Bounds(lo=out.zero_point) if relu else Bounds()
        kind = DepthwiseConv2D if depthwise else Conv2D
        op = kind(stride=stride, pads=pads, clamp=clamp, out=out, numerics=Numerics.ONNX)

        sw = np.asarray(w_type.quant.scales, np.float32)
        nodes = [
            node("DequantizeLinear", "w sw zw", "wd", axis=0),
            node("DequantizeLinear", "b sb", "bd", axis=0),
            node("Conv", "xd wd bd", "a", strides=stride, pads=flat_pads(pads), group=4 if depthwise else 1),
            node("Relu" if relu else "Identity", "a", "c"),
        ]
        file_weight = np.moveaxis(w, 2, 0)[:, None] if depthwise else first(w)
        constants = {"w": file_weight, "sw": sw, "zw": np.zeros(len(sw), np.int8)}
        constants |= {"b": b, "sb": np.float32(x_type.quant.scale) * sw}
        expected = last(run_nodes(*with_input(quantized_group(nodes, x_type, out, constants), first(x))))
        wrong, elements = assert_one_step_at_most(op, (x_type, w_type, b_type), (x, w, b), expected)
        differing, total = differing + wrong, total + elements
    assert differing <= total // 2000, f"{differing} of {total} elements differ"


def with_input(
    group: tuple[list[onnx.NodeProto], dict[str, Array]], x: Array
) -> tuple[list[onnx.NodeProto], Array, dict[str, Array]]:
    return group[0], x, group[1]


def test_quantized_dense(request: pytest.FixtureRequest) -> None:
    differing = total = 0
    for rng in rngs(seed(request), CASES):
        terms, results = integer(rng, 1, 64), integer(rng, 1, 16)
        x_type, x = operand(rng, (4, terms), I8)
        w_type, w = weight(rng, (results, terms), 0, Numerics.ONNX, per_channel=False)
        assert x_type.quant is not None and w_type.quant is not None
        width = 7000 * terms**0.5
        out = Quant.per_tensor(width * x_type.quant.scale * w_type.quant.scale / 50, integer(rng, -128, 127))
        nodes = [node("DequantizeLinear", "w sw zw", "wd"), node("MatMul", "xd wd", "c")]
        constants = {"w": w.T.copy(), "sw": np.float32(w_type.quant.scale), "zw": np.int8(0)}
        expected = run_nodes(*with_input(quantized_group(nodes, x_type, out, constants), x))
        op = Dense(out=out, numerics=Numerics.ONNX)
        wrong, elements = assert_one_step_at_most(op, (x_type, w_type), (x, w), expected)
        differing, total = differing + wrong, total + elements
    assert differing <= max(1, total // 2000), f"{differing} of {total} elements differ"


@pytest.mark.parametrize("kind", ["AveragePool", "GlobalAveragePool", "ReduceMean"])
def test_quantized_averages(kind: str, request: pytest.FixtureRequest) -> None:
    """Means of few integers meet halves often, where the float kernel's rounding decides: within one step."""
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (1, *pair(rng, 3, 8), 4), I8)
        assert x_type.quant is not None
        out = Quant.per_tensor(x_type.quant.scale * 2.0 ** rng.uniform(-2, 0), integer(rng, -128, 127))
        kernel, stride = pair(rng, 1, 3), pair(rng, 1, 2)
        attributes = {
            "AveragePool": {"kernel_shape": kernel, "strides": stride},
            "GlobalAveragePool": {},
            "ReduceMean": {"keepdims": 1},
        }[kind]
        pool = node(kind, "xd axes" if kind == "ReduceMean" else "xd", "c", **attributes)
        constants = {"axes": np.int64([2, 3])} if kind == "ReduceMean" else {}
        expected = last(run_nodes(*with_input(quantized_group([pool], x_type, out, constants), first(x))))
        op: Op = Mean((1, 2), True, out, Numerics.ONNX)
        if kind == "AveragePool":
            op = AveragePool2D(kernel, stride, out=out, numerics=Numerics.ONNX)
        assert_one_step_at_most(op, (x_type,), (x,), expected)


def test_float_pools(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (1, *pair(rng, 6, 9), 3), F32)
        kernel, stride, dilation, pads = pair(rng, 2, 3), pair(rng, 1, 3), pair(rng, 1, 2), random_pads(rng, 1)
        shared = {"kernel_shape": kernel, "strides": stride, "pads": flat_pads(pads)}
        maximum = node("MaxPool", "x", "y", dilations=dilation, **shared)
        expected = last(run_nodes([maximum], first(x), {}))
        assert_same(MaxPool2D(kernel, stride, dilation, pads), (x_type,), (x,), expected)
        for include in (False, True):
            average = node("AveragePool", "x", "y", count_include_pad=int(include), **shared)
            expected = last(run_nodes([average], first(x), {}))
            assert_same(AveragePool2D(kernel, stride, pads, include), (x_type,), (x,), expected)


def test_float_batch_matmul_broadcasts(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        m, k, n = (integer(rng, 1, 6) for _ in range(3))
        (a_type, a), (b_type, b) = operand(rng, (2, 1, m, k), F32), operand(rng, (3, k, n), F32)
        expected = run_nodes([node("MatMul", "x b", "y")], a, {"b": b})
        assert_same(BatchMatMul(), (a_type, b_type), (a, b), expected)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ReduceMean", Mean), ("ReduceSum", Sum), ("ReduceMax", ReduceMax), ("ReduceProd", ReduceProd)],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("dtype", [F32, I32], ids=lambda dtype: dtype.name)
def test_reductions(name: str, kind: type[Mean], dtype: object, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x = rng.standard_normal([integer(rng, 1, 4) for _ in range(3)]).astype(np.float32)
        if dtype is I32:
            x = (x * 2).astype(np.int32)
        axes = tuple(sorted(int(a) for a in rng.choice(3, integer(rng, 1, 2), replace=False)))
        keep = bool(integer(rng, 0, 1))
        reduction = node(name, "x axes", "y", keepdims=int(keep))
        expected = run_nodes([reduction], x, {"axes": np.asarray(axes, np.int64)})
        type_ = TensorType(F32 if x.dtype.kind == "f" else I32, x.shape)
        assert_same(kind(axes, keep), (type_,), (x,), expected, tolerance=1e-4)


def test_arg_max(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x = rng.integers(0, 3, (3, 4, 5)).astype(np.float32)
        axis = integer(rng, 0, 2)
        expected = run_nodes([node("ArgMax", "x", "y", axis=axis, keepdims=1)], x, {})
        assert_same(ArgMax(axis, True, I64), (TensorType(F32, x.shape),), (x,), expected)


def resize_node(mode: str, coordinates: Coordinates, rounding: NearestRounding, by_scale: bool) -> onnx.NodeProto:
    operands = "x roi scales" if by_scale else "x roi empty sizes"
    resize = node(
        "Resize",
        operands,
        "y",
        mode=mode,
        coordinate_transformation_mode=coordinates.value,
        nearest_mode=rounding.value,
    )
    for index, name in enumerate(resize.input):
        if name in ("roi", "empty"):
            resize.input[index] = ""
    return resize


@pytest.mark.parametrize("by_scale", [False, True], ids=["size", "scale"])
@pytest.mark.parametrize("rounding", list(NearestRounding), ids=lambda mode: mode.value)
@pytest.mark.parametrize(
    "coordinates", [c for c in Coordinates if c is not Coordinates.TF_HALF_PIXEL_FOR_NN], ids=lambda mode: mode.value
)
def test_nearest(
    coordinates: Coordinates, rounding: NearestRounding, by_scale: bool, request: pytest.FixtureRequest
) -> None:
    for rng in rngs(seed(request), CASES // 2):
        x_type, x = operand(rng, (1, *pair(rng, 1, 9), 2), F32)
        size, scales, constants = random_target(rng, x.shape[1:3], by_scale)
        resize = resize_node("nearest", coordinates, rounding, by_scale)
        expected = last(run_nodes([resize], first(x), constants))
        assert_same(ResizeNearest(size, coordinates, rounding, scales), (x_type,), (x,), expected)


def random_target(
    rng: np.random.Generator, size: tuple[int, ...], by_scale: bool
) -> tuple[tuple[int, int], tuple[float, float], dict[str, Array]]:
    """Output size, scales as ONNX computes them, and the constant operand of Resize."""
    if by_scale:
        scales = np.float32([1, 1, rng.choice([0.5, 1.0, 1.5, 2.0, 3.0]), rng.choice([0.6, 1.0, 2.0, 2.5])])
        new = [max(1, int(s * f)) for s, f in zip(size, scales[2:], strict=True)]
        scales[2:] = [np.float32(f) if int(s * f) else np.float32(1) for s, f in zip(size, scales[2:], strict=True)]
        return (new[0], new[1]), (float(scales[2]), float(scales[3])), {"scales": scales}
    new = [integer(rng, 1, 12) for _ in size]
    factors = [n / s for n, s in zip(new, size, strict=True)]
    return (new[0], new[1]), (factors[0], factors[1]), {"sizes": np.int64([1, 2, *new])}


@pytest.mark.parametrize("by_scale", [False, True], ids=["size", "scale"])
@pytest.mark.parametrize(
    "coordinates", [c for c in Coordinates if c is not Coordinates.TF_HALF_PIXEL_FOR_NN], ids=lambda mode: mode.value
)
def test_bilinear(coordinates: Coordinates, by_scale: bool, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES // 2):
        x_type, x = operand(rng, (1, *pair(rng, 1, 9), 2), F32)
        size, scales, constants = random_target(rng, x.shape[1:3], by_scale)
        resize = resize_node("linear", coordinates, NearestRounding.FLOOR, by_scale)
        expected = last(run_nodes([resize], first(x), constants))
        assert_same(ResizeBilinear(size, coordinates, scales), (x_type,), (x,), expected)
