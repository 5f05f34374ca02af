"""The runtimes that results are compared with; a test that needs an absent one is skipped, and says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

Arrays = Sequence[np.ndarray]


def run_litert(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Outputs of a .tflite model by LiteRT's reference kernels (no XNNPACK, no optimized kernels)."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    interpreter = litert.Interpreter(
        model_content=model,
        num_threads=1,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def run_tflm(model: bytes, inputs: Arrays, outputs: int = 1, arena_bytes: int = 1 << 22) -> list[np.ndarray]:
    """Outputs of a .tflite model by TensorFlow Lite Micro."""
    tflm = pytest.importorskip("tflite_micro", reason="tflite-micro is not installed").runtime
    interpreter = tflm.Interpreter.from_bytes(model, arena_size=arena_bytes)
    for index, array in enumerate(inputs):
        interpreter.set_input(array, index)
    interpreter.invoke()
    return [interpreter.get_output(index) for index in range(outputs)]


def run_onnxruntime(model: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of an ONNX model by onnxruntime on the CPU, nothing optimized."""
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))
