"""Axis rules against their definitions, index by index."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from trivet.core.access import Blocked, Prefix, Shifted, Sliding, Span, Upsampled

SIZES = st.integers(1, 12)
SLIDING = st.builds(
    Sliding, st.just(0), SIZES, st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(0, 6)
)
SPANS = st.tuples(st.integers(0, 8), st.integers(1, 5)).map(lambda s: Span(s[0], s[0] + s[1]))


def taps(rule: Sliding, out: int) -> list[int]:
    """The operand indices under one window, padding left out."""
    window = (out * rule.stride - rule.before + k * rule.dilation for k in range(rule.kernel))
    return [index for index in window if 0 <= index < rule.size]


@given(SLIDING, SPANS)
def test_a_window_reads_all_of_its_taps(rule: Sliding, out: Span) -> None:
    span = rule.reads(out)
    read = [index for o in range(out.start, out.stop) for index in taps(rule, o)]
    assert all(span.start <= index < span.stop for index in read)


@given(SLIDING, SPANS)
def test_a_window_reads_no_more_than_its_first_to_last_tap(rule: Sliding, out: Span) -> None:
    """Exact where the dilation divides the stride, for then the first taps never move back."""
    read = [index for o in (out.start, out.stop - 1) for index in taps(rule, o)]
    if rule.stride % rule.dilation == 0 and taps(rule, out.start) and taps(rule, out.stop - 1):
        assert rule.reads(out) == Span(min(read), max(read) + 1)


@given(SLIDING)
def test_windows_never_move_back(rule: Sliding) -> None:
    spans = [span for span in (rule.reads(Span(o, o + 1)) for o in range(12)) if span.size]
    assert all(a.start <= b.start and a.stop <= b.stop for a, b in itertools.pairwise(spans))


@given(SLIDING, SPANS)
def test_what_is_missing_is_what_the_clip_takes_away(rule: Sliding, out: Span) -> None:
    window = range(rule.unclipped(out).start, rule.unclipped(out).stop)
    before, after = rule.missing(out)
    assert before == sum(index < 0 for index in window)
    assert after == sum(index >= rule.size for index in window)


def test_bilinear_by_two_with_half_pixels() -> None:
    """Positions -0.25, 0.25, 0.75, 1.25, ...: the two neighbours, clamped at the ends."""
    rule = Upsampled(1, size=4, num=2, den=4, offset=-1, taps=2)
    assert [rule.reads(Span(o, o + 1)) for o in range(8)] == [
        Span(0, 1),
        Span(0, 2),
        Span(0, 2),
        Span(1, 3),
        Span(1, 3),
        Span(2, 4),
        Span(2, 4),
        Span(3, 4),
    ]


def test_shifted_reads_what_lies_inside() -> None:
    """The second operand of a concat after three rows of the first."""
    rule = Shifted(1, size=4, offset=3)
    assert rule.reads(Span(2, 5)) == Span(0, 2)
    assert rule.missing(Span(2, 5)) == (1, 0)
    assert rule.reads(Span(0, 2)).size == 0


def test_blocks_are_read_whole() -> None:
    """Index o lies in block o // den, which is made of operand indices block * num to (block + 1) * num - 1."""
    for num, den in ((1, 2), (2, 1), (1, 3), (3, 1), (1, 1)):
        rule = Blocked(1, size=6 * num, num=num, den=den)
        for start, stop in itertools.combinations(range(6 * den + 1), 2):
            blocks = {index // den for index in range(start, stop)}
            assert rule.reads(Span(start, stop)) == Span(min(blocks) * num, (max(blocks) + 1) * num)


def test_a_prefix_reads_all_before() -> None:
    assert Prefix(1, size=5).reads(Span(3, 4)) == Span(0, 4)


def test_an_empty_span_reads_nothing() -> None:
    assert Sliding(0, 5, 3).reads(Span(2, 2)).size == 0
