"""Files that are not what they claim to be: one clear message, never a traceback, never much time or memory."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import tflite
from models import loaded, small_network

from trivet.errors import CompileError, InvalidModel
from trivet.frontends.tflite import load

MODEL = small_network()


def refused(tmp_path: Path, data: bytes) -> str:
    """The message with which a file is refused, "" when it is not."""
    try:
        loaded(tmp_path, data)
    except CompileError as error:
        return str(error)
    return ""


def field_position(table: int, index: int) -> int:
    """Where field `index` of the table at byte `table` of MODEL stands."""
    vtable = table - struct.unpack_from("<i", MODEL, table)[0]
    return table + struct.unpack_from("<H", MODEL, vtable + 4 + 2 * index)[0]


ROOT = struct.unpack_from("<I", MODEL, 0)[0]
SUBGRAPHS = field_position(ROOT, 2)


def patched(position: int, value: int) -> bytes:
    return MODEL[:position] + struct.pack("<I", value) + MODEL[position + 4 :]


def test_the_undamaged_model_loads(tmp_path: Path) -> None:
    assert [node.op.name for node in loaded(tmp_path, MODEL).graph.nodes] == ["conv2d", "reshape", "dense", "softmax"]


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="No such file") as refusal:
        load(tmp_path / "nowhere.tflite")
    assert "nowhere.tflite" in str(refusal.value)


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="directory"):
        load(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    assert "not a TFLite model: it is empty" in refused(tmp_path, b"")


def test_text_file(tmp_path: Path) -> None:
    assert "not a TFLite model: bytes 4 to 8 are b'o, w'" in refused(tmp_path, b"hello, world\n" * 100)


def test_other_schema_version(tmp_path: Path) -> None:
    assert "schema version 2, expected 3" in refused(tmp_path, patched(field_position(ROOT, 0), 2))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """The last bytes of a file may be alignment that nothing reads; all others are needed."""
    accepted = [length for length in range(len(MODEL)) if not refused(tmp_path, MODEL[:length])]
    assert all(length > len(MODEL) - 16 for length in accepted)


@pytest.mark.parametrize("length", [1 << 20, 0x3FFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF])
def test_absurd_vector_length(tmp_path: Path, length: int) -> None:
    vector = SUBGRAPHS + struct.unpack_from("<I", MODEL, SUBGRAPHS)[0]
    assert "damaged or cut short" in refused(tmp_path, patched(vector, length))


@pytest.mark.parametrize("offset", [0, 3, len(MODEL), 0x7FFFFFFF, 0xFFFFFFFF])
def test_absurd_offset(tmp_path: Path, offset: int) -> None:
    assert refused(tmp_path, patched(SUBGRAPHS, offset))


def repeating_model(tensors: int, scales: int) -> bytes:
    """Many tensors that all point at one quantization with many scales."""
    b = flatbuffers.Builder(1 << 16)
    vector = b.CreateNumpyVector(np.ones(scales, np.float32))
    tflite.QuantizationParametersStart(b)
    tflite.QuantizationParametersAddScale(b, vector)
    quantization = tflite.QuantizationParametersEnd(b)
    tflite.TensorStart(b)
    tflite.TensorAddQuantization(b, quantization)
    tensor = tflite.TensorEnd(b)
    all_tensors = offsets(b, [tensor] * tensors)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, all_tensors)
    subgraphs = offsets(b, [tflite.SubGraphEnd(b)])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddSubgraphs(b, subgraphs)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def offsets(b: flatbuffers.Builder, targets: list[int]) -> int:
    b.StartVector(4, len(targets), 4)
    for target in reversed(targets):
        b.PrependUOffsetTRelative(target)
    return b.EndVector()


def test_a_file_that_repeats_itself_is_refused_soon(tmp_path: Path) -> None:
    """Four gigabytes of scales in a file of half a megabyte."""
    data = repeating_model(tensors=10_000, scales=100_000)
    start = time.perf_counter()
    assert "repeats its own bytes" in refused(tmp_path, data)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("seed", range(8))
def test_mutations_load_or_are_refused(tmp_path: Path, seed: int) -> None:
    """Anything but a CompileError fails the test."""
    random = np.random.default_rng(seed)
    for _ in range(150):
        data = bytearray(MODEL)
        for _ in range(random.integers(1, 4)):
            data[random.integers(len(data))] = random.integers(256)
        refused(tmp_path, bytes(data))


@pytest.mark.parametrize("word", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_every_word_replaced(tmp_path: Path, word: int) -> None:
    for position in range(0, len(MODEL) - 3, 4):
        refused(tmp_path, patched(position, word))
