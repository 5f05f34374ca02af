"""The loader refuses every plan that breaks one of its rules, with the status of that rule."""

from __future__ import annotations

import ctypes

import pytest
from loader_cases import Case, base, cases
from patches import Runtime, patched

PLANS = ("layers", "batch", "states", "stream", "conv", "rows", "long", "constant", "exact", "product")


@pytest.fixture(scope="module")
def runtime(library: ctypes.CDLL) -> Runtime:
    return Runtime(library)


@pytest.mark.parametrize("plan", PLANS)
def test_plans_are_accepted_as_they_are(runtime: Runtime, plan: str) -> None:
    assert runtime.status(base(plan)) == "OK"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.title) for case in cases()])
def test_the_loader_says_of(runtime: Runtime, case: Case) -> None:
    assert runtime.status(case.data()) == case.status


def test_every_length_is_refused(runtime: Runtime) -> None:
    data = base("layers")
    statuses = {runtime.status(data[:size]) for size in range(1, len(data))}
    assert statuses == {"ERR_TRUNCATED"}


def test_every_flipped_bit_is_found_by_the_checksum(runtime: Runtime) -> None:
    data = base("layers")
    for byte in range(16, len(data)):
        flipped = data[:byte] + bytes([data[byte] ^ 4]) + data[byte + 1 :]
        assert runtime.status(flipped) == "ERR_CHECKSUM"


def test_a_wrong_checksum_is_refused(runtime: Runtime) -> None:
    assert runtime.status(patched(base("layers"), ("header", 0, "checksum", 1), sealed=False)) == "ERR_CHECKSUM"


def test_a_misaligned_plan_is_refused(runtime: Runtime) -> None:
    assert runtime.status(base("layers"), misaligned=4) == "ERR_ALIGNMENT"
