"""The proved forms of requantization equal the contract for every sum that a layer can have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.backends.plan.kernels.conv import Requantized
from trivet.backends.plan.kernels.requant import grouped_channels
from trivet.backends.plan.kernels.rescaling import (
    EXACT,
    FOLDED_8,
    FOLDED_12,
    SHIFTS,
    Rescaling,
    Sums,
    constant_channels,
    find_rescaling,
    stored_function,
    thresholds,
)
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ops.products import clamp_limits

SPAN = 3000
"""Sums on either side of zero that are tried one by one."""


def layer(scale: float, zero: int, relu: bool, numerics: Numerics = Numerics.TFLM, double: bool = False) -> Requantized:
    clamp = Bounds(zero, 127) if relu else UNBOUNDED
    return Requantized(np.array([scale]), Quant.per_tensor(1.0, zero), clamp, numerics, double)


def all_sums(span: int = SPAN) -> Sums:
    return Sums(np.array([7]), np.array([-span]), np.array([span]))


def apply(found: Rescaling, sums: np.ndarray, first: Sums) -> np.ndarray:
    """What a kernel makes of sums of one channel: the arithmetic of runtime/src/kernels/dsp.h in exact integers."""
    acc = 256 * (sums - first.bias[0]) + found.bias[0]
    assert np.abs(acc).max() < 1 << 31
    if found.form == EXACT:
        mantissa, half, shift = (int(column[0]) for column in found.numbers)
        t = (2 * (acc >> 8) * mantissa + (1 << 31)) >> 32
        return np.clip((t + half + (acc >> 31)) >> shift, -128, 127)
    (factor,) = (int(column[0]) for column in found.numbers)
    assert 0 < factor < 1 << 31
    return np.clip((found.constant + ((acc * factor) >> 32)) >> SHIFTS[found.form], -128, 127)


@given(
    scale=st.floats(1e-5, 0.45), zero=st.integers(-128, 127), relu=st.booleans(),
    numerics=st.sampled_from([Numerics.TFLM, Numerics.LITERT, Numerics.ONNX]), double=st.booleans(),
)  # fmt: skip
def test_whatever_is_found_is_right_for_every_sum(
    scale: float, zero: int, relu: bool, numerics: Numerics, double: bool
) -> None:
    made, first = layer(scale, zero, relu, numerics, double), all_sums()
    found = find_rescaling(first, made)
    if found is None:
        assert double or numerics is Numerics.ONNX, "the exact form takes every layer of TensorFlow Lite's"
        return
    sums = np.arange(-SPAN, SPAN + 1)
    if constant_channels(first, made)[0]:
        sums = np.array([int(first.bias[0])])
    limits = clamp_limits(I8, made.clamp)
    result = np.clip(apply(found, sums, first), limits.lo, limits.hi)
    np.testing.assert_array_equal(result, stored_function(made)(sums[:, None])[:, 0])


@given(scale=st.floats(1e-6, 0.45), zero=st.integers(-128, 127), relu=st.booleans(), double=st.booleans())
def test_thresholds_are_the_least_sums(scale: float, zero: int, relu: bool, double: bool) -> None:
    made, first = layer(scale, zero, relu, double=double), all_sums()
    at, limits, stored = thresholds(first, made), clamp_limits(I8, made.clamp), stored_function(made)
    assert at is not None
    for y, sum_ in zip(range(limits.lo + 1, limits.hi + 1), at[:, 0], strict=True):
        if -SPAN < sum_ <= SPAN:
            assert stored(sum_[None])[0] >= y > stored(sum_[None] - 1)[0]


def test_relu_layers_fold_and_linear_ones_do_not() -> None:
    assert all(find_rescaling(all_sums(), layer(s, -128, True)).form in SHIFTS for s in (0.003, 0.02))  # type: ignore[union-attr]
    assert find_rescaling(all_sums(), layer(0.02, -3, False)).form == EXACT  # type: ignore[union-attr]


def test_a_channel_without_effect_is_a_constant() -> None:
    """A scale that vanishes, and a bias that makes up for it: far beyond what the forms take."""
    scales = np.array([0.01, 3e-10])
    made = Requantized(scales, Quant.per_tensor(1.0, -128), Bounds(-128, 127), Numerics.TFLM)
    sums = Sums(np.array([0, 1 << 30]), np.array([-900, (1 << 30) - 5000]), np.array([900, (1 << 30) + 5000]))
    found = find_rescaling(sums, made)
    assert found is not None and constant_channels(sums, made).tolist() == [False, True]
    acc = found.bias[1]
    y = (found.constant + ((acc * found.numbers[0][1]) >> 32)) >> SHIFTS[found.form]
    assert y == stored_function(made)(sums.least)[1]


def test_sums_that_leave_int32_have_no_form() -> None:
    far = Sums(np.array([0]), np.array([-(1 << 23)]), np.array([1 << 23]))
    assert find_rescaling(far, layer(1e-4, -128, True)) is None


def test_a_multiplier_above_one_half_has_no_form() -> None:
    assert find_rescaling(all_sums(), layer(0.7, -5, False)) is None


def test_sums_of_weights_by_hand() -> None:
    """w = [2, -3], bias 10, zero point -128: x - zero lies in 0..255."""
    sums = Sums.of(np.array([[2, -3]]), np.array([10]), -128)
    assert (sums.bias[0], sums.least[0], sums.most[0]) == (10 - 128, 10 - 3 * 255, 10 + 2 * 255)


@pytest.mark.parametrize(
    ("count", "group", "channels"),
    [(4, 2, [0, 1, 2, 3]), (5, 2, [0, 1, 2, 3, 3, 4]), (6, 4, [0, 1, 2, 3, 2, 3, 4, 5]), (2, 2, [0, 1])],
)
def test_the_last_group_repeats_channels(count: int, group: int, channels: list[int]) -> None:
    assert grouped_channels(count, group).tolist() == channels


def test_both_shifts_are_needed() -> None:
    """A channel that only the larger shift can represent."""
    rng = np.random.default_rng(1)
    forms = set()
    for scale in rng.uniform(0.0005, 0.01, 60):
        found = find_rescaling(all_sums(200_000), layer(float(scale), -128, True))
        assert found is not None
        forms.add(found.form)
    assert forms == {FOLDED_8, FOLDED_12}


@given(scale=st.floats(1e-4, 0.3), zero=st.integers(-128, 127))
def test_the_constant_may_be_in_the_sums(scale: float, zero: int) -> None:
    made, first = layer(scale, zero, True), all_sums()
    found = find_rescaling(first, made, is_constant_in_sums=True)
    assert found is not None and (found.form == EXACT or found.constant == 0)
    if not constant_channels(first, made)[0]:
        sums = np.arange(-SPAN, SPAN + 1)
        result = np.clip(apply(found, sums, first), zero, 127)
        np.testing.assert_array_equal(result, stored_function(made)(sums[:, None])[:, 0])


def test_a_channel_with_one_step_far_from_zero() -> None:
    """A tiny scale and a bias that makes up for it: the two results that its sums reach come from the exact form."""
    scale, near = 1.43e-7, 1 << 24
    at = int(np.ceil((2 + 0.5) / scale))
    made = Requantized(np.array([0.01, scale]), Quant.per_tensor(1.0, -128), Bounds(-128, 127), Numerics.TFLM)
    sums = Sums(np.array([0, at + 5]), np.array([-900, at - 4000]), np.array([900, at + 4000]))
    assert at > near
    found = find_rescaling(sums, made)
    assert found is not None and found.form == EXACT
    every = np.arange(at - 4000, at + 4001)
    one = Rescaling(found.form, 0, found.bias[1:], tuple(column[1:] for column in found.numbers))
    result = apply(one, every, sums.of_channels(np.array([1])))
    reference = stored_function(made)(np.stack([every, every], axis=1))[:, 1]
    assert len(set(reference.tolist())) == 2
    np.testing.assert_array_equal(result, reference)
