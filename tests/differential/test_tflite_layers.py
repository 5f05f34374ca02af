"""Every layer of every real TFLite network, each fed with the runtime's own tensors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from layers import layers, walk, with_outputs
from runners import TFLITE_REFUSALS
from suites import Case, difference, tflite_networks

from networks import load_arrays
from references import run_litert, run_tflm
from trivet.core.numerics import Numerics
from trivet.frontends.options import LoadOptions
from trivet.frontends.tflite import load

ARENA_BYTES = 1 << 26
WITHOUT_CODE = {
    "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SHAPE", "PACK", "STRIDED_SLICE", "READ_VARIABLE", "DEQUANTIZE", "DENSIFY",
}  # fmt: skip
"""Kinds that may be gone: views, shape arithmetic, states, constants of another type."""

NOT_RUN = {"mediapipe__selfie_segmentation"}
"""Networks with operators that the package of the runtime does not have."""

CASES = [case for case in tflite_networks() if case.path.stem not in {*TFLITE_REFUSALS, *NOT_RUN}] or [None]


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES, ids=[case.title if case else "shared-absent" for case in CASES])
def test_layers_equal_the_runtime(case: Case, shared: Path) -> None:
    model, inputs = case.path.read_bytes(), load_arrays(case.inputs_file, "in")
    names = Counter(layer.name for layer in layers(model))
    watched = [layer for layer in layers(model) if names[layer.name] == 1]
    reference = dict(zip((w.name for w in watched), run(case, model, inputs, watched), strict=True))

    graph = load(case.path, LoadOptions(numerics=case.numerics)).graph
    seen, wrong = set(), {}
    for value, computed, expected in walk(graph, inputs, reference):
        seen.add(value.name)
        if problem := difference([computed], [expected]):
            wrong[f"{value.producer.op.name} {value.name}"] = problem
    assert not wrong
    assert {w.kind for w in watched if w.name not in seen} <= WITHOUT_CODE


def run(case: Case, model: bytes, inputs: list[np.ndarray], watched: list) -> list[np.ndarray]:
    """The runtime's own tensors."""
    cut = with_outputs(model, [layer.tensor for layer in watched])
    if case.numerics is Numerics.TFLM:
        return run_tflm(cut, inputs, len(watched), ARENA_BYTES)
    return run_litert(cut, inputs)


@pytest.mark.shared
def test_layers_of_the_other_contract_are_noticed(shared: Path) -> None:
    """The comparison itself: TFLM's tensors are not what LiteRT's arithmetic gives on ad01."""
    case = next(c for c in tflite_networks() if c.path.stem == "tiny__ad01_int8" and c.numerics is Numerics.TFLM)
    model, inputs = case.path.read_bytes(), load_arrays(case.inputs_file, "in")
    watched = layers(model)
    reference = dict(zip((w.name for w in watched), run(case, model, inputs, watched), strict=True))
    graph = load(case.path, LoadOptions(numerics=Numerics.LITERT)).graph
    differing = [v.name for v, computed, expected in walk(graph, inputs, reference) if np.any(computed != expected)]
    assert differing
