"""The integer primitives against their definitions in exact arithmetic, element by element."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from trivet.core.fixedpoint import (
    count_leading_zeros,
    exp_on_negative,
    inverse_sqrt,
    logistic,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    one_over_one_plus,
    rdbp,
    round_half_away,
    srdhm,
    tanh,
    wrap32,
)
from trivet.core.quant import quantize_multiplier

EDGES = [-(2**31), -(2**31) + 1, -(2**30), -3, -2, -1, 0, 1, 2, 3, 2**30, 2**31 - 1]


def half_away(x: Fraction) -> int:
    return floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)


@pytest.mark.parametrize("seed", range(20))
def test_a_mantissa_is_the_nearest_of_31_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for real in [1 / 3, 0.7, 1 - 2**-33, *(rng.uniform(0.5, 1, 50) * 2.0 ** rng.integers(-30, 31, 50)).tolist()]:
        found = quantize_multiplier(real)
        unit = Fraction(2) ** (found.shift - 31)
        assert abs(found.mantissa * unit - Fraction(real)) <= unit / 2 and 1 << 30 <= found.mantissa < 1 << 31


@pytest.mark.parametrize("a", EDGES)
def test_srdhm_rounds_halves_up_and_saturates(a: int) -> None:
    expected = [min(floor(Fraction(a * b, 2**31) + Fraction(1, 2)), 2**31 - 1) for b in EDGES]
    assert srdhm(a, EDGES).tolist() == expected


@pytest.mark.parametrize("exponent", [0, 1, 2, 7, 30, 31])
def test_rdbp_rounds_halves_away_from_zero(exponent: int) -> None:
    values = [*EDGES, *range(-20, 21)]
    assert rdbp(values, exponent).tolist() == [half_away(Fraction(v, 2**exponent)) for v in values]


def test_left_shifts_wrap_before_the_product() -> None:
    assert multiply_by_quantized_multiplier(3 << 29, 1 << 30, 1).item() == srdhm(wrap32(3 << 30), 1 << 30).item()


def test_two_roundings_differ_from_one() -> None:
    """2^31 * 0.5 - 1 over 2^32: the first rounding reaches the half that the second one rounds up."""
    assert multiply_by_quantized_multiplier(1, (1 << 31) - 1, -1).item() == 1
    assert half_away(Fraction((1 << 31) - 1, 1 << 32)) == 0


def test_wide_multiplier_rounds_once_with_a_16_bit_mantissa() -> None:
    for x in (-(2**40), -12345, 0, 7, 2**35):
        expected = wrap32(floor(Fraction(x * 0x6000, 2**20) + Fraction(1, 2))).item()
        assert multiply_by_quantized_multiplier_64(x, 0x6000 << 16, -5).item() == expected


def test_round_half_away() -> None:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997], np.float32)
    assert round_half_away(halves).tolist() == [-3, -2, -1, 1, 2, 3, 0]


def test_count_leading_zeros() -> None:
    values = [0, 1, 2, 3, 255, 2**30, 2**31 - 1, -1]
    assert count_leading_zeros(values).tolist() == [32 - (v & 0xFFFFFFFF).bit_length() for v in values]


@pytest.mark.parametrize("integer_bits", [0, 2, 4, 5])
def test_transcendental_functions_are_close_to_the_real_ones(integer_bits: int) -> None:
    raw = np.linspace(-(2**31), 2**31 - 1, 4001).astype(np.int64)
    real = raw / 2.0 ** (31 - integer_bits)
    negative = raw <= 0
    np.testing.assert_allclose(exp_on_negative(raw[negative], integer_bits) / 2**31, np.exp(real[negative]), atol=1e-6)
    np.testing.assert_allclose(logistic(raw, integer_bits) / 2**31, 1 / (1 + np.exp(-real)), atol=1e-6)
    np.testing.assert_allclose(tanh(raw, integer_bits) / 2**31, np.tanh(real), atol=1e-6)


def test_reciprocal_is_close_to_the_real_one() -> None:
    raw = np.linspace(0, 2**31 - 1, 1001).astype(np.int64)
    np.testing.assert_allclose(one_over_one_plus(raw) / 2**31, 1 / (1 + raw / 2**31), atol=1e-7)


def test_inverse_square_root_is_close_to_the_real_one() -> None:
    values = np.array([1, 2, 3, 5, 100, 2**29 - 1, 2**29, 2**31 - 1])
    mantissa, shift = inverse_sqrt(values)
    np.testing.assert_allclose(mantissa * 2.0 ** (shift - 31), 1 / np.sqrt(values), rtol=2e-6)
