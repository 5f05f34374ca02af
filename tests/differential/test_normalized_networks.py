"""Every real network after normalization: what the oracle computes is what it computed before, or the golden says."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from networks import Network, load_arrays, networks
from trivet import interp
from trivet.frontends.onnx.convert import load
from trivet.frontends.options import LoadOptions
from trivet.interp import to_model, to_storage
from trivet.ir.graph import Graph
from trivet.ops.conv import Conv2D
from trivet.ops.matmul import BatchMatMul
from trivet.ops.movement import Transpose
from trivet.passes.manager import PassManager
from trivet.passes.pipelines import normalize
from trivet.passes.specs import CANONICAL

CASES = networks("onnx") or [None]
RECURRENT = ("dtln", "silero", "bidi_lstm")
"""Parts of the names of networks whose results are fed back many times."""

EPSILON = 1e-5
"""Difference relative to the largest magnitude of an output; a thousandth where it is fed back."""


def imported(network: Network, given: list[np.ndarray]) -> Graph:
    """The graph for inputs of the golden's shapes."""
    model = onnx.load(network.path).graph
    constants = {tensor.name for tensor in model.initializer}
    names = [value.name for value in model.input if value.name not in constants]
    shapes = {name: array.shape for name, array in zip(names, given, strict=True)}
    return load(network.path, LoadOptions(shapes)).graph


@pytest.mark.shared
@pytest.mark.parametrize("network", CASES, ids=[n.name if n else "shared-absent" for n in CASES])
def test_a_normalized_float_network_meets_its_golden(network: Network, shared: object) -> None:
    given = load_arrays(network.golden, "in")
    graph = imported(network, given)
    PassManager().run(graph, normalize())
    stored = [to_storage(array, port) for array, port in zip(given, graph.input_ports, strict=True)]
    outputs, _ = interp.run(graph, stored)
    golden = load_arrays(network.golden, "ref")
    epsilon = 1e-3 if any(part in network.name for part in RECURRENT) else EPSILON
    for output, port, expected in zip(outputs, graph.output_ports, golden, strict=True):
        difference = np.abs(to_model(output, port).astype(np.float64) - expected.astype(np.float64))
        assert difference.max(initial=0) <= epsilon * np.abs(expected).max(initial=1e-6)
    assert not list(CANONICAL.violations(graph))
    kinds = {type(node.op) for node in graph.nodes}
    if Conv2D in kinds and BatchMatMul not in kinds:
        assert Transpose not in kinds, "a convolutional network needs no transpose inside"
