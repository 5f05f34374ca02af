"""How the DSP kernels bring sums to stored integers: a cheap form where it is proved equal, else the exact one.

Requantization never falls as the sum rises, so it is known by its thresholds: for each stored y, the least sum whose
result is at least y. A cheap form that never falls either is equal if it reaches each y at the same sum. The form is

    y = (constant + ((256 s + offset) * factor >> 32)) >> shift

for a sum s, so that each threshold bounds `factor` from one side; any integer between all bounds is right. Only sums
that the layer can have count, which the weights tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trivet.backends.plan.kernels.requant import grouped_channels
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multipliers
from trivet.core.record import dataclass
from trivet.ops.products import Reals, clamp_limits, rescaled, rescaled_as_double

Ints = npt.NDArray[np.int64]

FOLDED_8, FOLDED_12, EXACT = range(3)
"""`trivet_dsp_form` of runtime/src/kernels/dsp.h."""

SHIFTS = {FOLDED_8: 8, FOLDED_12: 12}
SUM_BITS = 8
"""Sums are kept times 2^8, as operands are widened so."""

EXACT_SHIFTS = range(1, 23)
"""Right shifts of the exact form; its halves stay within int32."""

_NEAR = 2
"""Thresholds are looked for so far from where real arithmetic has them."""
_OFFSETS = 64
"""Offsets tried on either side of the natural one."""


class Requantization(Protocol):
    """What a layer does with its sums (`Requantized` of kernels/conv.py)."""

    @property
    def scales(self) -> Reals: ...
    @property
    def out(self) -> Quant | None: ...
    @property
    def clamp(self) -> Bounds: ...
    @property
    def numerics(self) -> Numerics | None: ...
    @property
    def as_double(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a layer, channel by channel: s = bias + sum(w * x) for stored x, least and largest s: [channels]."""

    bias: Ints
    least: Ints
    most: Ints

    @staticmethod
    def of(weights: Ints, bias: npt.NDArray[np.generic] | None, x_zero: int) -> Sums:
        """Of weights [O, K] without a zero point, on stored int8; padding holds the zero point."""
        plain = np.zeros(len(weights), np.int64) if bias is None else bias.astype(np.int64)
        positive = np.where(weights > 0, weights, 0).sum(axis=1)
        negative = np.where(weights < 0, weights, 0).sum(axis=1)
        low, high = -128 - x_zero, 127 - x_zero
        return Sums(
            plain - x_zero * weights.sum(axis=1),
            plain + positive * low + negative * high,
            plain + positive * high + negative * low,
        )

    def of_channels(self, which: npt.NDArray[np.generic]) -> Sums:
        """Those of some channels."""
        return Sums(self.bias[which], self.least[which], self.most[which])

    @property
    def fit(self) -> bool:
        """True iff every sum, times 256 and with an offset, fits in int32."""
        limit = (1 << (31 - SUM_BITS)) - 512
        return bool((self.least > -limit).all() and (self.most < limit).all())


@dataclass(frozen=True, slots=True)
class Rescaling:
    """`bias` are the sums to begin with, times 256; `numbers` what the form needs of each channel: [channels] each."""

    form: int
    constant: int
    bias: Ints
    numbers: tuple[Ints, ...]

    def packed(self, group: int) -> npt.NDArray[np.int32]:
        """i32 [groups][numbers][group]."""
        columns = np.stack([self.bias, *self.numbers])[:, grouped_channels(len(self.bias), group)]
        return np.ascontiguousarray(columns.reshape(len(columns), -1, group).transpose(1, 0, 2)).astype("<i4")


def find_rescaling(sums: Sums, layer: Requantization, is_constant_in_sums: bool = False) -> Rescaling | None:
    """The cheapest form that is right for every sum, None where none was found.

    `is_constant_in_sums`: the constant of a folded form is 0, and the sums begin with what makes up for it. A channel
    whose result is the same for all its sums does not look at them: its weights must be taken as zero
    (`constant_channels`). Such channels have scales far from what the forms take.
    """
    fixed = constant_channels(sums, layer)
    stepped = _stepped_channels(sums, layer) & ~fixed
    plain = ~fixed & ~stepped
    open_sums, open_layer = sums.of_channels(plain), _Part(layer, plain)
    forms = (EXACT,) if stepped.any() else (*SHIFTS, EXACT)
    for form in forms if open_sums.fit else ():
        if form == EXACT:
            found = _exact(open_sums, open_layer)
        else:
            found = _folded(form, open_sums, open_layer, is_constant_in_sums)
        if found is not None:
            constants = _constants(found, sums.of_channels(fixed), _Part(layer, fixed))
            steps = _steps(sums.of_channels(stepped), _Part(layer, stepped)) if stepped.any() else None
            return _merged(found, (plain, found), (fixed, constants), (stepped, steps))
    return None


def _stepped_channels(sums: Sums, layer: Requantization) -> npt.NDArray[np.bool_]:
    """Channels with two results, whose sums or shifts are beyond the forms: [channels]."""
    stored, limit = stored_function(layer), 1 << (31 - SUM_BITS)
    beyond = (np.abs(sums.least) >= limit - 512) | (np.abs(sums.most) >= limit - 512)
    narrow = sums.most - sums.least < 1 << (30 - SUM_BITS)
    two: npt.NDArray[np.bool_] = (stored(sums.most) - stored(sums.least) == 1) & beyond & narrow
    return two


def constant_channels(sums: Sums, layer: Requantization) -> npt.NDArray[np.bool_]:
    """Channels with one result: [channels]."""
    stored = stored_function(layer)
    equal: npt.NDArray[np.bool_] = stored(sums.least) == stored(sums.most)
    return equal


class _Part:
    """A layer with some of its channels."""

    def __init__(self, layer: Requantization, which: npt.NDArray[np.bool_]) -> None:
        self.scales = layer.scales[which]
        self.out, self.clamp, self.numerics, self.as_double = layer.out, layer.clamp, layer.numerics, layer.as_double


def _constants(found: Rescaling, sums: Sums, layer: Requantization) -> Rescaling:
    """Channels with one result, which their sum begins and ends with."""
    assert layer.out is not None
    results, zero, one = stored_function(layer)(sums.least), layer.out.zero_point, np.ones_like(sums.least)
    if found.form == EXACT:
        # A mantissa of 1/2 and a shift of 1 make a quarter of the sum.
        numbers: tuple[Ints, ...] = (one << 30, one * (2 * zero + 1), one)
        return Rescaling(EXACT, 0, (results - zero) << (SUM_BITS + 2), numbers)
    is_absolute = found.constant == 0
    bias = (results - (0 if is_absolute else zero)) << (SUM_BITS + SHIFTS[found.form])
    return Rescaling(found.form, found.constant, bias, (one << 24,))


def _steps(sums: Sums, layer: Requantization) -> Rescaling:
    """Channels with two results in the exact form: sums less their threshold are halved, and shifted out of sight."""
    stored, low, high = stored_function(layer), sums.least.copy(), sums.most.copy()
    while (high - low > 1).any():
        middle = (low + high) >> 1
        is_high = stored(middle) == stored(sums.most)
        high, low = np.where(is_high, middle, high), np.where(is_high, low, middle)
    shift = np.full_like(sums.least, EXACT_SHIFTS[-1])
    numbers = (np.full_like(shift, 1 << 30), stored(sums.most) << shift, shift)
    return Rescaling(EXACT, 0, (sums.bias - high) << SUM_BITS, numbers)


def _merged(form: Rescaling, *parts: tuple[npt.NDArray[np.bool_], Rescaling | None]) -> Rescaling:
    """All channels, each from the part that it is in."""
    count = len(parts[0][0])
    bias, numbers = np.zeros(count, np.int64), tuple(np.zeros(count, np.int64) for _ in form.numbers)
    for which, part in parts:
        if part is not None:
            bias[which] = part.bias
            for column, values in zip(numbers, part.numbers, strict=True):
                column[which] = values
    return Rescaling(form.form, form.constant, bias, numbers)


def stored_function(layer: Requantization) -> Callable[[Ints], Ints]:
    """Stored results of sums [..., channels], as the layer's contract has them."""
    assert layer.out is not None and layer.numerics is not None
    zero, limits, numerics = layer.out.zero_point, clamp_limits(I8, layer.clamp), layer.numerics

    def stored(sums: Ints) -> Ints:
        as_double = layer.as_double
        values = rescaled_as_double(sums, layer.scales) if as_double else rescaled(sums, layer.scales, numerics)
        return np.clip(values + zero, limits.lo, limits.hi)

    return stored


def thresholds(sums: Sums, layer: Requantization) -> Ints | None:
    """The least sum whose stored result is at least lo + 1, lo + 2, ... hi: [hi - lo, channels].

    Beyond all sums of the layer where no sum gives it, or all do. None where they are not where real arithmetic has
    them.
    """
    assert layer.out is not None
    limits = clamp_limits(I8, layer.clamp)
    steps = np.arange(limits.lo + 1, limits.hi + 1)[:, None]
    real = (steps - layer.out.zero_point - 0.5) / np.maximum(layer.scales, 1e-30)
    near = np.clip(np.ceil(real), sums.least - 4.0, sums.most + 4.0).astype(np.int64)
    stored = stored_function(layer)
    found = near + _NEAR + 1
    for distance in range(_NEAR, -_NEAR - 1, -1):
        found = np.where(stored(near + distance) >= steps, near + distance, found)
    below, there = found > near - _NEAR, found <= near + _NEAR
    if not (below | (near - _NEAR <= sums.least)).all() or not (there | (near + _NEAR >= sums.most)).all():
        return None
    return found


def _folded(form: int, sums: Sums, layer: Requantization, is_constant_in_sums: bool) -> Rescaling | None:
    """One factor and one shift, where the proof succeeds for every channel."""
    assert layer.out is not None
    at, limits, zero = thresholds(sums, layer), clamp_limits(I8, layer.clamp), layer.out.zero_point
    if at is None:
        return None
    shift, count = SHIFTS[form], len(sums.bias)
    steps = np.arange(limits.lo + 1, limits.hi + 1)[:, None]
    constant = 0 if is_constant_in_sums else (zero << shift) + (1 << (shift - 1))
    wanted = (steps << (shift + 32)) - (np.int64(constant) << 32)
    missing = (((zero << shift) + (1 << (shift - 1)) - constant) / layer.scales / 2.0**shift * 2.0**SUM_BITS).round()
    if any((np.abs(2.0**SUM_BITS * end + missing) >= 2.0**31 - 2.0**17).any() for end in (sums.least, sums.most)):
        return None
    factors, offsets, left = np.zeros(count, np.int64), np.zeros(count, np.int64), np.arange(count)
    for offset in _offsets(layer, limits.lo < zero):
        parts = sums.of_channels(left)
        tried = offset[left] + missing[left].astype(np.int64)
        low, high = _factor_bounds(at[:, left], parts, wanted, tried)
        right = low <= high
        factors[left[right]] = ((low + high) // 2)[right]
        offsets[left[right]] = tried[right]
        left = left[~right]
        if not left.size:
            return Rescaling(form, constant, (sums.bias << SUM_BITS) + offsets, (factors,))
    return None


def _offsets(layer: Requantization, is_signed: bool) -> Iterator[Ints]:
    """What to add to 256 s. Rounding twice is like adding up to one unit before rounding once.

    That unit is subtracted from negative sums, so that no offset is right for a layer whose negative results count.
    """
    count = len(layer.scales)
    if layer.as_double or layer.numerics is Numerics.ONNX:
        natural = np.zeros(count, np.int64)
    elif is_signed:
        return
    else:
        mantissas, _ = quantize_multipliers(layer.scales)
        natural = (1 << (SUM_BITS + 30)) // np.maximum(mantissas, 1 << 30)
    yield natural
    for distance in range(1, 2 * _OFFSETS, 2):
        yield natural - distance
        yield natural + distance


def _factor_bounds(at: Ints, sums: Sums, wanted: Ints, offset: Ints) -> tuple[Ints, Ints]:
    """Least and largest factor that give every threshold: [channels]; none where the least is the larger."""
    low, high = np.ones(len(offset), np.int64), np.full(len(offset), (1 << 31) - 1)
    reached = (np.maximum(at, sums.least) << SUM_BITS) + offset
    missed = (np.minimum(at - 1, sums.most) << SUM_BITS) + offset
    # reached * factor >= wanted, missed * factor <= wanted - 1
    counts = at <= sums.most
    low = np.maximum(low, _largest(_ceil_divide(wanted, reached), counts & (reached > 0)))
    high = np.minimum(high, _least(np.floor_divide(wanted, _divisor(reached)), counts & (reached < 0)))
    impossible = (counts & (reached == 0) & (wanted > 0)).any(axis=0)
    counts = at > sums.least
    high = np.minimum(high, _least(np.floor_divide(wanted - 1, _divisor(missed)), counts & (missed > 0)))
    low = np.maximum(low, _largest(_ceil_divide(wanted - 1, missed), counts & (missed < 0)))
    impossible |= (counts & (missed == 0) & (wanted <= 0)).any(axis=0)
    return low, np.where(impossible, 0, high)


def _divisor(values: Ints) -> Ints:
    return np.where(values == 0, 1, values)


def _ceil_divide(a: Ints, b: Ints) -> Ints:
    return -np.floor_divide(-a, _divisor(b))


def _largest(values: Ints, counts: npt.NDArray[np.bool_]) -> Ints:
    largest: Ints = np.where(counts, values, -(1 << 62)).max(axis=0, initial=-(1 << 62))
    return largest


def _least(values: Ints, counts: npt.NDArray[np.bool_]) -> Ints:
    least: Ints = np.where(counts, values, 1 << 62).min(axis=0, initial=1 << 62)
    return least


def _exact(sums: Sums, layer: Requantization) -> Rescaling | None:
    """TensorFlow Lite's two roundings, where every multiplier shifts to the right."""
    assert layer.out is not None
    if layer.as_double or layer.numerics is Numerics.ONNX:
        return None
    mantissas, shifts = quantize_multipliers(layer.scales)
    if not all(int(-shift) in EXACT_SHIFTS for shift in shifts):
        return None
    right = -shifts
    halves = (np.int64(layer.out.zero_point) << right) + (np.int64(1) << (right - 1))
    return Rescaling(EXACT, 0, sums.bias << SUM_BITS, (mantissas, halves, right))
