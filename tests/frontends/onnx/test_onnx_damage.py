"""Damaged files: one clear error each, never another exception."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper
from onnx_models import agrees, model, node, rand, save

from trivet.errors import CompileError, InvalidModel, Problems
from trivet.frontends.onnx.convert import load

X = rand(1, 2, 6, 6)


def network() -> onnx.ModelProto:
    """A bit of everything: a convolution, quantization, shape arithmetic, a pool, a dense layer."""
    nodes = [
        node("DequantizeLinear", "q s z", "w", axis=0),
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Clip", "c low high", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", "p", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Unsqueeze", "batch axis", "batch1"),
        node("Concat", "batch1 rest", "target", axis=0),
        node("Reshape", "p target", "flat"),
        node("Gemm", "flat m", "g", transB=1),
        node("Softmax", "g"),
    ]
    constants = {
        "q": rand(3, 2, 3, 3).astype(np.int8),
        "s": np.float32([0.1, 0.2, 0.3]),
        "z": np.zeros(3, np.int8),
        "b": rand(3),
        "low": np.float32(0),
        "high": np.float32(6),
        "zero": np.int64(0),
        "axis": np.array([0]),
        "rest": np.array([-1]),
        "m": rand(4, 27),
    }
    return model(nodes, {"x": X}, constants=constants)


def test_the_sound_network_agrees(tmp_path: Path) -> None:
    agrees(network(), {"x": X}, tmp_path)


def attempt(data: bytes, path: Path) -> str:
    """The error of a load, or nothing; any exception but a CompileError fails the test."""
    path.write_bytes(data)
    try:
        load(path)
    except CompileError as error:
        return str(error)
    return ""


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = network().SerializeToString()
    for length in range(0, len(data), 7):
        assert attempt(data[:length], tmp_path / "cut.onnx"), f"the first {length} bytes were accepted"


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_raise_nothing_but_compile_errors(seed: int, tmp_path: Path) -> None:
    rng, data = random.Random(seed), network().SerializeToString()
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 10))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        attempt(bytes(damaged), tmp_path / "flipped.onnx")


@pytest.mark.parametrize("seed", range(4))
def test_wild_attributes_and_dimensions_raise_nothing_but_compile_errors(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        proto = network()
        for _ in range(rng.choice((1, 2, 4))):
            _distort(proto, rng)
        attempt(proto.SerializeToString(), tmp_path / "wild.onnx")


WILD = (0, 1, -1, 2, 7, -7, 1000, 1 << 31, -(1 << 63), (1 << 63) - 1)


def _distort(proto: onnx.ModelProto, rng: random.Random) -> None:
    graph = proto.graph
    operator = rng.choice(graph.node)
    match rng.randrange(5):
        case 0 if operator.attribute:
            attribute = rng.choice(operator.attribute)
            attribute.i = rng.choice(WILD)
            attribute.ints[:] = [rng.choice(WILD) for _ in attribute.ints]
        case 1:
            operator.input[rng.randrange(len(operator.input))] = rng.choice(graph.node).output[0]
        case 2:
            operator.op_type = rng.choice(graph.node).op_type
        case 3:
            tensor = rng.choice(graph.initializer)
            tensor.dims[:] = [rng.choice(WILD) for _ in range(rng.randrange(4))]
        case _:
            graph.input[0].type.tensor_type.shape.dim[rng.randrange(4)].dim_value = rng.choice(WILD)


NOT_MODELS = {
    "empty": b"",
    "text": b"This is no network at all, it is a letter.\n" * 20,
    "json": b'{"graph": {"node": []}}',
    "zeros": bytes(4096),
    "no graph": onnx.ModelProto(ir_version=8).SerializeToString(),
    "empty graph": helper.make_model(onnx.GraphProto(name="g")).SerializeToString(),
}


@pytest.mark.parametrize("title", NOT_MODELS)
def test_what_is_no_model_is_invalid(title: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(NOT_MODELS[title])
    with pytest.raises(InvalidModel, match="not an ONNX model"):
        load(path)


def test_an_absent_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"absent\.onnx: cannot read the model: No such file"):
        load(tmp_path / "absent.onnx")
    with pytest.raises(CompileError, match="Is a directory"):
        load(tmp_path)


def broken(title: str) -> onnx.ModelProto:
    proto = network()
    graph = proto.graph
    match title:
        case "reads a name that nothing defines":
            graph.node[1].input[0] = "nowhere"
        case "depends on itself":
            graph.node[1].input[0] = "r"
        case "is defined twice":
            graph.node[2].output[0] = "c"
        case "two initializers are called":
            graph.initializer.append(graph.initializer[0])
        case "states no operator set version":
            del proto.opset_import[:]
        case "needs 12 bytes, the file has 8":
            graph.initializer[1].raw_data = graph.initializer[1].raw_data[:8]
        case "has a negative dimension":
            graph.initializer[1].dims[0] = -3
        case "nothing defines":
            graph.output[0].name = "nowhere"
        case "has no kind":
            graph.node[3].op_type = ""
    return proto


@pytest.mark.parametrize(
    "message",
    [
        "reads a name that nothing defines",
        "depends on itself",
        "is defined twice",
        "two initializers are called",
        "states no operator set version",
        "needs 12 bytes, the file has 8",
        "has a negative dimension",
        "nothing defines",
        "has no kind",
    ],
)
def test_a_contradiction_is_invalid(message: str, tmp_path: Path) -> None:
    text = "nothing defines" if "nothing" in message else message
    with pytest.raises((InvalidModel, Problems), match=text):
        load(save(broken(message), tmp_path))


def with_external_data(directory: Path) -> onnx.ModelProto:
    proto = network()
    for tensor in proto.graph.initializer:
        external_data_helper.set_external_data(tensor, "weights.bin")
    external_data_helper.write_external_data_tensors(proto, str(directory))
    return proto


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    path = save(with_external_data(tmp_path), tmp_path)
    assert (tmp_path / "weights.bin").is_file()
    weights = [value.data for value in load(path).graph.constants()]
    expected = [value.data for value in load(save(network(), tmp_path)).graph.constants()]
    assert all(np.array_equal(a, b) for a, b in zip(weights, expected, strict=True))


def damaged_external(title: str, proto: onnx.ModelProto, directory: Path) -> None:
    entries = {entry.key: entry for entry in proto.graph.initializer[0].external_data}
    match title:
        case "outside":
            (directory / "secret.bin").write_bytes(bytes(4096))
            entries["location"].value = "../secret.bin"
        case "absolute":
            entries["location"].value = "/etc/hostname"
        case "absent":
            entries["location"].value = "other.bin"
        case "too long":
            entries["length"].value = "99999999"
        case "no number":
            entries["offset"].value = "-4"


@pytest.mark.parametrize("title", ["outside", "absolute", "absent", "too long", "no number"])
def test_external_data_that_leaves_its_place_is_refused(title: str, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    proto = with_external_data(directory)
    damaged_external(title, proto, tmp_path)
    with pytest.raises(InvalidModel, match="tensor 'q'"):
        load(save(proto, directory))
