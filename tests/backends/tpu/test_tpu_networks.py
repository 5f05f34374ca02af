"""Every real int8 and uint8 TFLite network equals the oracle on the machine, or is refused for a reason that holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks_on_tpu import compiled, legal, random_inputs

from networks import Network, networks
from trivet import driver, interp
from trivet.backends.tpu.execute import run
from trivet.backends.tpu.schedule import read, write
from trivet.backends.tpu.verify import excesses
from trivet.errors import CompileError

QUANTIZED = [network for network in networks("tflite") if network.is_quantized]

REFUSED = {
    "tflite-micro__audio_preprocessor_int8": "rfft",
    "tflite-micro__dtln_noise_suppression": "quantized_lstm",
    "tflite-micro__keyword_scrambled": "svdf",
    "tflite-micro__keyword_scrambled_8bit": "svdf",
    "tflite-micro__micro_speech_lstm": "quantized_lstm",
    "tflite-micro__trained_lstm_int8": "quantized_lstm",
    "tinyengine__ptq_mnist_lenet-300-100": "log_softmax",
    "tinyengine__ptq_mnist_lenet-300-100_nobias": "log_softmax",
    "tflite-micro__mobilenet_v2_quantized_1x3x224x224": "activation memory",
}
"""Networks that the machine does not run, with a word of the reason."""


@pytest.mark.shared
@pytest.mark.parametrize("network", QUANTIZED, ids=lambda network: network.name)
def test_it_equals_the_oracle_or_is_refused(network: Network, shared: Path) -> None:
    try:
        graph = driver.load(network.path).graph
    except CompileError as refusal:
        pytest.skip(f"no target takes it: {str(refusal).splitlines()[0]}")
    reason = REFUSED.get(network.name)
    try:
        program = compiled(legal(graph), 16, 1)
    except CompileError as refusal:
        assert reason is not None and reason in str(refusal)
        return
    if reason is not None:
        assert any(reason in text for text in excesses(program)), "it runs: take it off the list"
        return
    program, states, memory = read(write(program)), None, None
    for seed in range(2 if graph.states else 1):
        inputs = random_inputs(graph, seed)
        wanted, states = interp.run(graph, inputs, states)
        outputs, memory = run(program, inputs, memory)
        for expected, actual in zip(wanted, outputs, strict=True):
            np.testing.assert_array_equal(actual, expected)
