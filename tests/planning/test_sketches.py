"""Networks with random weights that tests and benchmarks use: they are what their names say, and compute something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sketches import architectures
from sketches.graphs import int8_graph
from sketches.layers import Sketch
from sketches.qdq import qdq_model
from trivet import driver, interp
from trivet.analysis.cost import total_cost
from trivet.ir.graph import Graph
from trivet.ir.text.printer import print_graph

SMALL: dict[str, Sketch] = {
    "mobilenet_v2": architectures.mobilenet_v2(32, classes=10),
    "unet": architectures.unet(16, 4),
    "se_net": architectures.se_net(24),
    "dense_blocks": architectures.dense_blocks(8, 4, 2),
    "inception": architectures.inception(16),
    "audio": architectures.audio(200),
    "synthetic": architectures.synthetic(100),
}


def random_image(graph: Graph) -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, graph.inputs[0].type.shape).astype(np.int8)


@pytest.mark.parametrize(("resolution", "macs"), [(96, 11_934_128), (144, 26_660_752)])
def test_mobilenet_v2_is_the_published_one(resolution: int, macs: int) -> None:
    sketch = architectures.mobilenet_v2(resolution)
    cost = total_cost(int8_graph(sketch))
    convolutions = [layer for layer in sketch.layers if layer.kind in ("conv", "depthwise")]
    assert cost.macs == macs and len(convolutions) == 52
    assert sum(layer.kind == "add" for layer in sketch.layers) == 10
    assert sketch.layers[-1].shape == (1, 1000) and sketch.layers[-2].shape == (1, 1280)


@pytest.mark.parametrize("name", SMALL)
def test_activations_do_not_saturate(name: str) -> None:
    graph = int8_graph(SMALL[name])
    shares = []
    interp.run(graph, [random_image(graph)], observe=lambda v, a: shares.append((v.name, np.mean(a == 127), a)))
    for value, share, array in shares:
        assert share < 0.35, f"{value} is at its limit in {share:.0%} of its elements"
        assert array.size < 64 or len(np.unique(array)) > 4, f"{value} is all but constant"


@pytest.mark.parametrize("name", SMALL)
def test_onnx_form_has_the_same_layers(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(qdq_model(SMALL[name]))
    graph = driver.load(path).graph
    driver.optimize(graph, driver.Settings())
    assert total_cost(graph).macs == total_cost(int8_graph(SMALL[name])).macs
    assert sum(v.type.dtype.is_float for node in graph.nodes for v in node.outputs) <= 2, "the border alone is float"


def test_the_seed_decides_the_weights() -> None:
    texts = [print_graph(int8_graph(architectures.audio(200, seed))) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("operators", [100, 300])
def test_synthetic_networks_have_the_size_that_was_asked(operators: int) -> None:
    assert abs(len(architectures.synthetic(operators).layers) - operators) < 8
