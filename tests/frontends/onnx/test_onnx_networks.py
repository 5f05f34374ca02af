"""Real networks: what imports equals the reference's outputs, before and after normalization; the rest is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx
import pytest
from onnx_models import run, run_normalized

from networks import Network, load_arrays, networks
from trivet.frontends.onnx.convert import load
from trivet.frontends.options import Loaded, LoadOptions

pytestmark = pytest.mark.shared

T = TypeVar("T")

TOLERANCE = {
    r"dtln|silero|bidi_lstm": 1e-3,
    r"qdq_s16": 1e-3,
    r"qop_": 2e-2,
}
"""Of the largest output: one step of 16 bits, or of 8 where integer kernels round ties that floats do not have;
long recurrences add up what sums in another order differ by."""


def _input_names(path: Path) -> list[str]:
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [port.name for port in graph.input if port.name not in constants]


def _load(path: Path, inputs: list[np.ndarray]) -> Loaded:
    shapes = {name: array.shape for name, array in zip(_input_names(path), inputs, strict=True) if array.ndim}
    return load(path, LoadOptions(input_shapes=shapes))


def _matching(table: dict[str, T], name: str) -> T | None:
    return next((value for pattern, value in table.items() if re.search(pattern, name)), None)


def _check(path: Path, golden: Path) -> None:
    inputs = load_arrays(golden, "in")
    named = dict(zip(_input_names(path), inputs, strict=True))
    loaded = _load(path, inputs)
    tolerance = _matching(TOLERANCE, path.stem) or 1e-5
    for outputs in (run(loaded, named), run_normalized(loaded.graph, named)):
        for found, expected in zip(outputs, load_arrays(golden, "ref"), strict=True):
            assert found.dtype == expected.dtype
            scale = float(np.abs(expected).max(initial=1e-9))
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("network", networks("onnx"), ids=lambda network: network.name)
def test_network_equals_its_reference(network: Network, shared: Path) -> None:
    _check(network.path, network.golden)


@pytest.mark.parametrize("network", networks("onnx", "derived"), ids=lambda network: network.name)
def test_quantized_network_equals_its_reference(network: Network, shared: Path) -> None:
    _check(network.path, network.golden)


PUBLIC_BUGS = (
    "o02_dynamic_flatten_shape_concat",
    "o03_qdq_conv_scalar_constant_nodes",
    "o05_resize_nearest_concat_skip",
    "o06_conv1d_dw_transpose_gather",
    "o08_maxpool_ceil_asym_avg_includepad",
    "o09_convtranspose_pad1_s2_k4_outpad",
    "o10_broadcast_two_sided_prelu_clip",
    "o11_lstm_bidir_initial_clip",
    "o13_initializer_also_graph_input",
)


@pytest.mark.parametrize("name", PUBLIC_BUGS)
def test_small_inputs_that_broke_other_tools(name: str, shared: Path) -> None:
    path = shared / "cases" / "public-bugs" / f"{name}.onnx"
    inputs = load_arrays(path.with_suffix(".npz"), "in")
    loaded = _load(path, inputs)
    outputs = run(loaded, dict(zip(_input_names(path), inputs, strict=True)))
    for found, expected in zip(outputs, load_arrays(path.with_suffix(".npz"), "ref"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
