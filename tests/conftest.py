"""Fixtures for the whole suite: the directory of real networks, and Hypothesis profiles."""

from __future__ import annotations

import os

# Before numpy loads: its matrix products are small here, and one thread each keeps parallel workers from spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from networks import shared_directory

settings.register_profile(
    "default", max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "unshrunk", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate], database=None
)
settings.register_profile("deep", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("TRIVET_HYPOTHESIS", "default"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Skips the test where the directory is absent; TRIVET_REQUIRE_SHARED=1 makes that a failure."""
    path = shared_directory()
    if path is None:
        message = "the directory of real networks is absent: set TRIVET_SHARED, or put `shared` beside the checkout"
        if os.environ.get("TRIVET_REQUIRE_SHARED") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path
