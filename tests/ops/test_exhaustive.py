"""Every int8 value and every pair of them: requantization, sums and products against exact rational arithmetic.

Each rule is stated once more here, with fractions and the rounding that the contract names, and shares no code with the
operators; the C kernels run the same pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from trivet import driver
from trivet.artifact import Artifact
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.frontends.options import Loaded
from trivet.ir.graph import Graph
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops.elementwise import Add, Mul, Sub
from trivet.ops.quantize import Requantize

EVERY = range(-128, 128)
HALF = Fraction(1, 2)
TFLITE = (Numerics.TFLM, Numerics.LITERT)


def half_up(x: Fraction) -> int:
    """The nearest integer, halves toward +infinity."""
    return math.floor(x + HALF)


def half_away(x: Fraction) -> int:
    """The nearest integer, halves away from zero."""
    return math.floor(x + HALF) if x >= 0 else -math.floor(-x + HALF)


def half_even(x: Fraction) -> int:
    """The nearest integer, halves to the even one."""
    return round(x)


def clipped(x: int) -> int:
    return min(max(x, -128), 127)


def fixed_point(real: float) -> tuple[int, int]:
    """A real as mantissa * 2^(shift - 31), the mantissa a 31-bit integer, halves up."""
    shift = math.frexp(real)[1]
    mantissa = half_up(Fraction(real) * 2**31 / Fraction(2) ** shift)
    return (mantissa // 2, shift + 1) if mantissa == 1 << 31 else (mantissa, shift)


def rescaled(x: int, real: float) -> int:
    """x * real rounded twice: to 2^31 * mantissa halves up, then by the right shift halves away from zero."""
    mantissa, shift = fixed_point(real)
    product = half_up(Fraction(x * 2 ** max(shift, 0) * mantissa, 2**31))
    return half_away(Fraction(product, 2 ** max(-shift, 0)))


def requantized(x: Quant, y: Quant) -> list[int]:
    return [clipped(rescaled(v - x.zero_point, x.scale / y.scale) + y.zero_point) for v in EVERY]


def sums(a: Quant, b: Quant, y: Quant, sign: int) -> list[list[int]]:
    """Both operands with 20 more bits at twice the larger scale, their sum at the output's."""
    twice = 2 * max(a.scale, b.scale)
    left, right = ([rescaled((v - q.zero_point) * 2**20, q.scale / twice) for v in EVERY] for q in (a, b))
    last = twice / (2**20 * y.scale)
    return [[clipped(rescaled(p + sign * q, last) + y.zero_point) for q in right] for p in left]


def products(a: Quant, b: Quant, y: Quant, single: bool) -> list[list[int]]:
    """The product of centered values times sa * sb / sy, which LiteRT computes in float32."""
    real = a.scale * b.scale / y.scale
    if single:
        real = float(np.float32(np.float32(a.scale) * np.float32(b.scale)) / np.float32(y.scale))
    known: dict[int, int] = {}
    rows = []
    for v in EVERY:
        values = [(v - a.zero_point) * (w - b.zero_point) for w in EVERY]
        for value in values:
            if value not in known:
                known[value] = clipped(rescaled(value, real) + y.zero_point)
        rows.append([known[value] for value in values])
    return rows


QUANTS = [
    (Quant.per_tensor(0.05, 3), Quant.per_tensor(0.02, -7), Quant.per_tensor(0.04, 11)),
    (Quant.per_tensor(0.5, -128), Quant.per_tensor(0.5, 127), Quant.per_tensor(0.25, 0)),
    (Quant.per_tensor(0.003, 0), Quant.per_tensor(1.7, 5), Quant.per_tensor(1.1, -20)),
    (Quant.per_tensor(0.1, 100), Quant.per_tensor(0.1, -100), Quant.per_tensor(0.0125, 1)),
]
"""Of both operands and the result: ordinary ones, exact halves, scales far apart, much saturation."""


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """All pairs: [256, 256] each."""
    values = np.arange(-128, 128, dtype=np.int8)
    a, b = np.meshgrid(values, values, indexing="ij")
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def evaluated(op: Op, *operands: tuple[np.ndarray, Quant]) -> np.ndarray:
    """By the operator's own meaning, and by the kernel of the C runtime, which must agree."""
    types = tuple(TensorType(I8, array.shape, quant) for array, quant in operands)
    arrays = tuple(array for array, _ in operands)
    (meant,) = op.evaluate(arrays, types)
    graph = Graph("pairs")
    graph.add_output(graph.emit(op, *(graph.add_input(f"x{i}", t) for i, t in enumerate(types)), name="y"))
    (run,) = Artifact(driver.build(Loaded(graph), driver.Settings()).data).run(arrays)
    np.testing.assert_array_equal(run, meant)
    return meant


@pytest.mark.parametrize("numerics", TFLITE)
@pytest.mark.parametrize("quants", QUANTS, ids=range(4))
def test_requantization(quants: tuple[Quant, Quant, Quant], numerics: Numerics) -> None:
    x, _, y = quants
    values = np.arange(-128, 128, dtype=np.int8)
    actual = evaluated(Requantize(y, I8, numerics), (values, x))
    np.testing.assert_array_equal(actual, requantized(x, y))


@pytest.mark.parametrize(("op", "sign"), [(Add, 1), (Sub, -1)])
@pytest.mark.parametrize("quants", QUANTS, ids=range(4))
def test_sums(quants: tuple[Quant, Quant, Quant], op: Callable[..., Op], sign: int) -> None:
    x, z, y = quants
    a, b = pairs()
    wanted = sums(x, z, y, sign)
    for numerics in TFLITE:
        np.testing.assert_array_equal(evaluated(op(out=y, numerics=numerics), (a, x), (b, z)), wanted)


@pytest.mark.parametrize("numerics", TFLITE)
@pytest.mark.parametrize("quants", QUANTS, ids=range(4))
def test_products(quants: tuple[Quant, Quant, Quant], numerics: Numerics) -> None:
    x, z, y = quants
    a, b = pairs()
    actual = evaluated(Mul(out=y, numerics=numerics), (a, x), (b, z))
    np.testing.assert_array_equal(actual, products(x, z, y, numerics is Numerics.LITERT))


POWERS = [(0.5, 0.25, 0.125), (1.0, 1.0, 2.0), (0.125, 2.0, 0.5), (2.0, 0.5, 4.0)]
"""Scales that float32 holds exactly, so that its arithmetic is rational arithmetic and only the last step rounds."""


@pytest.mark.parametrize("scales", POWERS, ids=str)
def test_onnx_halves_go_to_even(scales: tuple[float, float, float]) -> None:
    x, z, y = (Quant.per_tensor(scale, zero) for scale, zero in zip(scales, (3, -7, 11), strict=True))
    a, b = pairs()
    reals = [[Fraction(q.scale) * (v - q.zero_point) for v in EVERY] for q in (x, z)]

    def stored(real: Fraction) -> int:
        return clipped(half_even(real / Fraction(y.scale)) + y.zero_point)

    actual = evaluated(Add(out=y, numerics=Numerics.ONNX), (a, x), (b, z))
    np.testing.assert_array_equal(actual, [[stored(p + q) for q in reals[1]] for p in reals[0]])
    actual = evaluated(Mul(out=y, numerics=Numerics.ONNX), (a, x), (b, z))
    np.testing.assert_array_equal(actual, [[stored(p * q) for q in reals[1]] for p in reals[0]])
    values = np.arange(-128, 128, dtype=np.int8)
    actual = evaluated(Requantize(y, I8, Numerics.ONNX), (values, x))
    np.testing.assert_array_equal(actual, [stored(p) for p in reals[0]])
