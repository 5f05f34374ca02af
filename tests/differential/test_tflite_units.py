"""Models of one or a few operators from public test suites: the oracle against both runtimes, on random inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from suites import difference

from networks import shared_directory
from references import run_litert, run_tflm
from trivet import interp
from trivet.core.numerics import Numerics
from trivet.errors import CompileError
from trivet.frontends.options import LoadOptions
from trivet.frontends.tflite import load
from trivet.ir.graph import Value

REFUSALS = {
    "LiteRT__static_w8_a16_quantized_q_einsum": "batch_matmul does not take",
    "LiteRT__static_w8_a16_quantized_v_einsum": "batch_matmul does not take",
}
"""A part of the message with which a model is refused."""


def models() -> list[Path]:
    root = shared_directory()
    return sorted((root / "models" / "unit").rglob("*.tflite")) if root else []


MODELS = models() or [None]
RUNTIMES = {Numerics.TFLM: "tflm", Numerics.LITERT: "litert"}


@pytest.mark.shared
@pytest.mark.parametrize("contract", RUNTIMES, ids=RUNTIMES.values())
@pytest.mark.parametrize("path", MODELS, ids=[path.stem if path else "shared-absent" for path in MODELS])
def test_model_equals_the_runtime(path: Path, contract: Numerics, shared: Path) -> None:
    if path.stem in REFUSALS:
        with pytest.raises(CompileError) as refused:
            load(path, LoadOptions(numerics=contract))
        assert REFUSALS[path.stem] in str(refused.value)
        return
    graph = load(path, LoadOptions(numerics=contract)).graph
    random = np.random.default_rng(0)
    inputs = [random_input(random, value) for value in graph.inputs]
    expected = reference(contract, path.read_bytes(), inputs, len(graph.outputs))
    outputs, _ = interp.run(graph, inputs)
    assert difference(outputs, expected) is None


def random_input(random: np.random.Generator, value: Value) -> np.ndarray:
    """Full range for quantized values, small numbers for plain integers, which may be indices."""
    dtype, shape = value.type.dtype, value.type.shape
    if dtype.is_float:
        return (random.standard_normal(shape) * 2).astype(dtype.numpy)
    low, high = (0, 2) if value.type.quant is None else (dtype.min, dtype.max)
    return random.integers(low, high, shape, endpoint=value.type.quant is not None).astype(dtype.numpy)


def reference(contract: Numerics, model: bytes, inputs: list[np.ndarray], outputs: int) -> list[np.ndarray]:
    """The runtime's outputs; the test is skipped where the runtime does not run the model."""
    try:
        if contract is Numerics.LITERT:
            return run_litert(model, inputs)
        return run_tflm(model, inputs, outputs, 1 << 26)
    except (RuntimeError, ValueError) as error:
        pytest.skip(f"the runtime does not run it: {str(error).splitlines()[0][:100]}")
