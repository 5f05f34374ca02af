"""Quantized TFLite operators with random parameters, compiled and run, against both reference runtimes, bit for bit.

    python bench/sweep_quantized.py [--cases N] [--seed N] [OPERATOR ...]

Kernel, stride, padding, dilation, channels, multiplier, scales, zero points and activation are drawn for each case;
inputs are of the full range. Every case runs under the contract `tflm` against TensorFlow Lite Micro and under `litert`
against LiteRT's reference kernels. Prints cases, elements and mismatches of each operator and contract, and the seed of
each case that differs; a case that a runtime refuses, or Trivet, is counted as such.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "tests"))

from references import run_litert, run_tflm  # noqa: E402
from tflite_builder import ModelBuilder  # noqa: E402
from trivet import driver  # noqa: E402
from trivet.artifact import Artifact  # noqa: E402
from trivet.core.numerics import Numerics  # noqa: E402
from trivet.errors import CompileError  # noqa: E402

RUNTIMES: dict[Numerics, Callable[..., list[np.ndarray]]] = {Numerics.TFLM: run_tflm, Numerics.LITERT: run_litert}
SAME, VALID = 0, 1
Rng = np.random.Generator
Made = tuple[ModelBuilder, list[int], list[int]]


def scale(rng: Rng, low: float = -7, high: float = -2) -> float:
    """Powers of two now and then, which meet ties."""
    exponent = rng.uniform(low, high)
    return float(np.float32(2.0 ** (round(exponent) if rng.random() < 0.3 else exponent)))


def activation_tensor(rng: Rng, m: ModelBuilder, name: str, shape: tuple[int, ...], dtype: type) -> int:
    zero = 0 if dtype is np.int16 else int(rng.integers(-128, 128))
    return m.tensor(name, shape, dtype, scale=scale(rng), zero_point=zero)


def dtype_of(rng: Rng) -> type:
    return np.int16 if rng.random() < 0.3 else np.int8


def extent(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == SAME else (size + stride - reach) // stride


def weights(rng: Rng, m: ModelBuilder, shape: tuple[int, ...], axis: int, x: float, dtype: type) -> list[int]:
    """A filter per tensor or per channel, and its bias."""
    channels = shape[axis]
    scales = np.array([scale(rng, -9, -4) for _ in range(channels if rng.random() < 0.7 else 1)], np.float32)
    w = m.tensor("w", shape, np.int8, scale=scales, axis=axis, data=rng.integers(-127, 128, shape))
    terms = int(np.prod(shape)) // channels
    kind = np.int64 if dtype is np.int16 else np.int32
    limit = 128 * 127 * terms // 4
    zeros = np.zeros(len(scales), np.int64)
    b = m.tensor(
        "b",
        (channels,),
        kind,
        scale=scales * np.float32(x),
        zero_point=zeros,
        data=rng.integers(-limit, limit, channels),
    )
    return [w, b]


def result(rng: Rng, m: ModelBuilder, shape: tuple[int, ...], dtype: type, span: float) -> int:
    zero = 0 if dtype is np.int16 else int(rng.integers(-128, 128))
    return m.tensor("y", shape, dtype, scale=float(np.float32(span / 2 ** rng.uniform(4, 9))), zero_point=zero)


def convolution(rng: Rng, depthwise: bool) -> Made:
    m, dtype = ModelBuilder(), dtype_of(rng)
    kernel, stride = rng.integers(1, 5, 2), rng.integers(1, 4, 2)
    dilation = rng.integers(1, 3, 2) if (stride == 1).all() else np.ones(2, int)
    padding, channels = int(rng.integers(0, 2)), int(rng.integers(1, 9))
    sizes = [int((k - 1) * d + rng.integers(1, 7)) for k, d in zip(kernel, dilation, strict=True)]
    shape = (1, *sizes, channels)
    x = activation_tensor(rng, m, "x", shape, dtype)
    outputs = channels * int(rng.integers(1, 4)) if depthwise else int(rng.integers(1, 9))
    filters = (1, *map(int, kernel), outputs) if depthwise else (outputs, *map(int, kernel), channels)
    x_scale = float(m.tensors[x].scales[0])
    operands = weights(rng, m, filters, 3 if depthwise else 0, x_scale, dtype)
    spans = [extent(*map(int, v), padding) for v in zip(sizes, kernel, stride, dilation, strict=True)]
    terms = int(np.prod(kernel)) * (1 if depthwise else channels)
    y = result(rng, m, (1, *spans, outputs), dtype, x_scale * 2.0**-6 * 16384 * terms**0.5)
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    fields = {
        "padding": padding, "stride_h": int(stride[0]), "stride_w": int(stride[1]),
        "fused_activation_function": activation(rng),
        "dilation_h_factor": int(dilation[0]), "dilation_w_factor": int(dilation[1]),
    }  # fmt: skip
    if depthwise:
        fields["depth_multiplier"] = outputs // channels
    m.operator(name, [x, *operands], [y], "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions", **fields)
    return m, [x], [y]


def activation(rng: Rng) -> int:
    """None, RELU, RELU_N1_TO_1, RELU6."""
    return int(rng.integers(0, 4))


def dense(rng: Rng) -> Made:
    m, dtype = ModelBuilder(), dtype_of(rng)
    rows, terms, outputs = (int(rng.integers(1, n)) for n in (4, 40, 12))
    x = activation_tensor(rng, m, "x", (rows, terms), dtype)
    x_scale = float(m.tensors[x].scales[0])
    operands = weights(rng, m, (outputs, terms), 0, x_scale, dtype)
    y = result(rng, m, (rows, outputs), dtype, x_scale * 2.0**-6 * 16384 * terms**0.5)
    m.operator(
        "FULLY_CONNECTED", [x, *operands], [y], "FullyConnectedOptions", fused_activation_function=activation(rng)
    )
    return m, [x], [y]


def pool(rng: Rng, kind: str) -> Made:
    m, dtype = ModelBuilder(), dtype_of(rng)
    kernel, stride, padding = rng.integers(1, 5, 2), rng.integers(1, 4, 2), int(rng.integers(0, 2))
    sizes = [int(k + rng.integers(0, 6)) for k in kernel]
    shape = (1, *sizes, int(rng.integers(1, 6)))
    x = activation_tensor(rng, m, "x", shape, dtype)
    spans = [extent(int(s), int(k), int(t), 1, padding) for s, k, t in zip(sizes, kernel, stride, strict=True)]
    like = m.tensors[x]
    y = m.tensor("y", (1, *spans, shape[3]), dtype, scale=float(like.scales[0]), zero_point=int(like.zero_points[0]))
    m.operator(
        kind, [x], [y], "Pool2DOptions", padding=padding, filter_height=int(kernel[0]), filter_width=int(kernel[1]),
        stride_h=int(stride[0]), stride_w=int(stride[1]), fused_activation_function=activation(rng),
    )  # fmt: skip
    return m, [x], [y]


def binary(rng: Rng, kind: str) -> Made:
    """Operands whose shapes broadcast, of up to four axes."""
    m, dtype = ModelBuilder(), dtype_of(rng)
    shape = tuple(int(rng.integers(1, 5)) for _ in range(rng.integers(1, 5)))
    other = tuple(1 if rng.random() < 0.3 else size for size in shape)[int(rng.integers(0, len(shape))) :]
    a, b = (activation_tensor(rng, m, n, s, dtype) for n, s in (("a", shape), ("b", other)))
    y = activation_tensor(rng, m, "y", shape, dtype)
    fields = {"fused_activation_function": activation(rng)}
    if kind != "MUL":
        fields["pot_scale_int16"] = 0
    m.operator(kind, [a, b], [y], f"{kind.capitalize()}Options", **fields)
    return m, [a, b], [y]


def unary(rng: Rng, kind: str) -> Made:
    m, dtype = ModelBuilder(), dtype_of(rng)
    shape = (1, int(rng.integers(1, 300)))
    x = activation_tensor(rng, m, "x", shape, dtype)
    fixed = {
        "LOGISTIC": (1 / 256, -128, 1 / 32768),
        "TANH": (1 / 128, 0, 1 / 32768),
        "SOFTMAX": (1 / 256, -128, 1 / 32768),
    }
    if kind in fixed:
        narrow, zero, wide = fixed[kind]
        y = m.tensor(
            "y", shape, dtype, scale=narrow if dtype is np.int8 else wide, zero_point=zero if dtype is np.int8 else 0
        )
    else:
        y = activation_tensor(rng, m, "y", shape, dtype)
    options = {
        "SOFTMAX": ("SoftmaxOptions", {"beta": 1.0}),
        "LEAKY_RELU": ("LeakyReluOptions", {"alpha": float(np.float32(rng.uniform(0.01, 0.9)))}),
    }
    table, fields = options.get(kind, (None, {}))
    m.operator(kind, [x], [y], table, **fields)
    return m, [x], [y]


OPERATORS: dict[str, Callable[[Rng], Made]] = {
    "CONV_2D": lambda rng: convolution(rng, depthwise=False),
    "DEPTHWISE_CONV_2D": lambda rng: convolution(rng, depthwise=True),
    "FULLY_CONNECTED": dense,
    **{kind: (lambda rng, kind=kind: pool(rng, kind)) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{kind: (lambda rng, kind=kind: binary(rng, kind)) for kind in ("ADD", "SUB", "MUL")},
    **{
        kind: (lambda rng, kind=kind: unary(rng, kind))
        for kind in ("LOGISTIC", "TANH", "SOFTMAX", "HARD_SWISH", "LEAKY_RELU", "RELU", "RELU6", "ABS", "QUANTIZE")
    },
}


def outcome(made: Made, numerics: Numerics, rng: Rng, path: Path) -> tuple[str, int, int]:
    """What became of a case, its elements, and how many differ."""
    m, inputs, outputs = made
    model = m.finish(inputs, outputs)
    arrays = []
    for tensor in (m.tensors[i] for i in inputs):
        dtype = np.int16 if tensor.type_code == m.tensors[outputs[0]].type_code and tensor.type_code == 7 else np.int8
        limits = np.iinfo(dtype)
        arrays.append(rng.integers(limits.min, limits.max, tensor.shape, endpoint=True).astype(dtype))
    try:
        expected = RUNTIMES[numerics](model, arrays)[0]
    except (RuntimeError, ValueError, SystemError):
        return "the runtime refuses", 0, 0
    path.write_bytes(model)
    settings = driver.Settings(numerics=numerics)
    try:
        artifact = Artifact(driver.build(driver.load(path, settings), settings).data)
    except CompileError:
        return "refused", 0, 0
    wrong = int((artifact.run(arrays)[0] != expected).sum())
    return "differs" if wrong else "equal", expected.size, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "operators", nargs="*", metavar="OPERATOR", help=f"some of {', '.join(OPERATORS)}; default: all"
    )
    parser.add_argument("--cases", type=int, default=300, metavar="N", help="of each operator and contract")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.operators or OPERATORS:
            for numerics in RUNTIMES:
                counts: Counter[str] = Counter()
                elements = mismatches = 0
                for case in range(arguments.cases):
                    rng = np.random.default_rng([arguments.seed, case])
                    verdict, size, wrong = outcome(OPERATORS[kind](rng), numerics, rng, Path(folder) / "model.tflite")
                    counts[verdict] += 1
                    elements, mismatches = elements + size, mismatches + wrong
                    if wrong:
                        print(
                            f"{kind} {numerics.value}: case {case} of seed {arguments.seed}: {wrong} of {size} differ"
                        )
                shown = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
                print(
                    f"{kind:18} {numerics.value:7} {elements:8} elements, {mismatches} mismatches; cases: {shown}",
                    flush=True,
                )
                failed = failed or mismatches > 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
