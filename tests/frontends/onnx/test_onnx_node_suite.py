"""The onnx package's backend node tests as a conformance suite: the expected outputs are the truth."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test import loader

from trivet import interp
from trivet.errors import CompileError
from trivet.frontends.onnx.convert import load
from trivet.frontends.onnx.ops import CONVERTERS
from trivet.frontends.options import LoadOptions

SKIPPED = {
    r"(?i)bfloat16|bf16|float8|float4|e8m0|e4m3fn|e5m2": "Trivet has no such element type",
    r"(?i)_u?int2(_|$)": "Trivet has no such element type",
    r"(?i)_to_u?int4|^test_quantizelinear_u?int4": "4-bit elements are for constants",
    r"^test_cumprod_(1d|2d)(?!_int32)": "arithmetic is single precision",
    r"col2im_5d": "one or two axes",
    r"equal_string": "text is no tensor of numbers",
    r"(?i)cast.*_no_saturate": "only 8-bit floats saturate",
    r"fp16|attention.*(float16|double)|(celu|swiglu)_float16|log_sum_exp_(?!.*empty)": "arithmetic is single precision",
    r"attention_local_window_gqa_rank4_mask_expanded": "arithmetic is single precision",
    r"softmax_precision": "arithmetic is single precision",
    r"batchnorm.*training_mode|training_dropout": "inference only",
    r"maxpool_with_argmax": "the indices of a pool are no result",
    r"resize.*tf_crop": "these coordinates are not converted",
    r"resize_downsample_scales_(linear|cubic)_align_corners": "onnxruntime places corners by the rounded size",
    r"mod_float_edge_cases_fmod_0_float32": "infinite operands",
    r"reduce_(max|min)_empty_set|log_sum_exp_empty_set": "the extremum of nothing",
}
"""Cases of converted operators that do not pass, by a pattern of the name, with the reason. None may pass after all."""

Case = Any


@cache
def covered() -> dict[str, list[Case]]:
    """Cases whose operators all have converters, by the kind of their first operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = loader.load_model_tests(kind="node")
    found: dict[str, list[Case]] = {}
    for case in cases:
        nodes = case.model.graph.node
        if all((node.domain.removeprefix("ai.onnx"), node.op_type) in CONVERTERS for node in nodes) and _is_plain(case):
            found.setdefault(nodes[0].op_type, []).append(case)
    return found


def _is_plain(case: Case) -> bool:
    """Tensors in and out, no bodies, no local functions."""
    ports = (*case.model.graph.input, *case.model.graph.output)
    bodies = any(a.type == onnx.AttributeProto.GRAPH for n in case.model.graph.node for a in n.attribute)
    return not case.model.functions and not bodies and all(p.type.WhichOneof("value") == "tensor_type" for p in ports)


def passes(case: Case, path: Path) -> str:
    """Empty, or why the case does not pass with any number of its leading inputs fed and the others bound."""
    path.write_bytes(case.model.SerializeToString())
    reason = ""
    for fed in _numbers_fed(case):
        try:
            return _difference(case, path, fed)
        except CompileError as error:
            reason = reason or str(error)
    return reason


def _numbers_fed(case: Case) -> Iterator[int]:
    """All inputs fed; or the first alone, as shapes and axes are operands here; or none."""
    count = len(case.model.graph.input)
    yield count
    if count > 1:
        yield 1
    if count > 0:
        yield 0


def _difference(case: Case, path: Path, fed: int) -> str:
    inputs, expected = ([_array(item) for item in items] for items in case.data_sets[0])
    names = [port.name for port in case.model.graph.input]
    given = list(zip(names, inputs, strict=True))
    options = LoadOptions(
        input_shapes={name: array.shape for name, array in given[:fed] if all(array.shape)},
        bindings=dict(given[fed:]),
    )
    with np.errstate(all="ignore"):
        graph = load(path, options).graph
        if [value.type.shape for value in graph.inputs] != [array.shape for array in inputs[:fed]]:
            raise CompileError("an empty input")
        outputs, _ = interp.run(graph, inputs[:fed])
    for found, wanted in zip(outputs, expected, strict=True):
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
        exact = found.dtype.kind != "f"
        if not np.allclose(found, wanted, rtol=0 if exact else case.rtol, atol=0 if exact else 1e-6, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(found.astype(np.float64) - wanted.astype(np.float64)))}"
    return ""


def _array(item: Any) -> np.ndarray:
    """Trivet keeps a 4-bit element in an array element of a byte."""
    array = onnx.numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)
    return array.astype({"int4": np.int8, "uint4": np.uint8}.get(array.dtype.name, array.dtype))


def skip_reason(name: str) -> str | None:
    return next((reason for pattern, reason in SKIPPED.items() if re.search(pattern, name)), None)


@pytest.mark.parametrize("kind", sorted({kind for domain, kind in CONVERTERS if not domain}))
def test_node_cases(kind: str, tmp_path: Path) -> None:
    failures: list[str] = []
    for case in covered().get(kind, []):
        difference, reason = passes(case, tmp_path / "model.onnx"), skip_reason(case.name)
        if difference and reason is None:
            failures.append(f"{case.name}: {difference}")
        if not difference and reason is not None:
            failures.append(f"{case.name}: passes although it is skipped: {reason}")
    assert not failures, "\n".join(failures)


def test_the_suite_covers_most_converters() -> None:
    """Guards against a loader that finds nothing."""
    assert sum(len(cases) for cases in covered().values()) > 800
    assert len(covered()) > 90
