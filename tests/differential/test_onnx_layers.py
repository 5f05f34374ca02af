"""Every layer of every quantized ONNX network, fed with the reference's own inputs of that layer."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_layers import Layer, layers
from runners import to_model, to_storage

from networks import Network, load_arrays, networks
from trivet import driver, interp
from trivet.driver import Settings

pytestmark = pytest.mark.shared

QUANTIZED = [n for n in networks("onnx", "derived") if re.search("qdq_(s8s8|u8u8)", n.name) and "dtln" not in n.name]
"""Static 8-bit networks in the QDQ form; those with LSTM layers do not convert."""


def steps(layer: Layer, directory: Path) -> int:
    """The largest difference from onnxruntime, in units of the output's quantization."""
    path = directory / "layer.onnx"
    path.write_bytes(layer.model.SerializeToString())
    settings = Settings()
    graph = driver.load(path, settings).graph
    driver.optimize(graph, settings)
    ports = graph.input_ports
    stored = [to_storage(layer.inputs[port.name], port.perm) for port in ports]
    (found,), _ = interp.run(graph, stored)
    found = to_model(found, graph.output_ports[0].perm)
    assert found.dtype == layer.expected.dtype and found.shape == layer.expected.shape
    return int(np.abs(found.astype(np.int64) - layer.expected.astype(np.int64)).max(initial=0))


@pytest.mark.parametrize("network", QUANTIZED, ids=lambda network: network.name)
def test_every_layer_is_within_one_step(network: Network, shared: Path, tmp_path: Path) -> None:
    graph = onnx.load(network.path).graph
    names = [port.name for port in graph.input]
    inputs = dict(zip(names, load_arrays(network.golden, "in"), strict=True))
    found = {layer.title: steps(layer, tmp_path) for layer in layers(network.path, inputs)}
    assert found, "the network has no quantized layers"
    assert max(found.values()) <= 1, {title: count for title, count in found.items() if count > 1}
