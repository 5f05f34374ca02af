"""Networks with state: several invocations in a row, each equal to the runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runners import host_model

from networks import Network, networks
from trivet import driver, interp
from trivet.core.numerics import Numerics
from trivet.driver import Settings
from trivet.frontends.options import LoadOptions
from trivet.frontends.tflite import load

INVOCATIONS = 6
RECURRENT = ("tflite-micro__keyword_scrambled", "tflite-micro__trained_lstm_int8")
NETWORKS = [n for n in networks("tflite") if n.name.startswith("micro-wake-word") or n.name in RECURRENT] or [None]


class LiteRT:
    def __init__(self, path: Path) -> None:
        litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
        reference = litert.OpResolverType.BUILTIN_REF
        self.runtime = litert.Interpreter(str(path), num_threads=1, experimental_op_resolver_type=reference)
        self.runtime.allocate_tensors()

    def run(self, x: np.ndarray) -> np.ndarray:
        self.runtime.set_tensor(self.runtime.get_input_details()[0]["index"], x)
        self.runtime.invoke()
        return self.runtime.get_tensor(self.runtime.get_output_details()[0]["index"])


class Tflm:
    def __init__(self, path: Path) -> None:
        tflm = pytest.importorskip("tflite_micro", reason="tflite-micro is not installed").runtime
        self.runtime = tflm.Interpreter.from_file(str(path), arena_size=1 << 22)

    def run(self, x: np.ndarray) -> np.ndarray:
        self.runtime.set_input(x, 0)
        self.runtime.invoke()
        return self.runtime.get_output(0)


class Oracle:
    def __init__(self, path: Path, contract: Numerics) -> None:
        self.graph = load(path, LoadOptions(numerics=contract)).graph
        assert self.graph.states
        self.states = None

    def run(self, x: np.ndarray) -> np.ndarray:
        (output,), self.states = interp.run(self.graph, [x], self.states)
        return output


class Plan:
    def __init__(self, path: Path, contract: Numerics) -> None:
        settings = Settings(numerics=contract)
        self.model = host_model(driver.build(driver.load(path, settings), settings).data)

    def run(self, x: np.ndarray) -> np.ndarray:
        (port,) = self.model.plan.inputs
        (output,) = self.model.run([x.reshape(port.tensor.shape)])
        return output


RUNTIMES = {Numerics.TFLM: Tflm, Numerics.LITERT: LiteRT}


@pytest.mark.shared
@pytest.mark.parametrize("runner", [Oracle, Plan])
@pytest.mark.parametrize("contract", RUNTIMES, ids=lambda contract: contract.value)
@pytest.mark.parametrize("network", NETWORKS, ids=[n.name if n else "shared-absent" for n in NETWORKS])
def test_invocations_equal_the_runtime(network: Network, contract: Numerics, runner: type, shared: Path) -> None:
    ours, theirs = runner(network.path, contract), RUNTIMES[contract](network.path)
    ((shape, dtype),) = {(value.type.shape, value.type.dtype) for value in load(network.path).graph.inputs}
    random = np.random.default_rng(3)
    for _ in range(INVOCATIONS):
        x = random.integers(-128, 128, shape).astype(dtype.numpy)
        np.testing.assert_array_equal(ours.run(x).ravel(), theirs.run(x).ravel())
