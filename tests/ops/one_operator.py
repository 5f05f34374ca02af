"""Random operands with awkward scales, and one-operator TensorFlow Lite models of them.

A case is stated on Trivet's own types; `TfliteModel` writes the same tensors into a model, as uint8 under `LITERT_U8`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from references import run_litert, run_tflm
from tflite_builder import ModelBuilder
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8, I16, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Array, Op
from trivet.ir.types import Shape, TensorType

NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)
"""Fused activations by TensorFlow Lite's number."""

LIMITS = {RELU: (0.0, np.inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}

RUNTIMES = {Numerics.TFLM: run_tflm, Numerics.LITERT: run_litert, Numerics.LITERT_U8: run_litert}

CONTRACTS = [
    pytest.param(numerics, dtype, id=f"{numerics.value}-{dtype.name}")
    for numerics, dtype in (
        (Numerics.TFLM, I8),
        (Numerics.TFLM, I16),
        (Numerics.LITERT, I8),
        (Numerics.LITERT, I16),
        (Numerics.LITERT_U8, I8),
    )
]


def rngs(seed: str, count: int) -> Iterator[np.random.Generator]:
    """`count` independent generators, the same in every run."""
    words = list(seed.encode())
    return (np.random.default_rng([*words, index]) for index in range(count))


def seed(request: pytest.FixtureRequest) -> str:
    return f"{Path(str(request.path)).name}::{request.node.name}"


def integer(rng: np.random.Generator, low: int, high: int) -> int:
    """low <= result <= high."""
    return int(rng.integers(low, high + 1))


def scale(rng: np.random.Generator, dtype: DType = I8) -> float:
    """A power of two, a ratio of small integers or an arbitrary float32, between about 2^-9 and 1."""
    kind = integer(rng, 0, 2)
    if kind == 0:
        value = 2.0 ** integer(rng, -9, 0)
    elif kind == 1:
        value = 2.0 ** rng.uniform(-9, 1)
    else:
        value = integer(rng, 1, 20) / integer(rng, 21, 300)
    return float(np.float32(value * (2.0**-8 if dtype is I16 else 1.0)))


def quant(rng: np.random.Generator, dtype: DType, real_scale: float | None = None) -> Quant:
    """Any zero point for int8, zero for int16."""
    zero = 0 if dtype is I16 else integer(rng, dtype.min, dtype.max)
    return Quant.per_tensor(scale(rng, dtype) if real_scale is None else real_scale, zero)


def stored(rng: np.random.Generator, shape: Shape, dtype: DType) -> Array:
    """Full-range integers, or normally distributed floats."""
    if dtype is F32:
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(dtype.min, dtype.max + 1, shape).astype(dtype.numpy)


def operand(rng: np.random.Generator, shape: Shape, dtype: DType) -> tuple[TensorType, Array]:
    """A type with random quantization, and an array of it."""
    return TensorType(dtype, shape, None if dtype is F32 else quant(rng, dtype)), stored(rng, shape, dtype)


def weight(
    rng: np.random.Generator, shape: Shape, axis: int, numerics: Numerics, per_channel: bool
) -> tuple[TensorType, Array]:
    """int8 weights: one scale (with a zero point where the contract has one), or one per index of `axis`."""
    if per_channel:
        scales = [scale(rng) / 16 for _ in range(shape[axis])]
        quantization = Quant.per_axis(scales, [0] * shape[axis], axis)
    else:
        zero = integer(rng, -128, 127) if numerics is Numerics.LITERT_U8 else 0
        quantization = Quant.per_tensor(scale(rng) / 16, zero)
    return TensorType(I8, shape, quantization), stored(rng, shape, I8)


def spread(x: TensorType, terms: int) -> float:
    """About one standard deviation of a sum of `terms` products of full-range operands."""
    return 75.0 * (85.0 if x.dtype is I8 else 19000.0) * terms**0.5


def bias(
    rng: np.random.Generator, x: TensorType, w: TensorType, channels: int, terms: int, dtype: DType
) -> tuple[TensorType, Array]:
    """A bias about as large as the sums; its quantization is what converters write, and is not used."""
    assert x.quant is not None and w.quant is not None
    products = np.asarray(w.quant.scales) * x.quant.scale
    width = int(spread(x, terms))
    axis = None if len(products) == 1 else 0
    type_ = TensorType(dtype, (channels,), Quant(tuple(products), (0,) * len(products), axis))
    return type_, rng.integers(-width, width + 1, channels).astype(dtype.numpy)


def output_quant(rng: np.random.Generator, x: TensorType, w: TensorType, terms: int) -> Quant:
    """A scale under which random results fill about their type; sometimes a power of two, so that halves are met."""
    assert x.quant is not None and w.quant is not None
    real = spread(x, terms) * x.quant.scale * float(np.mean(w.quant.scales)) / 50 * 2.0 ** rng.uniform(-1.5, 1.5)
    if x.dtype is I16:
        real /= 256
    if integer(rng, 0, 2) == 0:
        real = 2.0 ** round(np.log2(real))
    return quant(rng, x.dtype, real)


def activation(rng: np.random.Generator) -> int:
    return int(rng.choice([NONE, NONE, RELU, RELU6, RELU_N1_TO_1]))


def fused(code: int, out: Quant | None) -> Bounds:
    """The clamp of a fused activation: in stored integers where quantized, halves away from zero."""
    if code == NONE:
        return UNBOUNDED
    if out is None:
        return Bounds(*LIMITS[code])
    lo, hi = (
        real if np.isinf(real) else np.trunc(np.float32(real) / np.float32(out.scale) + np.copysign(0.5, real))
        for real in LIMITS[code]
    )
    return Bounds(lo + out.zero_point, hi + out.zero_point)


@dataclass
class TfliteModel:
    """One operator whose tensors are Trivet's types; the first operands are inputs, the others constants."""

    numerics: Numerics | None
    builder: ModelBuilder = field(default_factory=ModelBuilder)

    def tensor(self, type_: TensorType, data: Array | None = None, axis: int | None = None) -> int:
        """Add a tensor with `data` if constant; `axis` overrides where a layout differs from TensorFlow Lite's."""
        name = f"t{len(self.builder.tensors)}"
        dtype, quantization = type_.dtype.numpy, type_.quant
        if self.numerics is Numerics.LITERT_U8 and type_.dtype is I8:
            dtype = np.dtype(np.uint8)
            quantization = None if quantization is None else quantization.shifted(128)
            data = None if data is None else restated(data)
        return self.builder.tensor(
            name,
            type_.shape,
            dtype,
            scale=None if quantization is None else np.asarray(quantization.scales),
            zero_point=0 if quantization is None else np.asarray(quantization.zero_points),
            axis=axis if axis is not None else 0 if quantization is None else quantization.axis or 0,
            data=data,
        )

    def run(self, inputs: Sequence[int], output: int, arrays: Sequence[Array]) -> Array:
        """The result in the contract's runtime, as Trivet stores it."""
        unsigned = self.numerics is Numerics.LITERT_U8
        model = self.builder.finish(inputs, [output])
        runtime = run_litert if self.numerics is None else RUNTIMES[self.numerics]
        (result,) = runtime(model, [restated(a) if unsigned and a.dtype == np.int8 else a for a in arrays])
        return restated(result) if result.dtype == np.uint8 else result


def restated(array: Array) -> Array:
    """int8 as the uint8 of the same real numbers, and back: the top bit flips."""
    return (array.view(np.uint8) ^ np.uint8(0x80)).view(np.uint8 if array.dtype == np.int8 else np.int8)


def assert_same(
    op: Op, types: tuple[TensorType, ...], arrays: tuple[Array, ...], expected: Array, tolerance: float = 1e-5
) -> None:
    """Integers equal element by element; floats to `tolerance`, for sums of normally distributed numbers."""
    (result,) = op.evaluate(arrays, types)
    expected = expected.reshape(result.shape)
    message = f"{op} on {', '.join(f'{t} {t.quant}' for t in types)}"
    if result.dtype.kind == "f":
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance, err_msg=message)
    else:
        np.testing.assert_array_equal(result, expected, err_msg=message)
