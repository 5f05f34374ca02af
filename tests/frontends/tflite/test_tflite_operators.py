"""One-operator models: the converted graph against LiteRT's reference kernels and TFLM, in every element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from models import loaded

from references import run_litert, run_tflm
from tflite_builder import FieldValue, ModelBuilder
from trivet import interp
from trivet.core.numerics import Numerics
from trivet.frontends.options import LoadOptions

F, B, U, H, I = np.float32, np.int8, np.uint8, np.int16, np.int32  # noqa: E741 - float, byte, unsigned, half word, int
SCALE, ZERO = 0.05, {np.int8: 7, np.uint8: 131, np.int16: 0}

TFLM, LITERT = Numerics.TFLM, Numerics.LITERT
BOTH = (TFLM, LITERT)

Reals = Sequence[int]


@dataclass(frozen=True)
class Case:
    """An operator on random operands of some shapes; `constants` are its further operands."""

    title: str
    kind: str
    shapes: tuple[Reals, ...]
    result: Reals | tuple[Reals, ...]
    dtype: type = F
    options: str | None = None
    fields: dict[str, FieldValue] = field(default_factory=dict)
    constants: tuple[np.ndarray, ...] = ()
    constants_first: bool = False
    result_dtype: type | None = None
    result_scale: float = SCALE
    result_zero: int | None = None
    contracts: tuple[Numerics, ...] = BOTH

    def model(self) -> bytes:
        m = ModelBuilder()
        operands = [self._tensor(m, f"x{i}", shape, self.dtype) for i, shape in enumerate(self.shapes)]
        extra = [
            m.tensor(
                f"c{i}",
                data.shape,
                data.dtype,
                data=data,
                scale=SCALE if data.dtype in (B, U, H) else None,
                zero_point=ZERO.get(data.dtype.type, 0),
            )
            for i, data in enumerate(self.constants)
        ]
        shapes = self.result if self.result and isinstance(self.result[0], tuple) else (self.result,)
        dtype = self.result_dtype or self.dtype
        results = [
            self._tensor(m, f"y{i}", s, dtype, self.result_scale, self.result_zero) for i, s in enumerate(shapes)
        ]
        inputs = extra + operands if self.constants_first else operands + extra
        m.operator(self.kind, inputs, results, self.options, **self.fields)
        return m.finish(operands, results)

    @staticmethod
    def _tensor(
        m: ModelBuilder, name: str, shape: Reals, dtype: type, scale: float = SCALE, zero: int | None = None
    ) -> int:
        if dtype in ZERO:
            return m.tensor(name, shape, dtype, scale=scale, zero_point=ZERO[dtype] if zero is None else zero)
        return m.tensor(name, shape, dtype)

    def inputs(self) -> list[np.ndarray]:
        random = np.random.default_rng(len(self.title))
        if np.dtype(self.dtype).kind == "f":
            return [(random.standard_normal(shape) * 3).astype(self.dtype) for shape in self.shapes]
        info = np.iinfo(self.dtype)
        bounds = (info.min, info.max + 1) if self.dtype is not I else (-100, 100)
        return [random.integers(*bounds, shape).astype(self.dtype) for shape in self.shapes]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int32)


def each(make: Callable[[type, str], Case], *dtypes: type) -> list[Case]:
    return [make(dtype, np.dtype(dtype).name) for dtype in dtypes]


def contracts(dtype: type) -> tuple[Numerics, ...]:
    """TFLM has next to no kernels of uint8."""
    return (LITERT,) if dtype is U else BOTH


def strided(title: str, shape: Reals, result: Reals, begin: Reals, end: Reals, strides: Reals, **masks: int) -> Case:
    """TFLM takes as many entries as axes, and neither an ellipsis nor new axes."""
    constants = (ints(*begin), ints(*end), ints(*strides))
    plain = len(begin) == len(shape) and not {"ellipsis_mask", "new_axis_mask"} & set(masks)
    contracts = BOTH if plain else (LITERT,)
    title = f"strided_slice {title}"
    return Case(
        title, "STRIDED_SLICE", (shape,), result, B, "StridedSliceOptions", masks, constants, contracts=contracts
    )


def arithmetic(kind: str, options: str, *dtypes: type, activation: int = 0, result_scale: float = 0.11) -> list[Case]:
    fields: dict[str, FieldValue] = {"fused_activation_function": activation}
    return [
        Case(
            f"{kind} {np.dtype(dtype).name} {shapes} activation {activation}",
            kind,
            shapes,
            (2, 3, 4),
            dtype,
            options,
            fields | ({"pot_scale_int16": False} if kind in ("ADD", "SUB") else {}),
            result_scale=result_scale,
            contracts=contracts(dtype),
        )
        for dtype in dtypes
        for shapes in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (1, 1, 4)))
    ]


ARITHMETIC = [
    *arithmetic("ADD", "AddOptions", F, B, U, H),
    *arithmetic("ADD", "AddOptions", F, B, U, activation=1),
    *arithmetic("ADD", "AddOptions", B, activation=3),
    *arithmetic("ADD", "AddOptions", F, B, activation=2),
    *arithmetic("SUB", "SubOptions", F, B, U, H),
    *arithmetic("MUL", "MulOptions", F, B, U, H),
    *arithmetic("MUL", "MulOptions", B, activation=3),
    *arithmetic("DIV", "DivOptions", F, activation=1),
    *arithmetic("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", F, B, result_scale=3.0)[::2],
    *arithmetic("MAXIMUM", "MaximumMinimumOptions", F, B, result_scale=SCALE)[::2],
]
for _case in ARITHMETIC:
    if _case.kind in ("SQUARED_DIFFERENCE", "MAXIMUM"):
        _case.fields.clear()

UNARY = [
    Case(
        f"{kind} {np.dtype(dtype).name}",
        kind,
        ((2, 5, 3),),
        (2, 5, 3),
        dtype,
        result_scale=scale,
        result_zero=zero,
        contracts=(TFLM,) if kind in ("CEIL", "ROUND") else BOTH,
    )
    for kind, dtype, scale, zero in (
        ("RELU", F, SCALE, None),
        ("RELU", B, 0.07, -3),
        ("RELU6", F, SCALE, None),
        ("RELU6", B, SCALE, None),
        ("LOGISTIC", F, SCALE, None),
        ("LOGISTIC", B, 1 / 256, -128),
        ("TANH", F, SCALE, None),
        ("TANH", B, 1 / 128, 0),
        ("HARD_SWISH", F, SCALE, None),
        ("HARD_SWISH", B, 0.06, -5),
        ("ABS", F, SCALE, None),
        ("NEG", F, SCALE, None),
        ("FLOOR", F, SCALE, None),
        ("CEIL", F, SCALE, None),
        ("ROUND", F, SCALE, None),
        ("SIN", F, SCALE, None),
        ("COS", F, SCALE, None),
        ("EXP", F, SCALE, None),
        ("SQUARE", F, SCALE, None),
        ("LOG_SOFTMAX", F, SCALE, None),
        ("LOG_SOFTMAX", B, 16 / 256, 127),
    )
] + [
    Case("RELU_N1_TO_1 float32", "RELU_N1_TO_1", ((2, 5, 3),), (2, 5, 3), contracts=(LITERT,)),
    Case("RELU_0_TO_1 float32", "RELU_0_TO_1", ((2, 5, 3),), (2, 5, 3), contracts=(LITERT,)),
    Case("LEAKY_RELU int8", "LEAKY_RELU", ((2, 5),), (2, 5), B, "LeakyReluOptions", {"alpha": 0.3}),
    Case("LEAKY_RELU float32", "LEAKY_RELU", ((2, 5),), (2, 5), F, "LeakyReluOptions", {"alpha": 0.3}),
    Case(
        "PRELU int8",
        "PRELU",
        ((1, 2, 5, 4),),
        (1, 2, 5, 4),
        B,
        constants=(np.array([[[3, -9, 100, 20]]], np.int8),),
    ),
    Case("SOFTMAX uint8", "SOFTMAX", ((2, 9),), (2, 9), U, "SoftmaxOptions", {"beta": 1.0}, result_scale=1 / 256,
         result_zero=0, contracts=(LITERT,)),
    Case("SOFTMAX int8 beta", "SOFTMAX", ((2, 9),), (2, 9), B, "SoftmaxOptions", {"beta": 0.4}, result_scale=1 / 256,
         result_zero=-128),
    Case("SOFTMAX float32", "SOFTMAX", ((2, 9),), (2, 9), F, "SoftmaxOptions", {"beta": 1.5}),
    Case("L2_NORMALIZATION float32", "L2_NORMALIZATION", ((2, 9),), (2, 9), F, "L2NormOptions"),
]  # fmt: skip

SLICES = [
    strided("whole", (3, 4), (3, 4), (0, 0), (3, 4), (1, 1)),
    strided("steps", (7, 8), (3, 3), (1, 0), (7, 7), (2, 3)),
    strided("backwards", (5, 4), (5, 2), (4, 3), (-6, 1), (-1, -1)),
    strided("negative ends", (5, 4), (3, 2), (-4, -3), (-1, -1), (1, 1)),
    strided("out of range", (5, 4), (3, 4), (2, -9), (99, 99), (1, 1)),
    strided("begin mask", (5, 4), (3, 2), (2, 2), (3, 4), (1, 1), begin_mask=1),
    strided("end mask", (5, 4), (3, 2), (2, 1), (3, 3), (1, 1), end_mask=1),
    strided("both masks, backwards", (5, 4), (5, 4), (1, 1), (1, 1), (-1, -1), begin_mask=3, end_mask=3),
    strided("shrink", (5, 4), (4,), (2, 0), (3, 4), (1, 1), shrink_axis_mask=1),
    strided("shrink negative", (5, 4), (5,), (0, -1), (5, 0), (1, 1), shrink_axis_mask=2),
    strided("fewer entries than axes", (5, 4, 3), (2, 4, 3), (1,), (3,), (1,)),
    strided("ellipsis", (5, 4, 3), (5, 4, 2), (0, 1), (0, 3), (1, 1), ellipsis_mask=1),
    strided("new axis", (5, 4), (1, 2, 4), (0, 1), (0, 3), (1, 1), new_axis_mask=1),
    Case("slice", "SLICE", ((5, 4),), (2, 3), B, "SliceOptions", {}, (ints(1, 1), ints(2, -1))),
]

MOVES = [
    *each(
        lambda dtype, name: Case(
            f"concatenation {name}",
            "CONCATENATION",
            ((2, 3), (2, 4)),
            (2, 7),
            dtype,
            "ConcatenationOptions",
            {"axis": -1},
            contracts=contracts(dtype),
        ),
        F, B, U, H,
    ),
    Case("concatenation rescales uint8", "CONCATENATION", ((2, 200), (2, 100)), (2, 300), U, "ConcatenationOptions",
         {"axis": 1}, result_scale=0.083, result_zero=100, contracts=(LITERT,)),
    Case("split", "SPLIT", ((2, 6),), ((2, 2), (2, 2), (2, 2)), B, "SplitOptions", {"num_splits": 3}, (scalar(1),),
         constants_first=True),
    Case("split_v", "SPLIT_V", ((2, 6),), ((2, 1), (2, 3), (2, 2)), B, "SplitVOptions", {"num_splits": 3},
         (ints(1, 3, 2), scalar(-1))),
    Case("split_v with a rest", "SPLIT_V", ((2, 6),), ((2, 1), (2, 3), (2, 2)), B, "SplitVOptions", {"num_splits": 3},
         (ints(1, -1, 2), scalar(1)), contracts=(LITERT,)),
    Case("pack", "PACK", ((2, 3), (2, 3)), (2, 2, 3), B, "PackOptions", {"axis": 1, "values_count": 2}),
    Case("pack at the end", "PACK", ((2, 3), (2, 3)), (2, 3, 2), B, "PackOptions", {"axis": -1, "values_count": 2}),
    Case("unpack", "UNPACK", ((2, 3, 2),), ((2, 2), (2, 2), (2, 2)), B, "UnpackOptions", {"axis": 1, "num": 3}),
    Case("pad", "PAD", ((2, 3),), (4, 4), B, "PadOptions", {}, (np.array([[1, 1], [0, 1]], np.int32),)),
    Case("pad uint8", "PAD", ((2, 3),), (4, 4), U, "PadOptions", {}, (np.array([[1, 1], [0, 1]], np.int32),),
         contracts=(LITERT,)),
    Case("padv2", "PADV2", ((2, 3),), (4, 4), B, "PadV2Options", {},
         (np.array([[1, 1], [0, 1]], np.int32), np.array([55], np.int8))),
    Case("padv2 uint8", "PADV2", ((2, 3),), (4, 4), U, "PadV2Options", {},
         (np.array([[1, 1], [0, 1]], np.int32), np.array([55], np.uint8)), contracts=(LITERT,)),
    Case("mirror_pad reflect", "MIRROR_PAD", ((3, 4),), (5, 7), B, "MirrorPadOptions", {"mode": 0},
         (np.array([[1, 1], [1, 2]], np.int32),)),
    Case("mirror_pad symmetric", "MIRROR_PAD", ((3, 4),), (5, 7), B, "MirrorPadOptions", {"mode": 1},
         (np.array([[1, 1], [1, 2]], np.int32),)),
    Case("transpose", "TRANSPOSE", ((2, 3, 4),), (4, 2, 3), B, "TransposeOptions", {}, (ints(2, 0, 1),)),
    Case("reshape", "RESHAPE", ((2, 6),), (3, 4), B, "ReshapeOptions", {}, (ints(3, -1),)),
    Case("squeeze", "SQUEEZE", ((1, 2, 1, 3),), (2, 1, 3), B, "SqueezeOptions", {"squeeze_dims": [0]}),
    Case("expand_dims", "EXPAND_DIMS", ((2, 3),), (2, 1, 3), B, "ExpandDimsOptions", {}, (scalar(1),)),
    Case("gather", "GATHER", ((5, 3),), (2, 2, 3), F, "GatherOptions", {"axis": 0}, (ints(4, 0, 1, 1).reshape(2, 2),)),
    Case("space_to_depth", "SPACE_TO_DEPTH", ((1, 4, 6, 3),), (1, 2, 3, 12), B, "SpaceToDepthOptions",
         {"block_size": 2}),
    Case("depth_to_space", "DEPTH_TO_SPACE", ((1, 2, 3, 12),), (1, 4, 6, 3), B, "DepthToSpaceOptions",
         {"block_size": 2}),
    Case("space_to_batch", "SPACE_TO_BATCH_ND", ((2, 5, 6, 3),), (12, 3, 2, 3), B, "SpaceToBatchNDOptions", {},
         (ints(2, 3), np.array([[0, 1], [0, 0]], np.int32)), contracts=(LITERT,)),  # TFLM pads with garbage
    Case("space_to_batch of three axes", "SPACE_TO_BATCH_ND", ((2, 5, 6),), (4, 3, 6), B, "SpaceToBatchNDOptions", {},
         (ints(2), np.array([[1, 0]], np.int32)), contracts=(LITERT,)),
    Case("batch_to_space", "BATCH_TO_SPACE_ND", ((12, 3, 2, 3),), (2, 5, 6, 3), B, "BatchToSpaceNDOptions", {},
         (ints(2, 3), np.array([[0, 1], [0, 0]], np.int32))),
    Case("reverse", "REVERSE_V2", ((2, 3, 4),), (2, 3, 4), F, "ReverseV2Options", {}, (ints(1),),
         contracts=(LITERT,)),
    Case("tile", "TILE", ((2, 3),), (4, 9), F, "TileOptions", {}, (ints(2, 3),), contracts=(LITERT,)),
    Case("broadcast_to", "BROADCAST_TO", ((1, 3),), (4, 3), F, "BroadcastToOptions", {}, (ints(4, 3),),
         contracts=(TFLM,)),
]  # fmt: skip

REDUCTIONS = [
    *[
        Case(
            f"{kind} {np.dtype(dtype).name} {axes} keep {keep}",
            kind,
            ((2, 5, 4, 3),),
            result,
            dtype,
            "ReducerOptions",
            {"keep_dims": keep},
            (ints(*axes),),
            contracts=(LITERT,) if dtype is U else BOTH,
        )
        for kind, dtype in (
            ("MEAN", F), ("MEAN", B), ("MEAN", U), ("REDUCE_MAX", F), ("REDUCE_MAX", B), ("SUM", F),
        )
        for axes, keep, result in (((1, 2), False, (2, 3)), ((-1,), True, (2, 5, 4, 1)))
    ],
    Case("REDUCE_MIN int8", "REDUCE_MIN", ((2, 5),), (2,), B, "ReducerOptions", {}, (ints(1),), contracts=(LITERT,)),
    Case("ARG_MAX int8", "ARG_MAX", ((2, 9),), (2,), B, "ArgMaxOptions", {"output_type": 2}, (scalar(1),),
         result_dtype=I),
    Case("ARG_MAX uint8", "ARG_MAX", ((2, 9),), (2,), U, "ArgMaxOptions", {"output_type": 2}, (scalar(-1),),
         result_dtype=I, contracts=(LITERT,)),
    Case("ARG_MIN float32", "ARG_MIN", ((2, 9),), (2,), F, "ArgMinOptions", {"output_type": 2}, (scalar(1),),
         result_dtype=I),
]  # fmt: skip


def window(kind: str, dtype: type, padding: int, stride: int, kernel: tuple[int, int], activation: int) -> Case:
    size = [
        -(-n // stride) if padding == 0 else (n - k + stride) // stride for n, k in zip((9, 8), kernel, strict=True)
    ]
    fields: dict[str, FieldValue] = {
        "padding": padding, "stride_w": stride, "stride_h": stride, "filter_height": kernel[0],
        "filter_width": kernel[1], "fused_activation_function": activation,
    }  # fmt: skip
    title = f"{kind} {np.dtype(dtype).name} padding {padding} stride {stride} kernel {kernel}"
    shapes = ((2, 9, 8, 3),)
    return Case(title, kind, shapes, (2, *size, 3), dtype, "Pool2DOptions", fields, contracts=contracts(dtype))


POOLS = [
    window(kind, dtype, padding, stride, kernel, activation)
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    for dtype in (F, B, U)
    for padding, stride, kernel, activation in ((0, 2, (3, 2), 1), (1, 1, (2, 4), 3), (0, 3, (2, 2), 0))
]

RESIZES = [
    Case(
        f"{kind} {np.dtype(dtype).name} align {align} half {half}",
        kind,
        ((1, 4, 5, 3),),
        (1, 7, 11, 3),
        dtype,
        options,
        {"align_corners": align, "half_pixel_centers": half},
        (ints(7, 11),),
        contracts=contracts(dtype),
    )
    for kind, options in (
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    )
    for dtype in (F, B, U)
    for align, half in ((False, False), (False, True), (True, False))
]

CONVERSIONS = [
    Case("quantize", "QUANTIZE", ((3, 7),), (3, 7), F, "QuantizeOptions", result_dtype=B),
    Case("requantize", "QUANTIZE", ((3, 7),), (3, 7), B, "QuantizeOptions", result_scale=0.09),
    Case("int8 to int16", "QUANTIZE", ((3, 7),), (3, 7), B, "QuantizeOptions", result_dtype=H, result_scale=0.001),
    Case("uint8 to int8", "QUANTIZE", ((3, 7),), (3, 7), U, "QuantizeOptions", result_dtype=B, result_zero=3),
    Case("int8 to uint8", "QUANTIZE", ((3, 7),), (3, 7), B, "QuantizeOptions", result_dtype=U, result_zero=135),
    Case("dequantize", "DEQUANTIZE", ((3, 7),), (3, 7), B, "DequantizeOptions", result_dtype=F),
    Case("dequantize uint8", "DEQUANTIZE", ((3, 7),), (3, 7), U, "DequantizeOptions", result_dtype=F),
    Case("dequantize int16", "DEQUANTIZE", ((3, 7),), (3, 7), H, "DequantizeOptions", result_dtype=F),
    Case("cast to int32", "CAST", ((3, 7),), (3, 7), F, "CastOptions", {"in_data_type": 0, "out_data_type": 2},
         result_dtype=I),
    Case("cast to float32", "CAST", ((3, 7),), (3, 7), I, "CastOptions", {"in_data_type": 2, "out_data_type": 0},
         result_dtype=F),
    Case("less int8", "LESS", ((3, 7), (3, 7)), (3, 7), B, "LessOptions", result_dtype=np.bool_),
    Case("equal int32", "EQUAL", ((3, 7), (3, 7)), (3, 7), I, "EqualOptions", result_dtype=np.bool_),
    Case("greater_equal float32", "GREATER_EQUAL", ((3, 7), (1, 7)), (3, 7), F, "GreaterEqualOptions",
         result_dtype=np.bool_),
]  # fmt: skip


def product(title: str, dtype: type, a: Reals, b: Reals, result: Reals, adj_x: bool, adj_y: bool) -> Case:
    fields: dict[str, FieldValue] = {"adj_x": adj_x, "adj_y": adj_y}
    return Case(
        f"batch_matmul {title}", "BATCH_MATMUL", (a, b), result, dtype, "BatchMatMulOptions", fields, result_scale=1.3
    )


PRODUCTS = [
    product("int8", B, (2, 3, 5), (2, 5, 4), (2, 3, 4), False, False),
    product("int8 adj_x", B, (2, 5, 3), (2, 5, 4), (2, 3, 4), True, False),
    product("int8 adj_y", B, (2, 3, 5), (2, 4, 5), (2, 3, 4), False, True),
    product("float32 adj_y", F, (2, 3, 5), (2, 4, 5), (2, 3, 4), False, True),
]

CASES = [*ARITHMETIC, *UNARY, *SLICES, *MOVES, *REDUCTIONS, *POOLS, *RESIZES, *CONVERSIONS, *PRODUCTS]


@pytest.mark.parametrize(
    ("case", "contract"),
    [
        pytest.param(case, contract, id=f"{case.title}-{contract.value}")
        for case in CASES
        for contract in case.contracts
    ],
)
def test_operator_equals_the_runtime(case: Case, contract: Numerics, tmp_path: Path) -> None:
    model, inputs = case.model(), case.inputs()
    graph = loaded(tmp_path, model, LoadOptions(numerics=contract)).graph
    outputs, _ = interp.run(graph, inputs)
    run = run_litert if contract is LITERT else lambda m, i: run_tflm(m, i, len(outputs))
    for got, expected in zip(outputs, run(model, inputs), strict=True):
        assert got.dtype == expected.dtype
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        else:
            np.testing.assert_array_equal(got, expected)
