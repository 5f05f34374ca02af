"""Quantized ONNX networks (QDQ), layer by layer: each layer reads onnxruntime's own tensors, and ends at most one step
away from what onnxruntime computes there without optimizations.

The layers are those that normalization leaves when transposes stay where they are, so that every tensor has the shape
that it has in the file. Another test shows that the network computes the same integers once they are cancelled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from layers import walk

from networks import Network, load_arrays, networks
from references import run_onnxruntime
from trivet import interp
from trivet.core.dtype import F32, U8
from trivet.frontends.onnx.convert import load
from trivet.frontends.options import LoadOptions
from trivet.interp import to_model, to_storage
from trivet.ir.graph import Graph
from trivet.ops.conv import Conv2D, ConvTranspose2D, DepthwiseConv2D
from trivet.ops.matmul import Dense
from trivet.ops.movement import Transpose
from trivet.passes.manager import PassManager
from trivet.passes.pipelines import normalize
from trivet.passes.specs import CANONICAL

PRODUCTS = (Conv2D, DepthwiseConv2D, ConvTranspose2D, Dense)
REFUSED = ("dtln",)
"""Networks with operators that no frontend converts yet (LSTM)."""

CASES = [
    network
    for network in networks("onnx", "derived")
    if any(kind in network.name for kind in ("qdq_s8s8", "qdq_u8u8")) and not any(r in network.name for r in REFUSED)
] or [None]

LAYOUT = frozenset({"cancel-transposes", "transposes-into-ports", "sink-reshapes", "remove-identities"})

every_network = pytest.mark.parametrize("network", CASES, ids=[n.name if n else "shared-absent" for n in CASES])


def loaded(network: Network, transposes: bool) -> Graph:
    """The normalized graph; without `transposes` they cancel, with them every tensor keeps the file's shape."""
    shapes = {port.name: port.type.shape for port in load(network.path).graph.input_ports}
    given = load_arrays(network.golden, "in")
    options = LoadOptions({name: array.shape for name, array in zip(shapes, given, strict=True)})
    graph = load(network.path, options).graph
    disabled = LAYOUT if transposes else frozenset()
    PassManager(disabled=disabled).run(graph, normalize())
    return graph


def reference_tensors(network: Network) -> dict[str, np.ndarray]:
    """What onnxruntime computes for every quantize of the file and for its outputs."""
    model = onnx.load(network.path)
    elements = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            kind = elements[node.input[2]]
            model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], kind, None))
    given = [value.name for value in model.graph.input if value.name not in elements]
    inputs = dict(zip(given, load_arrays(network.golden, "in"), strict=True))
    names = [value.name for value in model.graph.output]
    return dict(zip(names, run_onnxruntime(model.SerializeToString(), inputs), strict=True))


@pytest.mark.shared
@every_network
def test_every_layer_is_within_one_step_of_onnxruntime(
    network: Network, shared: object, record_property: Callable[[str, object], None]
) -> None:
    graph, reference = loaded(network, transposes=True), reference_tensors(network)
    inputs = [
        to_storage(array, port)
        for array, port in zip(load_arrays(network.golden, "in"), graph.input_ports, strict=True)
    ]
    elements = moved = 0
    for value, computed, expected in walk(graph, inputs, reference):
        quant = value.type.quant
        if value.type.dtype is F32:
            steps = np.abs(computed - expected) / np.maximum(np.abs(expected).max(), 1e-6) / 1e-5
        else:
            assert quant is not None, f"{value!r} is no quantized tensor"
            steps = np.abs(computed.astype(np.int64) - expected.astype(np.int64))
            elements, moved = elements + steps.size, moved + int((steps > 0).sum())
        assert steps.max(initial=0) <= 1, f"{value!r} is {steps.max()} steps off, made by {value.producer!r}"
    products = [node for node in graph.nodes if isinstance(node.op, PRODUCTS)]
    compared = sum(value.name in reference for node in graph.nodes for value in node.outputs)
    assert compared >= len(products), "fewer tensors than products were compared"
    record_property("elements one step off", f"{moved} of {elements}")


@pytest.mark.shared
@every_network
def test_no_float_product_and_no_transpose_is_left(network: Network, shared: object) -> None:
    graph = loaded(network, transposes=False)
    floats = [node for node in graph.nodes if isinstance(node.op, PRODUCTS) and node.output.type.dtype is F32]
    assert not floats
    assert not [node for node in graph.nodes if isinstance(node.op, Transpose)]
    assert not [value for node in graph.nodes for value in node.outputs if value.type.dtype is U8]
    assert not list(CANONICAL.violations(graph))


@pytest.mark.shared
@every_network
def test_cancelled_transposes_leave_every_integer(network: Network, shared: object) -> None:
    assert_same_outputs(loaded(network, transposes=True), loaded(network, transposes=False), network)


def assert_same_outputs(first: Graph, second: Graph, network: Network) -> None:
    for a, b in zip(model_outputs(first, network), model_outputs(second, network), strict=True):
        np.testing.assert_array_equal(a, b)


def model_outputs(graph: Graph, network: Network) -> list[np.ndarray]:
    """Outputs in the model's axis order for the golden's inputs."""
    given = load_arrays(network.golden, "in")
    stored = [to_storage(array, port) for array, port in zip(given, graph.input_ports, strict=True)]
    outputs, _ = interp.run(graph, stored)
    return [to_model(array, port) for array, port in zip(outputs, graph.output_ports, strict=True)]


@pytest.mark.shared
@every_network
def test_outputs_stay_near_the_golden(
    network: Network, shared: object, record_property: Callable[[str, object], None]
) -> None:
    """End to end a step may grow on its way; what is measured is reported, and bounded only against nonsense."""
    worst = 0.0
    for computed, expected in zip(
        model_outputs(loaded(network, transposes=False), network), load_arrays(network.golden, "ref"), strict=True
    ):
        span = float(np.max(expected) - np.min(expected)) or 1.0
        worst = max(worst, float(np.max(np.abs(computed - expected))) / span)
    record_property("largest difference relative to the output's span", worst)
    assert worst < 0.25
