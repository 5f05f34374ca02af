"""The reference runtimes that Trivet's results are compared with, where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.op import Array


@dataclass(frozen=True, slots=True)
class Reference:
    """A runtime for files of one suffix; `exact_for` is the contract that its integer results define."""

    name: str
    suffix: str
    exact_for: Numerics
    package: str
    module: str
    run: Callable[[Path, Sequence[Array]], list[Array]]

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None


class ReferenceRefused(Exception):
    """The reference runtime does not run this file; the message is its own."""


def _litert(path: Path, inputs: Sequence[Array]) -> list[Array]:
    module: Any = importlib.import_module("ai_edge_litert.interpreter")
    try:
        interpreter = module.Interpreter(
            str(path), experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF, num_threads=1
        )
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            if tuple(detail["shape"]) != array.shape:
                interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
    except (RuntimeError, ValueError) as error:
        raise ReferenceRefused(str(error).splitlines()[0]) from None


def _tflm(path: Path, inputs: Sequence[Array]) -> list[Array]:
    module: Any = importlib.import_module("tflite_micro.python.tflite_micro.runtime")
    try:
        interpreter = module.Interpreter.from_file(str(path), arena_size=64 << 20)
        for index, array in enumerate(inputs):
            interpreter.set_input(array, index)
        interpreter.invoke()
        return [np.array(interpreter.get_output(i)) for i in range(_tflm_outputs(path))]
    except (RuntimeError, ValueError, SystemError) as error:
        raise ReferenceRefused(str(error).splitlines()[0] if str(error) else "it stopped") from None


def _tflm_outputs(path: Path) -> int:
    schema: Any = importlib.import_module("tflite.Model")
    return int(schema.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0).OutputsLength())


def _onnxruntime(path: Path, inputs: Sequence[Array]) -> list[Array]:
    module: Any = importlib.import_module("onnxruntime")
    options = module.SessionOptions()
    options.graph_optimization_level = module.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = module.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = {i.name: a for i, a in zip(session.get_inputs(), inputs, strict=True)}
        return [np.asarray(a) for a in session.run(None, feeds)]
    except _onnxruntime_errors() as error:
        raise ReferenceRefused(str(error).splitlines()[0]) from None


def _onnxruntime_errors() -> tuple[type[Exception], ...]:
    """What onnxruntime raises for a model or inputs that it refuses; its exceptions have no base of their own."""
    module: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    named: list[type[Exception]] = [found for name in _ONNXRUNTIME_ERRORS if (found := getattr(module, name, None))]
    return (*named, RuntimeError, ValueError)


_ONNXRUNTIME_ERRORS = (
    "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded",
    "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NotFound", "NotImplemented", "RuntimeException",
)  # fmt: skip

REFERENCES = (
    Reference("TensorFlow Lite Micro", ".tflite", Numerics.TFLM, "tflite-micro", "tflite_micro", _tflm),
    Reference("LiteRT reference kernels", ".tflite", Numerics.LITERT, "ai-edge-litert", "ai_edge_litert", _litert),
    Reference("ONNX Runtime, unoptimized", ".onnx", Numerics.ONNX, "onnxruntime", "onnxruntime", _onnxruntime),
)


def references_for(path: Path) -> list[Reference]:
    """The references for a file, installed or not."""
    return [r for r in REFERENCES if r.suffix == path.suffix]
