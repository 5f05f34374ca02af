"""Audio features of TensorFlow Lite Micro's signal library, and the options of its custom operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from networks import shared_directory
from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.core.dtype import I16, U32, U64
from trivet.core.numerics import Numerics
from trivet.errors import InvalidModel
from trivet.frontends.tflite.flexbuffer import numbers
from trivet.ir.types import TensorType
from trivet.ops.filter_bank import LOG_TABLE, FilterBankLog, FilterBankSquareRoot
from trivet.ops.signal import FftAutoScale, Rfft

SHIFT_12 = b"shift\x00\x01\x07\x01\x01\x01\x0c\x04\x02$\x01"
"""The map {"shift": 12}."""


def test_options_are_read() -> None:
    assert numbers(SHIFT_12) == [12]
    assert numbers(bytes([2, 7, 200, 4, 8, 4, 40, 1])) == [7, 200], "a vector of a signed and an unsigned number"


@pytest.mark.parametrize("data", [SHIFT_12[:n] for n in range(len(SHIFT_12))], ids=len)
def test_damaged_options_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidModel, match="no FlexBuffer"):
        numbers(data)


def test_samples_are_scaled_as_far_as_the_largest_allows() -> None:
    type_ = TensorType(I16, (3,))
    for x, bits in (([1, -3, 2], 13), ([0, 0, 0], 0), ([16384, 0, 0], 0), ([-32768, 3, 1], 13), ([1, 2, -32768], 0)):
        y, found = FftAutoScale().evaluate((np.array(x, np.int16),), (type_,))
        assert int(found) == bits and y.tolist() == np.array([v << bits for v in x]).astype(np.int16).tolist()


def test_a_spectrum_is_near_the_real_one() -> None:
    rng = np.random.default_rng(0)
    for length in (8, 16, 512, 1024):
        x = rng.integers(-32768, 32768, length).astype(np.int16)
        (y,) = Rfft(length).evaluate((x,), (TensorType(I16, x.shape),))
        real = np.fft.rfft(x) / length
        assert np.abs(y[0::2] - real.real).max() < 6 and np.abs(y[1::2] - real.imag).max() < 6


def test_roots_and_logarithms_of_known_numbers() -> None:
    x = np.array([0, 3, 7, 2**32 - 1, 2**32, 2**64 - 1], np.uint64)
    (roots,) = FilterBankSquareRoot().evaluate((x, np.array(0, np.int32)), (TensorType(U64, x.shape),))
    assert roots.tolist() == [0, 2, 3, 0xFFFF, 0x10000, 0xFFFFFFFF]
    assert LOG_TABLE[[0, 1, 57, 128]].tolist() == [0, 224, 5641, 0]
    x = np.array([0, 1, 2, 1000, 2**32 - 1], np.uint32)
    (logs,) = FilterBankLog(1 << 6, 0).evaluate((x,), (TensorType(U32, x.shape),))
    assert np.abs(logs - 64 * np.log(np.maximum(x, 1).astype(np.float64))).max() < 1


@pytest.mark.shared
@pytest.mark.parametrize("name", ["int8", "float"])
def test_frames_in_a_row_equal_the_library(name: str, shared: Path) -> None:
    """Loud, soft and clipped frames; the estimate of the noise lives on between them."""
    tflm = pytest.importorskip("tflite_micro", reason="pip install tflite-micro").runtime
    root = shared_directory()
    assert root is not None
    path = root / "models" / "networks" / "tflite" / f"tflite-micro__audio_preprocessor_{name}.tflite"
    settings = driver.Settings(numerics=Numerics.TFLM)
    compiled = driver.build(driver.load(path, settings), settings)
    artifact = Artifact(compiled.data)
    reference = tflm.Interpreter.from_file(str(path))
    states = None
    for frame in audio():
        reference.set_input(frame, 0)
        reference.invoke()
        expected = reference.get_output(0)
        np.testing.assert_array_equal(artifact.run([frame])[0], expected)
        (found,), states = interp.run(compiled.graph, [frame], states)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def audio() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    amplitudes = (0, 3, 40, 1000, 30000, 32768, 32768, 200, 5)
    frames = [rng.integers(-a, max(a, 1), (1, 480)).astype(np.int16) for a in amplitudes]
    time = np.arange(480)
    return [*frames, np.int16(32767 * np.sin(0.3 * time))[None], np.full((1, 480), -32768, np.int16)]
