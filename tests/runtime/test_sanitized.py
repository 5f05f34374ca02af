"""The kernels read and write nothing outside their operands: their tests once more under the address sanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHOSEN = {
    "conv": "tflm or f32",
    "conv_transpose": "tflm or f32",
    "depthwise": "tflm or f32",
    "pool": "tflm or f32",
}
"""Which tests of each family: one contract, and no drawn cases, for the sake of time."""


def address_sanitizer() -> str:
    """The library that must be loaded before everything else."""
    done = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    path = done.stdout.strip()
    if done.returncode != 0 or not Path(path).is_absolute():
        pytest.skip("no address sanitizer: apt-get install gcc")
    return path


@pytest.mark.parametrize("family", CHOSEN)
def test_no_access_outside(family: str) -> None:
    environment = os.environ | {"LD_PRELOAD": address_sanitizer(), "ASAN_OPTIONS": "detect_leaks=0"}
    tests = str(HERE / f"test_kernels_{family}.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        tests,
        "-k",
        CHOSEN[family],
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
