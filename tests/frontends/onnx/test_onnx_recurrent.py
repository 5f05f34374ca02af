"""Recurrent layers, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import agrees, model, node, rand, run, save

from trivet.frontends.onnx.convert import load

STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 5, 3
X = rand(STEPS, BATCH, INPUTS)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = {"LSTM": "y hn cn", "GRU": "y hn", "RNN": "y hn"}

CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "lstm": ("LSTM", "x w r", {}),
    "lstm with all operands": ("LSTM", "x w r b - h c p", {}),
    "lstm of two directions": ("LSTM", "x w r b - h c", {"direction": "bidirectional"}),
    "lstm backwards, clipped": ("LSTM", "x w r b", {"direction": "reverse", "clip": 0.2}),
    "lstm whose gates are coupled": ("LSTM", "x w r b", {"input_forget": 1}),
    "lstm with other functions": (
        "LSTM", "x w r b",
        {
            "activations": ["HardSigmoid", "ScaledTanh", "Softsign"], "activation_alpha": [0.3, 1.5],
            "activation_beta": [0.4, 0.7],
        },
    ),
    "gru": ("GRU", "x w r b", {}),
    "gru, linear before reset": ("GRU", "x w r b - h", {"linear_before_reset": 1}),
    "gru of two directions": ("GRU", "x w r b - h", {"direction": "bidirectional", "linear_before_reset": 1}),
    "gru backwards, clipped": ("GRU", "x w r", {"direction": "reverse", "clip": 0.2}),
    "rnn": ("RNN", "x w r b - h", {}),
    "rnn of two directions": (
        "RNN", "x w r b",
        {"direction": "bidirectional", "activations": ["Relu", "LeakyRelu"], "activation_alpha": [0.1]},
    ),
}  # fmt: skip


def operands(kind: str, directions: int) -> dict[str, np.ndarray]:
    rows = GATES[kind] * HIDDEN
    return {
        "w": rand(directions, rows, INPUTS, seed=1),
        "r": rand(directions, rows, HIDDEN, seed=2),
        "b": rand(directions, 2 * rows, seed=3),
        "h": rand(directions, BATCH, HIDDEN, seed=4),
        "c": rand(directions, BATCH, HIDDEN, seed=5),
        "p": rand(directions, 3 * HIDDEN, seed=6),
    }


@pytest.mark.parametrize("title", CASES)
@pytest.mark.parametrize("constant", [True, False], ids=["constant weights", "weights as inputs"])
def test_layers(title: str, constant: bool, tmp_path: Path) -> None:
    kind, names, attributes = CASES[title]
    every = operands(kind, 2 if attributes.get("direction") == "bidirectional" else 1)
    used = {name: every[name] for name in names.split() if name in every}
    inputs = {"x": X} if constant else {"x": X, **used}
    layer = node(kind, names, OUTPUTS[kind], hidden_size=HIDDEN, **attributes)
    agrees(model([layer], inputs, OUTPUTS[kind], used if constant else {}), inputs, tmp_path)


def test_a_layer_with_batch_first(tmp_path: Path) -> None:
    """onnxruntime has no such layout: the import is compared with that of explicit transposes."""
    every = operands("LSTM", 1)
    constants = {name: every[name] for name in ("w", "r", "b")}
    x = rand(BATCH, STEPS, INPUTS)
    explicit = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("LSTM", "t w r b", "y h c", hidden_size=HIDDEN),
        node("Transpose", "y", "z", perm=[2, 0, 1, 3]),
        node("Transpose", "h", "i", perm=[1, 0, 2]),
    ]
    attribute = [node("LSTM", "x w r b", "z i", hidden_size=HIDDEN, layout=1)]
    found = [
        run(load(save(model(nodes, {"x": x}, "z i", constants), tmp_path)), {"x": x}) for nodes in (explicit, attribute)
    ]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
